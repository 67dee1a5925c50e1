//! Rules of Services, Endpoints and the kinds of `networking.k8s.io` and `discovery.k8s.io`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidateLoadBalancerStatus`
//! - `pkg/apis/networking/validation/validation.go`: `ValidateIngressLoadBalancerStatus`

mod endpoint_slice;
mod endpoints;
pub(super) mod forms;
mod ingress;
mod network_policy;
mod ranges;
pub(crate) mod service;

use sendo_apimachinery::addresses::parse_ip;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;

use super::check::{self, Errors};
use super::value::Read;
use super::{Rules, writes};

/// The rules of a kind of `networking.k8s.io` or `discovery.k8s.io`, or of `Service` and
/// `Endpoints` of the core group.
pub(super) fn rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "EndpointSlice" => const { &endpoint_slice::RULES },
        "Endpoints" => const { &endpoints::RULES },
        "IPAddress" => const { &ranges::IP_ADDRESS },
        "Ingress" => const { &ingress::RULES },
        "IngressClass" => const { &ingress::CLASS },
        "NetworkPolicy" => const { &network_policy::RULES },
        "Service" => const { &service::RULES },
        "ServiceCIDR" => const { &ranges::SERVICE_CIDR },
        _ => return None,
    })
}

/// For kinds without a status: a change of the spec increments the generation.
fn spec_moves_generation(new: &mut serde_json::Value, old: &serde_json::Value) {
    if new.at("spec") != old.at("spec") {
        writes::next_generation(new, old);
    }
}

/// Validates the host name of a load balancer, which must not be an IP address.
fn host_name(errors: &mut Errors, path: &Path, name: &str) {
    if name.is_empty() {
        return;
    }
    check::faults(errors, path, name, names::dns1123_subdomain(name));
    if parse_ip(name).is_some() {
        let fault = "must be a DNS name, not an IP address";
        errors.push(Error::invalid(path, name, fault));
    }
}
