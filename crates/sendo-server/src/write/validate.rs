//! The rules of an object's kind, as a write runs them: reset or restore what the
//! writer may not set, validate, warn, canonicalize.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/create.go`: `BeforeCreate`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/update.go`: `BeforeUpdate`

use sendo_apimachinery::field::Path;
use sendo_apimachinery::meta::{FinalizerNames, validate_create, validate_update};
use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::metadata;
use super::strategy::Strategy;
use crate::catalog::custom;
use crate::state::call::Call;

/// Completes a new object by its kind's rules, or refuses it.
pub(super) fn before_create(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let (resource, cx) = (call.resource, call.cx());
    resource.prepare_create(&cx, object);
    let errors = match resource.is_definition() {
        true => custom::validate_create(object, &call.server.types),
        false => resource.validate_create(&cx, object),
    };
    if !errors.is_empty() {
        let name = Meta::new(object).name();
        return Err(Status::invalid(&call.kind_of(object), name, &errors));
    }
    for warning in resource.warnings(object, None) {
        call.request.warn(warning);
    }
    (resource.rules.canonicalize)(object);
    Ok(())
}

/// Restores what a change may not touch, and refuses what is wrong with the rest.
pub(super) fn before_update(
    call: &Call<'_>,
    strategy: Strategy,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let (resource, cx) = (call.resource, call.cx());
    let managers = metadata::set_aside(new, old);
    strategy.prepare(resource, &cx, new, old);
    metadata::restore(new, old, managers);
    if let Strategy::Internal = strategy {
        return Ok(());
    }
    let path = Path::new("metadata");
    let mut errors = validate_create(Meta::new(new), &resource.metadata_rules(), &path);
    errors.extend(validate_update(
        Meta::new(new),
        Meta::new(old),
        FinalizerNames::Any,
        &path,
    ));
    let result = strategy.validate(resource, &cx, new, old);
    errors.extend(result.errors);
    if resource.is_definition() {
        errors.extend(match strategy {
            Strategy::Object => custom::validate_update(new, old, &call.server.types),
            _ => custom::validate_status(new),
        });
    }
    if !errors.is_empty() {
        let name = Meta::new(new).name();
        return Err(Status::invalid(&call.kind_of(new), name, &errors));
    }
    for tolerated in result.tolerated {
        call.request.warn(tolerated.to_string());
    }
    if let Strategy::Object | Strategy::Scale = strategy {
        for warning in resource.warnings(new, Some(old)) {
            call.request.warn(warning);
        }
    }
    (resource.rules.canonicalize)(new);
    Ok(())
}
