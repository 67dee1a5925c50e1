//! Warnings for deprecated or ignored fields of Services.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/api/service/warnings.go`: `GetWarningsForService`

use sendo_apimachinery::field::Path;
use serde_json::Value;

use super::addresses;
use crate::kinds::check;
use crate::kinds::network::forms::{cidr_warnings, ip_warnings};
use crate::kinds::value::Read;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";

/// Warnings for a new or changed service.
pub(super) fn for_service(service: &Value) -> Vec<String> {
    let (spec, path) = (service.at("spec"), Path::new("spec"));
    let is_headless = addresses::is_headless(spec);
    let is_external_name = spec.text("type") == "ExternalName";
    let has_external_ips = !spec.items("externalIPs").is_empty();
    let mut warnings = Vec::new();
    let ips = |key: &str| -> Vec<String> {
        let ips = check::texts(spec, key).enumerate();
        ips.filter_map(|(i, ip)| ip_warnings(&path.child(key).index(i), ip))
            .collect()
    };
    if service.at("metadata").at("annotations").has(HINTS) {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use {MODE} instead"
        ));
    }
    if !is_headless {
        warnings.extend(ips("clusterIPs"));
    }
    if is_headless {
        let ignored = [
            ("loadBalancerIP", !spec.text("loadBalancerIP").is_empty()),
            ("externalIPs", has_external_ips),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ];
        for (field, _) in ignored.into_iter().filter(|(_, is_set)| *is_set) {
            warnings.push(format!("spec.{field} is ignored for headless services"));
        }
    }
    warnings.extend(ips("externalIPs"));
    if has_external_ips && !is_headless && !is_external_name {
        let text =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    let ip = spec.text("loadBalancerIP");
    if !ip.is_empty() {
        warnings.extend(ip_warnings(&path.child("loadBalancerIP"), ip));
    }
    let ranges = check::texts(spec, "loadBalancerSourceRanges");
    for (i, range) in ranges.enumerate() {
        let path = path.child("loadBalancerSourceRanges").index(i);
        warnings.extend(cidr_warnings(&path, range));
    }
    if is_external_name && has_external_ips {
        let text = "spec.externalIPs is ignored when spec.type is \"ExternalName\"";
        warnings.push(text.to_owned());
    }
    if !is_external_name && !spec.text("externalName").is_empty() {
        let text = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(text.to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        let text =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_without_an_address_ignores_what_needs_one() {
        let spec = json!({"clusterIP": "None", "clusterIPs": ["None"], "sessionAffinity": "ClientIP",
                          "externalIPs": ["192.0.2.1"]});
        assert_eq!(
            for_service(&json!({"spec": spec})),
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ]
        );
    }
}
