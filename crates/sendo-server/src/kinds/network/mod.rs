//! Services, their endpoints, and the rules for traffic.

mod endpoint_slice;
mod endpoints;
mod ingress;
mod network_policy;
mod service;

use serde_json::json;

use super::value::{Read, Write};
use super::{Rules, writes};

/// The rules of a kind of `networking.k8s.io` or `discovery.k8s.io`, or of the services of core.
pub(super) fn rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "EndpointSlice" => const { &endpoint_slice::RULES },
        "Endpoints" => const { &endpoints::RULES },
        "Ingress" => const { &ingress::RULES },
        "IngressClass" => const { &ingress::CLASS },
        "NetworkPolicy" => const { &network_policy::RULES },
        "Service" => const { &service::RULES },
        "ServiceCIDR" => const { &SERVICE_CIDR },
        _ => return None,
    })
}

const SERVICE_CIDR: Rules = Rules {
    prepare_for_create: |_, cidr| cidr.set("status", json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    ..Rules::NEUTRAL
};

/// For kinds without a status: a change of the spec raises the generation.
fn spec_moves_generation(new: &mut serde_json::Value, old: &serde_json::Value) {
    if new.at("spec") != old.at("spec") {
        writes::next_generation(new, old);
    }
}
