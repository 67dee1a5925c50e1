//! Rules of Services.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Service`
//! - `pkg/apis/core/v1/conversion.go`: `AddFieldLabelConversionsForService`
//! - `pkg/registry/core/service/strategy.go`: `dropTypeDependentFields`, `SelectableFields`
//! - `pkg/registry/core/service/storage/storage.go`: `patchAllocatedValues`,
//!   `defaultOnReadInternalTrafficPolicy`
//! - `pkg/api/service/util.go`: `ExternallyAccessible`, `NeedsHealthCheck`
//! - `pkg/registry/core/service/storage/alloc.go`: `shouldAllocateNodePorts`

mod addresses;
mod families;
mod validate;
mod warnings;

pub(crate) use addresses::{is_headless, one_spelling, one_spelling_after};
pub(crate) use families::{is_same_preference, settle as settle_families};

use serde_json::{Value, json};

use crate::kinds::value::{Read, Write, is_zero};
use crate::kinds::{Cx, NAMESPACE, Rules, UnknownFields, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |_, service| service.set("status", json!({"loadBalancer": {}})),
    prepare_for_update,
    validate: |_, service| validate::create(service),
    validate_update: |_, new, old| validate::update(new, old),
    validate_status_update: |_, new, old| validate::status_update(new, old),
    // Older versions defaulted this field for `ExternalName` Services too, which have no traffic.
    canonicalize: |service| {
        if service.at("spec").text("type") == "ExternalName" {
            service.object("spec").remove("internalTrafficPolicy");
        }
    },
    warnings_on_create: warnings::for_service,
    warnings_on_update: |new, _| warnings::for_service(new),
    prepare_for_status_update: writes::status_with_metadata,
    selectable_fields: &[
        NAMESPACE,
        ("spec.clusterIP", |service| {
            service.at("spec").text("clusterIP").to_owned()
        }),
        ("spec.type", |service| {
            service.at("spec").text("type").to_owned()
        }),
    ],
    unknown_fields: UnknownFields::NotSupported,
    create_on_update: true,
    ..Rules::NEUTRAL
};

fn default(service: &mut Value) {
    let spec = service.object("spec");
    spec.default_if_zero("sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => spec.remove("sessionAffinityConfig"),
        "ClientIP" => {
            let config = spec.at("sessionAffinityConfig").at("clientIP");
            if !config.has("timeoutSeconds") {
                spec.set(
                    "sessionAffinityConfig",
                    json!({"clientIP": {"timeoutSeconds": 10800}}),
                );
            }
        }
        _ => {}
    }
    spec.default_if_zero("type", "ClusterIP");
    for port in spec.items_mut("ports") {
        port.default_if_zero("protocol", "TCP");
        let number = port.count("port");
        port.default_if_zero("targetPort", number);
    }
    if is_externally_accessible(spec) {
        spec.default_if_zero("externalTrafficPolicy", "Cluster");
    }
    if matches!(spec.text("type"), "ClusterIP" | "LoadBalancer" | "NodePort") {
        spec.default_to("internalTrafficPolicy", "Cluster");
    }
    if spec.text("type") == "LoadBalancer" {
        spec.default_to("allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = service.object("status").existing("loadBalancer") {
            for ingress in balancer.items_mut("ingress") {
                if !ingress.text("ip").is_empty() {
                    ingress.default_to("ipMode", "VIP");
                }
            }
        }
    }
}

fn is_externally_accessible(spec: &Value) -> bool {
    match spec.text("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.items("externalIPs").is_empty(),
        _ => false,
    }
}

fn prepare_for_update(_: &Cx<'_>, new: &mut Value, old: &Value) {
    new.copy_from("status", old);
    drop_fields_of_old_type(new.object("spec"), old.at("spec"));
    if new.at("spec").text("type") != "LoadBalancer" {
        new.object("status").set("loadBalancer", json!({}));
    }
}

/// Restores allocated cluster IPs, node ports and the health check port that an update leaves out.
pub(crate) fn keep_allocated(spec: &mut Value, old: &Value) {
    let has_address = |spec: &Value| spec.text("type") != "ExternalName";
    if has_address(spec) && has_address(old) {
        addresses::keep(spec, old);
    }
    if gets_node_ports(spec) && gets_node_ports(old) {
        let in_use = |port: &Value| {
            node_ports(spec).any(|own| own == port) && node_ports(old).any(|own| own == port)
        };
        let kept: Vec<Option<Value>> = spec
            .items("ports")
            .iter()
            .map(|port| {
                let mut before = old.items("ports").iter();
                let same = before.rfind(|old| old.text("name") == port.text("name"))?;
                let number = same.at("nodePort");
                let is_left_out = port.count("nodePort") == 0;
                (is_left_out && !is_zero(number) && !in_use(number)).then(|| number.clone())
            })
            .collect();
        for (port, number) in spec.items_mut("ports").iter_mut().zip(kept) {
            if let Some(number) = number {
                port.set("nodePort", number);
            }
        }
    }
    if needs_health_check_port(spec)
        && needs_health_check_port(old)
        && spec.count("healthCheckNodePort") == 0
    {
        spec.copy_from("healthCheckNodePort", old);
    }
}

/// Drops fields that depend on the old type if the type changes, unless the same update also
/// changes them.
fn drop_fields_of_old_type(new: &mut Value, old: &Value) {
    let same = |new: &Value, key: &str| new.at(key) == old.at(key);
    let lost = |new: &Value, has: fn(&Value) -> bool| has(old) && !has(new);
    if lost(new, |spec| spec.text("type") != "ExternalName") {
        if same(new, "clusterIP") && same(new, "clusterIPs") {
            new.remove("clusterIP");
            new.remove("clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(new, key) {
                new.remove(key);
            }
        }
    }
    if lost(new, needs_node_ports)
        && node_ports(new).all(|port| node_ports(old).any(|old| old == port))
    {
        for port in new.items_mut("ports") {
            port.remove("nodePort");
        }
    }
    if lost(new, needs_health_check_port) && same(new, "healthCheckNodePort") {
        new.remove("healthCheckNodePort");
    }
    if lost(new, |spec| spec.text("type") == "LoadBalancer") {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, key) {
                new.remove(key);
            }
        }
    }
    if lost(new, is_externally_accessible) && same(new, "externalTrafficPolicy") {
        new.remove("externalTrafficPolicy");
    }
}

/// Whether the type of the Service has node ports.
pub(crate) fn needs_node_ports(spec: &Value) -> bool {
    matches!(spec.text("type"), "LoadBalancer" | "NodePort")
}

/// Whether node ports are allocated for ports that request none.
pub(crate) fn gets_node_ports(spec: &Value) -> bool {
    match spec.text("type") {
        "NodePort" => true,
        "LoadBalancer" => spec.switch("allocateLoadBalancerNodePorts").unwrap_or(true),
        _ => false,
    }
}

/// Whether the Service has a health check node port.
pub(crate) fn needs_health_check_port(spec: &Value) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

fn node_ports(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.items("ports")
        .iter()
        .map(|port| port.at("nodePort"))
        .filter(|port| !is_zero(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_internal_and_forwards_to_the_same_port() {
        let mut service =
            json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]}});
        default(&mut service);
        assert_eq!(
            service["spec"],
            json!({
                "internalTrafficPolicy": "Cluster",
                "ports": [
                    {"port": 80, "protocol": "TCP", "targetPort": 80},
                    {"port": 81, "protocol": "TCP", "targetPort": "web"},
                ],
                "sessionAffinity": "None",
                "type": "ClusterIP",
            })
        );
    }

    #[test]
    fn a_load_balancer_allocates_node_ports() {
        let mut service = json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}});
        default(&mut service);
        assert_eq!(
            service["spec"],
            json!({
                "allocateLoadBalancerNodePorts": true,
                "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "type": "LoadBalancer",
            })
        );
    }

    #[test]
    fn a_change_of_type_drops_what_only_the_old_type_had() {
        let old = json!({"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                         "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30080}]});
        let mut new = old.clone();
        new["type"] = "ClusterIP".into();
        drop_fields_of_old_type(&mut new, &old);
        assert_eq!(
            new,
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}]})
        );
        new["type"] = "ExternalName".into();
        drop_fields_of_old_type(&mut new, &old);
        assert_eq!(
            new,
            json!({"type": "ExternalName", "ports": [{"port": 80}]})
        );
    }
}
