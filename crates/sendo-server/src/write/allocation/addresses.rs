//! Cluster addresses, kept as IPAddress objects.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/service/ipallocator/ipallocator.go`
//! - `pkg/registry/core/service/storage/alloc.go`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sendo_apimachinery::addresses::{Cidr, ip_text, parse_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::{Meta, Status, go_quote};
use sendo_store::{At, Key, KeyRange};
use serde_json::{Value, json};

use super::refuse;
use crate::catalog::keys::Keys;
use crate::catalog::storage::{backend, time_text};
use crate::kinds::service;
use crate::kinds::value::{Read, Write};
use crate::state::admission::Claims;
use crate::state::call::Call;

/// Which part of a network is left to those who ask for an address by name:
/// a sixteenth, but so many addresses at least and at most.
const NAMED: (u128, u128) = (16, 256);

/// The address of a network that is given out first.
pub(super) fn first(cidr: &Cidr) -> IpAddr {
    AddressRange::new(cidr).address(AddressRange::new(cidr).first)
}

/// The addresses of a network that can be given out.
#[derive(Clone, Copy, Debug)]
struct AddressRange {
    first: u128,
    last: u128,
    is_four: bool,
}

impl AddressRange {
    /// All but the network's own address and, in IPv4, the one for all its members.
    fn new(cidr: &Cidr) -> Self {
        let (network, width, is_four) = match cidr.network() {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32, true),
            IpAddr::V6(ip) => (ip.to_bits(), 128, false),
        };
        let hosts = 1u128.checked_shl(width - u32::from(cidr.prefix));
        let size = hosts.map_or(u128::MAX, |hosts| hosts - 1);
        AddressRange {
            first: network.saturating_add(1),
            last: network + size - u128::from(is_four && size > 0),
            is_four,
        }
    }

    fn size(&self) -> u128 {
        (self.last + 1).saturating_sub(self.first)
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let bits = match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        ip.is_ipv4() == self.is_four && (self.first..=self.last).contains(&bits)
    }

    fn address(&self, bits: u128) -> IpAddr {
        match u32::try_from(bits) {
            Ok(bits) if self.is_four => Ipv4Addr::from_bits(bits).into(),
            _ => Ipv6Addr::from_bits(bits).into(),
        }
    }

    /// What is given to those who ask for any address, and what only once that is used up.
    fn parts(self) -> [AddressRange; 2] {
        let size = self.size() + 1 + u128::from(self.is_four);
        let named = match size {
            ..=16 => 0,
            _ => (size / 16).clamp(NAMED.0, NAMED.1),
        };
        let middle = self.first + named;
        [
            AddressRange {
                first: middle,
                ..self
            },
            AddressRange {
                last: middle - 1,
                ..self
            },
        ]
    }
}

fn keys() -> Keys {
    Keys::new("networking.k8s.io", "ipaddresses", false)
}

fn key(ip: IpAddr) -> Key {
    keys().object(None, &ip_text(ip))
}

/// Gives a service an address of each of its families; those it names, if they are to be had.
pub(super) async fn allocate_all(
    call: &Call<'_>,
    claims: &mut Claims,
    object: &mut Value,
) -> Result<(), Status> {
    let spec = object.at("spec");
    if spec.text("type") == "ExternalName" || service::is_headless(spec) {
        return Ok(());
    }
    for i in 0..spec.items("ipFamilies").len() {
        allocate(call, claims, object, i).await?;
    }
    Ok(())
}

/// Gives and takes back what a change of type or families makes necessary.
pub(super) async fn on_update(
    call: &Call<'_>,
    claims: &mut Claims,
    new: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let (spec, was) = (new.at("spec"), old.at("spec"));
    if service::is_same_preference(spec, was) {
        return Ok(());
    }
    let is_name = |spec: &Value| spec.text("type") == "ExternalName";
    if is_name(was) && !is_name(spec) {
        return allocate_all(call, claims, new).await;
    }
    // Validation refuses to take an address away, or to give one, in any other way.
    if is_name(was) || service::is_headless(was) || service::is_headless(spec) {
        return Ok(());
    }
    if is_name(spec) {
        on_delete(claims, was);
        return Ok(());
    }
    match (
        was.items("ipFamilies").len(),
        spec.items("ipFamilies").len(),
    ) {
        (1, 2) => allocate(call, claims, new, 1).await?,
        (2, 1) => free(claims, was.items("clusterIPs").get(1)),
        _ => {}
    }
    Ok(())
}

/// Takes back all addresses of a service.
pub(super) fn on_delete(claims: &mut Claims, spec: &Value) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    for ip in spec.items("clusterIPs") {
        free(claims, Some(ip));
    }
}

fn free(claims: &mut Claims, ip: Option<&Value>) {
    if let Some(ip) = ip.and_then(Value::as_str).and_then(parse_ip) {
        claims.free(key(ip));
    }
}

/// Gives a service the address of its `i`th family.
async fn allocate(
    call: &Call<'_>,
    claims: &mut Claims,
    object: &mut Value,
    i: usize,
) -> Result<(), Status> {
    let spec = object.at("spec");
    let is_four = spec.items("ipFamilies")[i] == "IPv4";
    let spans: Vec<AddressRange> = ready_networks(call)
        .await?
        .iter()
        .map(AddressRange::new)
        .filter(|span| span.is_four == is_four)
        .collect();
    let named = spec.items("clusterIPs").get(i).and_then(Value::as_str);
    let ip = match named.filter(|ip| !ip.is_empty()) {
        Some(text) => named_address(call, claims, object, text, &spans).await?,
        None => any_address(call, claims, object, &spans).await?,
    };
    let entry = ip_address(call, object, ip)?;
    claims.take(key(ip), entry);
    let text = named
        .filter(|ip| !ip.is_empty())
        .map_or_else(|| ip_text(ip), str::to_owned);
    let spec = object.object("spec");
    let mut ips = spec.items("clusterIPs").to_vec();
    ips.resize(ips.len().max(i + 1), Value::from(""));
    ips[i] = text.as_str().into();
    spec.set("clusterIPs", ips);
    if i == 0 {
        spec.set("clusterIP", text);
    }
    Ok(())
}

async fn named_address(
    call: &Call<'_>,
    claims: &Claims,
    object: &Value,
    text: &str,
    spans: &[AddressRange],
) -> Result<IpAddr, Status> {
    let fault = match parse_ip(text) {
        Some(ip) if spans.iter().any(|span| span.contains(ip)) => {
            if claims.is_free(call, &key(ip)).await? {
                return Ok(ip);
            }
            "provided IP is already allocated"
        }
        _ => "the provided network does not match the current range",
    };
    let error = Error::invalid(
        &Path::new("spec").child("clusterIPs"),
        object.at("spec").at("clusterIPs").clone(),
        format!("failed to allocate IP {text}: {fault}"),
    );
    Err(refuse(call, object, &[error]))
}

/// An address that is free: looked for from a random place on, above what is left to those who ask by name.
async fn any_address(
    call: &Call<'_>,
    claims: &Claims,
    object: &Value,
    spans: &[AddressRange],
) -> Result<IpAddr, Status> {
    for span in spans.iter().flat_map(|span| span.parts()) {
        let size = u64::try_from(span.size()).unwrap_or(u64::MAX);
        if size == 0 {
            continue;
        }
        let start = u128::from(call.server.world.random().below(0..size));
        for step in 0..span.size() {
            let ip = span.address(span.first + (start + step) % span.size());
            if claims.is_free(call, &key(ip)).await? {
                return Ok(ip);
            }
        }
    }
    let name = go_quote(Meta::new(object).name());
    Err(Status::internal_error(format!(
        "failed to allocate a serviceIP for Service {name}: range is full"
    )))
}

/// The networks of all ServiceCIDRs that addresses may be taken from now.
async fn ready_networks(call: &Call<'_>) -> Result<Vec<Cidr>, Status> {
    let keys = Keys::new("networking.k8s.io", "servicecidrs", false);
    let range = KeyRange::prefix(&keys.collection(None));
    let page = call
        .server
        .store
        .range(range, At::Latest, None)
        .await
        .map_err(backend)?;
    let mut networks = Vec::new();
    for entry in &page.entries {
        let cidr: Value =
            serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
        let conditions = cidr.at("status").items("conditions");
        let is_ready = conditions
            .iter()
            .any(|own| own.text("type") == "Ready" && own.text("status") == "True");
        if is_ready && Meta::new(&cidr).deletion_timestamp().is_none() {
            let texts = cidr.at("spec").items("cidrs").iter();
            networks.extend(texts.filter_map(|text| Cidr::parse(text.as_str()?)));
        }
    }
    Ok(networks)
}

/// The stored form of the object that says whose an address is.
fn ip_address(call: &Call<'_>, owner: &Value, ip: IpAddr) -> Result<bytes::Bytes, Status> {
    let catalog = call.server.catalog();
    let resource = catalog
        .find("networking.k8s.io", "v1", "ipaddresses")
        .ok_or_else(Status::no_such_resource)?;
    let owner = Meta::new(owner);
    let mut address = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": ip_text(ip),
            "uid": call.server.world.random().uuid(),
            "creationTimestamp": time_text(call.now()),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "group": "",
            "resource": "services",
            "namespace": owner.namespace(),
            "name": owner.name(),
        }},
    });
    Ok(call.server.encode(resource, &mut address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> AddressRange {
        AddressRange::new(&Cidr::parse(text).expect("a network"))
    }

    fn ends(span: AddressRange) -> (String, String) {
        let text = |bits| span.address(bits).to_string();
        (text(span.first), text(span.last))
    }

    #[test]
    fn a_networks_own_address_and_its_broadcast_are_kept() {
        let (first, last) = ends(span("10.96.0.0/12"));
        assert_eq!(
            (first.as_str(), last.as_str()),
            ("10.96.0.1", "10.111.255.254")
        );
        let (first, last) = ends(span("fd00::/108"));
        assert_eq!((first.as_str(), last.as_str()), ("fd00::1", "fd00::f:ffff"));
    }

    #[test]
    fn the_lower_part_is_left_to_those_who_ask_by_name() {
        for (network, last) in [
            ("10.96.0.0/12", "10.96.1.0"),
            ("10.0.0.0/24", "10.0.0.16"),
            ("10.0.0.0/20", "10.0.1.0"),
        ] {
            let [any, named] = span(network).parts();
            assert_eq!(named.address(named.last).to_string(), last, "{network}");
            assert_eq!(any.first, named.last + 1);
        }
        let [any, named] = span("10.0.0.0/28").parts();
        assert_eq!((any.size(), named.size()), (14, 0));
    }

    #[test]
    fn tiny_networks_have_little_or_nothing_to_give() {
        assert_eq!(span("10.0.0.0/30").size(), 2);
        assert_eq!(span("10.0.0.0/32").size(), 0);
        assert_eq!(span("fd00::/127").size(), 1);
    }
}
