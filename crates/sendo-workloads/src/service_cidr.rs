//! Marks ServiceCIDRs as ready, and delays the deletion of those in use.
//!
//! A ServiceCIDR is ready once it has the finalizer. One that is deleted stays as long
//! as it has IPAddresses that no other ServiceCIDR contains, and for a grace period
//! after that, in which API servers that do not know of the deletion yet may allocate
//! another address from it.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/servicecidrs/servicecidrs_controller.go`

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use sendo::client::{CleanUp, Finalizer, Patch};
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{Action, Context, Controller, ObjectExt, ObjectKey, Result};
use serde_json::json;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
/// How long after its deletion timestamp a ServiceCIDR stays at least.
const GRACE: Duration = Duration::from_secs(10);

/// The controller of ServiceCIDRs.
pub fn controller() -> Controller {
    Controller::new::<ServiceCIDR>()
        .named("service-cidr-controller")
        .watches(
            kind::<ServiceCIDR>(),
            map_object(|changed: &ServiceCIDR, reader| {
                overlapping(reader.list::<ServiceCIDR>().iter(), changed)
            }),
        )
        .watches(
            kind::<IPAddress>(),
            map_object(|address: &IPAddress, reader| {
                let ranges: Vec<Arc<ServiceCIDR>> = reader.list::<ServiceCIDR>().iter().collect();
                let containing = ranges
                    .into_iter()
                    .filter(|range| contains(range, address.name()));
                containing
                    .map(|range| ObjectKey::cluster(range.name()))
                    .collect::<Vec<_>>()
            }),
        )
        .reconcile(sync)
}

/// The ServiceCIDRs that overlap with the changed one.
fn overlapping(
    all: impl Iterator<Item = Arc<ServiceCIDR>>,
    changed: &ServiceCIDR,
) -> Vec<ObjectKey> {
    let overlaps = |other: &Arc<ServiceCIDR>| {
        let mut networks = networks(other);
        networks.any(|own| self::networks(changed).any(|network| network.overlaps(&own)))
    };
    all.filter(overlaps)
        .map(|other| ObjectKey::cluster(other.name()))
        .collect()
}

async fn sync(range: Arc<ServiceCIDR>, cx: Context) -> Result<Action> {
    let finalizer = cx.finalizer(&range, FINALIZER, || clean_up(&range, &cx));
    if let Finalizer::Going(action) = finalizer.await? {
        return Ok(action);
    }
    if !is_ready(&range) {
        let condition = condition("True", "", "Kubernetes Service CIDR is ready", &cx);
        set_condition(&range, condition, &cx).await?;
    }
    Ok(Action::done())
}

async fn clean_up(range: &ServiceCIDR, cx: &Context) -> Result<CleanUp> {
    if is_needed(range, cx) {
        let why = "There are still IPAddresses referencing the ServiceCIDR, please remove them or \
                   create a new ServiceCIDR";
        set_condition(range, condition("False", "Terminating", why, cx), cx).await?;
        return Ok(CleanUp::Waiting);
    }
    let since = range.metadata.deletion_timestamp.as_ref();
    let until = since.map(|since| since.0 + GRACE);
    let left = until.and_then(|until| Duration::try_from(until - cx.now()).ok());
    Ok(match left {
        Some(left) if !left.is_zero() => CleanUp::Again(left),
        _ => CleanUp::Done,
    })
}

/// Whether the range contains an IPAddress that no other range contains.
fn is_needed(range: &ServiceCIDR, cx: &Context) -> bool {
    let ranges: Vec<Arc<ServiceCIDR>> = cx.list::<ServiceCIDR>().iter().collect();
    let others = || ranges.iter().filter(|other| other.name() != range.name());
    let addresses = cx.list::<IPAddress>();
    addresses.iter().any(|address| {
        contains(range, address.name()) && !others().any(|other| contains(other, address.name()))
    })
}

fn conditions(range: &ServiceCIDR) -> &[Condition] {
    let conditions = range
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

fn is_ready(range: &ServiceCIDR) -> bool {
    conditions(range)
        .iter()
        .any(|own| own.type_ == READY && own.status == "True")
}

fn condition(status: &str, reason: &str, message: &str, cx: &Context) -> Condition {
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(cx.now()),
        observed_generation: None,
    }
}

async fn set_condition(range: &ServiceCIDR, condition: Condition, cx: &Context) -> Result<()> {
    let same = |own: &Condition| own.type_ == READY && own.status == condition.status;
    if conditions(range).iter().any(same) {
        return Ok(());
    }
    let mut all = conditions(range).to_vec();
    all.retain(|own| own.type_ != READY);
    all.push(condition);
    let patch = Patch::Merge(json!({"status": {"conditions": all}}));
    cx.client().patch_status(range, patch).await?;
    Ok(())
}

/// A CIDR.
#[derive(Clone, Copy, Debug)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        Some(Network {
            address: address.parse().ok()?,
            prefix: prefix.parse().ok()?,
        })
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        let ((own, width), (other, _)) = (bits(self.address), bits(ip));
        let rest = width - self.prefix.min(width);
        let network = |bits: u128| bits.checked_shr(rest).unwrap_or(0);
        self.address.is_ipv4() == ip.is_ipv4() && network(own) == network(other)
    }

    fn overlaps(&self, other: &Network) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

fn networks(range: &ServiceCIDR) -> impl Iterator<Item = Network> + '_ {
    let texts = range
        .spec
        .iter()
        .flat_map(|spec| spec.cidrs.iter().flatten());
    texts.filter_map(|text| Network::parse(text))
}

fn contains(range: &ServiceCIDR, address: &str) -> bool {
    let address: Option<IpAddr> = address.parse().ok();
    address.is_some_and(|address| networks(range).any(|network| network.contains(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, address, inside) in [
            ("10.0.0.0/24", "10.0.0.255", true),
            ("10.0.0.0/24", "10.0.1.0", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("2001:db8::/64", "2001:db8::1", true),
            ("2001:db8::/64", "10.0.0.1", false),
        ] {
            let network = Network::parse(network).expect("a network");
            let address = address.parse().expect("an address");
            assert_eq!(network.contains(address), inside, "{network:?} {address}");
        }
    }
}
