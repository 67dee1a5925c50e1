//! What services are given out of the cluster's ranges: addresses and node ports.
//!
//! Each address and each port that is given out is a key of its own in the store,
//! written in the same transaction as the service that holds it, under the condition
//! that it was not there. So nothing is ever given out twice, a write that fails holds
//! nothing, and a restarted server knows what is taken. Addresses are kept as the
//! IPAddress objects of Kubernetes; ports, of which its API shows nothing, below a
//! prefix of their own.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/service/storage/storage.go`
//! - `pkg/registry/core/service/storage/alloc.go`

mod addresses;
mod ports;

use std::net::IpAddr;

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use crate::catalog::keys::Keys;
use crate::kinds::service;
use crate::kinds::value::{Read, Write};
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::service_ranges::ServiceRanges;

/// The address of the service `kubernetes`, which stands for the server itself: the first there is.
pub(crate) fn first_address(ranges: &ServiceRanges) -> Option<IpAddr> {
    ranges.cidrs.first().map(addresses::first)
}

/// Whether objects of this resource are given anything.
pub(super) fn claims_for(call: &Call<'_>) -> bool {
    call.resource.is_core("services")
}

/// Gives an object what it needs, and takes back what it needs no more.
///
/// What is claimed may be gone when it is written: the transaction then fails on
/// a key that is not the object's, and the claims are to be made anew.
pub(super) async fn claim(
    call: &Call<'_>,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<Claims, Status> {
    let mut claims = Claims::default();
    if !claims_for(call) {
        return Ok(claims);
    }
    match old {
        None => {
            service::one_spelling(new.object("spec"));
            settle_families(call, new, None)?;
            addresses::allocate_all(call, &mut claims, new).await?;
            ports::on_create(call, &mut claims, new).await?;
        }
        Some(old) => {
            service::keep_allocated(new.object("spec"), old.at("spec"));
            service::one_spelling_after(new.object("spec"), old.at("spec"));
            settle_families(call, new, Some(old))?;
            addresses::on_update(call, &mut claims, new, old).await?;
            ports::on_update(call, &mut claims, new, old).await?;
        }
    }
    Ok(claims)
}

/// Takes back what an object that goes away was given.
pub(super) fn on_delete(call: &Call<'_>, object: &Value) -> Claims {
    let mut claims = Claims::default();
    if !claims_for(call) {
        return claims;
    }
    addresses::on_delete(&mut claims, object.at("spec"));
    ports::on_delete(&mut claims, object.at("spec"));
    // A service of the same name must not find the endpoints of this one.
    let meta = Meta::new(object);
    let endpoints = Keys::new("", "endpoints", true);
    claims.free(endpoints.object(Some(meta.namespace()), meta.name()));
    claims
}

fn settle_families(call: &Call<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    let families = call.server.services.families();
    let old = old.map(|old| old.at("spec"));
    service::settle_families(object.object("spec"), old, &families)
        .map_err(|errors| refuse(call, object, &errors))
}

fn refuse(call: &Call<'_>, object: &Value, errors: &[sendo_apimachinery::field::Error]) -> Status {
    Status::invalid(
        &call.resource.group_kind(),
        Meta::new(object).name(),
        errors,
    )
}
