//! Node ports, each a key of its own.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/service/portallocator/allocator.go`
//! - `pkg/registry/core/service/storage/alloc.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::{Meta, Status};
use sendo_store::Key;
use serde_json::Value;

use super::refuse;
use crate::kinds::service;
use crate::kinds::value::{Read, Write};
use crate::state::admission::Claims;
use crate::state::call::Call;

/// Below this, every port that is taken has a key.
const PREFIX: &str = "/registry/ranges/servicenodeports/";

fn key(port: i64) -> Key {
    format!("{PREFIX}{port}").into()
}

/// Why a port cannot be had.
enum Refusal {
    /// In the words of whoever asked.
    Why(String),
    /// The store failed.
    Failed(Status),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal::Failed(status)
    }
}

/// Gives a new service its node ports.
pub(super) async fn on_create(
    call: &Call<'_>,
    claims: &mut Claims,
    object: &mut Value,
) -> Result<(), Status> {
    if service::needs_node_ports(object.at("spec")) {
        for i in 0..object.at("spec").items("ports").len() {
            first_port(call, claims, object, i).await?;
        }
    }
    if service::needs_health_check_port(object.at("spec")) {
        health_check_port(call, claims, object).await?;
    }
    Ok(())
}

/// Gives the `i`th port of a new service its node port. Ports of one number share one, whatever their protocols.
async fn first_port(
    call: &Call<'_>,
    claims: &mut Claims,
    object: &mut Value,
    i: usize,
) -> Result<(), Status> {
    let spec = object.at("spec");
    let ports = spec.items("ports");
    let (number, own) = (ports[i].count("port"), ports[i].count("nodePort"));
    if own == 0 && !service::gets_node_ports(spec) {
        return Ok(());
    }
    let same_number = |port: &&Value| port.count("port") == number && port.count("nodePort") != 0;
    let before = ports[..i]
        .iter()
        .find(same_number)
        .map(|port| port.count("nodePort"));
    let asked = ports[i..]
        .iter()
        .find(same_number)
        .map(|port| port.count("nodePort"));
    let given = match (before, asked) {
        (Some(before), _) if own == 0 || own == before => before,
        (Some(_), _) => named_port_of(call, claims, object, i, own).await?,
        (None, Some(asked)) => named_port_of(call, claims, object, i, asked).await?,
        (None, None) => any_port_of(call, claims, object).await?,
    };
    object.object("spec").items_mut("ports")[i].set("nodePort", given);
    Ok(())
}

/// Gives a changed service the node ports it lacks, and takes back those it has given up.
pub(super) async fn on_update(
    call: &Call<'_>,
    claims: &mut Claims,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let was: Vec<i64> = node_ports(old.at("spec")).collect();
    if service::needs_node_ports(new.at("spec")) {
        let mut held: Vec<i64> = was.clone();
        for i in 0..new.at("spec").items("ports").len() {
            let spec = new.at("spec");
            let own = spec.items("ports")[i].count("nodePort");
            if own == 0 && service::gets_node_ports(spec) {
                let given = any_port_of(call, claims, new).await?;
                new.object("spec").items_mut("ports")[i].set("nodePort", given);
            } else if own != 0 && !held.contains(&own) {
                named_port_of(call, claims, new, i, own).await?;
                held.push(own);
            }
        }
        let now: Vec<i64> = node_ports(new.at("spec")).collect();
        for port in was.iter().filter(|port| !now.contains(port)) {
            claims.free(key(*port));
        }
    } else if service::needs_node_ports(old.at("spec")) {
        was.iter().for_each(|port| claims.free(key(*port)));
    }
    match (
        service::needs_health_check_port(old.at("spec")),
        service::needs_health_check_port(new.at("spec")),
    ) {
        (false, true) => health_check_port(call, claims, new).await,
        (true, false) => {
            claims.free(key(old.at("spec").count("healthCheckNodePort")));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Takes back all ports of a service.
pub(super) fn on_delete(claims: &mut Claims, spec: &Value) {
    for port in node_ports(spec) {
        claims.free(key(port));
    }
    if service::needs_health_check_port(spec) {
        claims.free(key(spec.count("healthCheckNodePort")));
    }
}

fn node_ports(spec: &Value) -> impl Iterator<Item = i64> {
    let ports = spec
        .items("ports")
        .iter()
        .map(|port| port.count("nodePort"));
    ports.filter(|port| *port != 0)
}

async fn health_check_port(
    call: &Call<'_>,
    claims: &mut Claims,
    object: &mut Value,
) -> Result<(), Status> {
    let port = object.at("spec").count("healthCheckNodePort");
    let given = match port {
        0 => any_port(call, claims, object).await,
        port => named_port(call, claims, object, port).await,
    };
    let given = given.map_err(|refusal| match (refusal, port) {
        (Refusal::Failed(status), _) => status,
        (Refusal::Why(why), 0) => Status::internal_error(format!(
            "failed to allocate a HealthCheck NodePort 0: {why}"
        )),
        (Refusal::Why(why), port) => Status::internal_error(format!(
            "failed to allocate requested HealthCheck NodePort {port}: {why}"
        )),
    })?;
    object.object("spec").set("healthCheckNodePort", given);
    Ok(())
}

async fn named_port_of(
    call: &Call<'_>,
    claims: &mut Claims,
    object: &Value,
    i: usize,
    port: i64,
) -> Result<i64, Status> {
    let taken = named_port(call, claims, object, port).await;
    taken.map_err(|refusal| match refusal {
        Refusal::Failed(status) => status,
        Refusal::Why(why) => {
            let path = Path::new("spec").child("ports").index(i).child("nodePort");
            refuse(call, object, &[Error::invalid(&path, port, why)])
        }
    })
}

async fn any_port_of(call: &Call<'_>, claims: &mut Claims, object: &Value) -> Result<i64, Status> {
    let taken = any_port(call, claims, object).await;
    taken.map_err(|refusal| match refusal {
        Refusal::Failed(status) => status,
        Refusal::Why(why) => {
            Status::internal_error(format!("failed to allocate a nodePort: {why}"))
        }
    })
}

async fn named_port(
    call: &Call<'_>,
    claims: &mut Claims,
    owner: &Value,
    port: i64,
) -> Result<i64, Refusal> {
    let range = &call.server.services.node_ports;
    if !u16::try_from(port).is_ok_and(|port| range.contains(&port)) {
        return Err(Refusal::Why(format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            range.start(),
            range.end()
        )));
    }
    if !claims.is_free(call, &key(port)).await? {
        return Err(Refusal::Why(
            "provided port is already allocated".to_owned(),
        ));
    }
    take(claims, owner, port);
    Ok(port)
}

/// A port that is free: looked for from a random place on, above the part that is left to those who ask by number.
async fn any_port(call: &Call<'_>, claims: &mut Claims, owner: &Value) -> Result<i64, Refusal> {
    let range = &call.server.services.node_ports;
    let (first, last) = (i64::from(*range.start()), i64::from(*range.end()));
    let middle = first + named_part(last - first + 1);
    for (first, last) in [(middle, last), (first, middle - 1)] {
        let size = u64::try_from(last - first + 1).unwrap_or(0);
        if size == 0 {
            continue;
        }
        let start = call.server.world.random().below(0..size);
        for step in 0..size {
            let port = first + i64::try_from((start + step) % size).unwrap_or(0);
            if claims.is_free(call, &key(port)).await? {
                take(claims, owner, port);
                return Ok(port);
            }
        }
    }
    Err(Refusal::Why("range is full".to_owned()))
}

/// How many ports of a range are left to those who ask by number.
fn named_part(size: i64) -> i64 {
    if size <= 16 {
        return 0;
    }
    (size / 32).clamp(16, 128)
}

fn take(claims: &mut Claims, owner: &Value, port: i64) {
    let owner = Meta::new(owner);
    claims.take(key(port), format!("{}/{}", owner.namespace(), owner.name()));
}

#[cfg(test)]
mod tests {
    use super::named_part;

    #[test]
    fn the_lower_part_is_left_to_those_who_ask_by_number() {
        for (size, part) in [(10, 0), (16, 0), (17, 16), (2768, 86), (10000, 128)] {
            assert_eq!(named_part(size), part);
        }
    }
}
