//! Validation of Services and of their updates.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `validateService`, `ValidateServiceCreate`,
//!   `ValidateServiceUpdate`, `ValidateServiceStatusUpdate`, `ValidateLoadBalancerStatus`
//! - `pkg/api/service/util.go`: `GetLoadBalancerSourceRanges`

use sendo_apimachinery::addresses::{Form, validate_cidr, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::{addresses, is_externally_accessible, needs_health_check_port};
use crate::kinds::check::{self, Errors, PROTOCOLS};
use crate::kinds::network::endpoints::usable_ip;
use crate::kinds::network::host_name;
use crate::kinds::ordered::Ordered;
use crate::kinds::value::Read;

const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const NOT_EXTERNAL_NAME: &str = "may not be set for ExternalName services";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// The largest client IP session affinity timeout, in seconds: one day.
const MAX_AFFINITY: i64 = 86_400;

pub(super) fn create(service: &Value) -> Errors {
    let mut errors = check::new_metadata(service, Scope::Namespaced, names::dns1123_label);
    self::service(&mut errors, service, &Value::Null);
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let (spec, old_spec, path) = (new.at("spec"), old.at("spec"), Path::new("spec"));
    addresses::validate_update(&mut errors, spec, old_spec);
    let class = |spec: &Value| spec.at("loadBalancerClass").clone();
    let balanced = |spec: &Value| spec.text("type") == "LoadBalancer";
    if balanced(spec) && balanced(old_spec) && class(spec) != class(old_spec) {
        let fault = "may not change once set";
        errors.push(Error::invalid(
            &path.child("loadBalancerClass"),
            class(spec),
            fault,
        ));
    }
    load_balancer_class(&mut errors, &path, spec);
    let port = |spec: &Value| spec.count("healthCheckNodePort");
    if needs_health_check_port(spec)
        && needs_health_check_port(old_spec)
        && port(spec) != port(old_spec)
    {
        errors.push(Error::forbidden(
            &path.child("healthCheckNodePort"),
            "field is immutable",
        ));
    }
    service(&mut errors, new, old);
    errors
}

fn service(errors: &mut Errors, service: &Value, old: &Value) {
    let (spec, path) = (service.at("spec"), Path::new("spec"));
    topology_annotations(errors, service);
    let headless = addresses::is_headless(spec);
    if spec.items("ports").is_empty() && !headless && spec.text("type") != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    fields_of_type(errors, &path, spec, headless);
    ports(errors, &path.child("ports"), spec.items("ports"));
    check::labels(errors, &path.child("selector"), spec.at("selector"));
    session_affinity(errors, &path, spec);
    addresses::validate(errors, spec, old.at("spec"));
    for (i, ip) in check::texts(spec, "externalIPs").enumerate() {
        let path = path.child("externalIPs").index(i);
        let known = check::texts(old.at("spec"), "externalIPs").any(|old| old == ip);
        let faults = validate_ip(&path, ip, if known { Form::Sloppy } else { Form::Strict });
        match faults.is_empty() {
            true => usable_ip(errors, &path, ip),
            false => errors.extend(faults),
        }
    }
    check::required_one_of(errors, &path.child("type"), spec.text("type"), &TYPES);
    node_ports(errors, &path.child("ports"), spec);
    same_ports(errors, &path.child("ports"), spec.items("ports"));
    source_ranges(errors, service, old);
    let allocates = spec.has("allocateLoadBalancerNodePorts");
    match (spec.text("type") == "LoadBalancer", allocates) {
        (false, true) => {
            errors.push(Error::forbidden(
                &path.child("allocateLoadBalancerNodePorts"),
                ONLY_BALANCED,
            ));
        }
        (true, false) => errors.push(Error::required(
            &Path::new("allocateLoadBalancerNodePorts"),
            "",
        )),
        _ => {}
    }
    load_balancer_class(errors, &path, spec);
    traffic(errors, &path, spec);
}

fn topology_annotations(errors: &mut Errors, service: &Value) {
    let annotations = service.at("metadata").at("annotations");
    let (hints, mode) = (
        annotations.at(TOPOLOGY_HINTS),
        annotations.at(TOPOLOGY_MODE),
    );
    if !hints.is_null() && !mode.is_null() && hints != mode {
        let path = Path::new("metadata")
            .child("annotations")
            .key(TOPOLOGY_MODE);
        let fault = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(Error::invalid(&path, mode.clone(), fault));
    }
}

fn fields_of_type(errors: &mut Errors, path: &Path, spec: &Value, headless: bool) {
    match spec.text("type") {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let fault = format!("may not be set to 'None' for {kind} services");
            errors.push(Error::invalid(
                &path.child("clusterIPs").index(0),
                "None",
                fault,
            ));
        }
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies"] {
                if !spec.items(key).is_empty() {
                    errors.push(Error::forbidden(&path.child(key), NOT_EXTERNAL_NAME));
                }
            }
            if spec.has("ipFamilyPolicy") {
                errors.push(Error::forbidden(
                    &path.child("ipFamilyPolicy"),
                    NOT_EXTERNAL_NAME,
                ));
            }
            let name = spec.text("externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            check::required_name(
                errors,
                &path.child("externalName"),
                name,
                names::dns1123_subdomain,
            );
        }
        _ => {}
    }
}

fn ports(errors: &mut Errors, path: &Path, ports: &[Value]) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.text("name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(Error::required(&path.child("name"), ""));
        } else if !name.is_empty() {
            check::faults(
                errors,
                &path.child("name"),
                name,
                names::dns1123_label(name),
            );
            if seen.contains(&name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            } else {
                seen.push(name);
            }
        }
        let number = port.count("port");
        check::number_faults(
            errors,
            &path.child("port"),
            number,
            names::port_number(number),
        );
        check::required_one_of(
            errors,
            &path.child("protocol"),
            port.text("protocol"),
            &PROTOCOLS,
        );
        check::port_number_or_name(errors, &path.child("targetPort"), port.at("targetPort"));
        if let Some(protocol) = port.at("appProtocol").as_str() {
            check::label_name(errors, &path.child("appProtocol"), protocol);
        }
    }
}

fn session_affinity(errors: &mut Errors, path: &Path, spec: &Value) {
    let affinity = spec.text("sessionAffinity");
    check::required_one_of(
        errors,
        &path.child("sessionAffinity"),
        affinity,
        &["ClientIP", "None"],
    );
    let config_path = path.child("sessionAffinityConfig");
    let config = spec.at("sessionAffinityConfig");
    if affinity == "None" && !config.is_null() {
        errors.push(Error::forbidden(
            &config_path,
            "must not be set when session affinity is None",
        ));
    }
    if affinity != "ClientIP" {
        return;
    }
    let client_path = config_path.child("clientIP");
    let timeout_path = client_path.child("timeoutSeconds");
    let missing = if config.is_null() {
        Some(&config_path)
    } else if !config.has("clientIP") {
        Some(&client_path)
    } else if !config.at("clientIP").has("timeoutSeconds") {
        Some(&timeout_path)
    } else {
        None
    };
    if let Some(path) = missing {
        errors.push(Error::required(
            path,
            "when session affinity type is ClientIP",
        ));
        return;
    }
    let timeout = config.at("clientIP").count("timeoutSeconds");
    if timeout <= 0 || timeout > MAX_AFFINITY {
        let fault = format!("must be greater than 0 and less than {MAX_AFFINITY}");
        errors.push(Error::invalid(&timeout_path, timeout, fault));
    }
}

fn node_ports(errors: &mut Errors, path: &Path, spec: &Value) {
    let is_internal = spec.text("type") == "ClusterIP";
    let used = || {
        spec.items("ports")
            .iter()
            .enumerate()
            .filter(|(_, port)| port.count("nodePort") != 0)
    };
    for (i, _) in used().filter(|_| is_internal) {
        let fault = "may not be used when `type` is 'ClusterIP'";
        errors.push(Error::forbidden(&path.index(i).child("nodePort"), fault));
    }
    let mut seen: Vec<(&str, i64)> = Vec::new();
    for (i, port) in used() {
        let key = (port.text("protocol"), port.count("nodePort"));
        if seen.contains(&key) {
            errors.push(Error::duplicate(&path.index(i).child("nodePort"), key.1));
        }
        seen.push(key);
    }
}

/// Reports ports with the same number and protocol.
fn same_ports(errors: &mut Errors, path: &Path, ports: &[Value]) {
    let mut seen: Vec<(&str, i64)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let key = (port.text("protocol"), port.count("port"));
        if seen.contains(&key) {
            let shown = Ordered::new()
                .text("Name", "")
                .text("Protocol", key.0)
                .with("AppProtocol", &Value::Null)
                .with("Port", &key.1.into())
                .with("TargetPort", &0.into())
                .with("NodePort", &0.into());
            errors.push(Error::duplicate(&path.index(i), shown.bad_value()));
        }
        seen.push(key);
    }
}

/// Validates the source ranges of a load balancer, in the field or in its legacy annotation.
fn source_ranges(errors: &mut Errors, service: &Value, old: &Value) {
    let spec = service.at("spec");
    let is_balanced = spec.text("type") == "LoadBalancer";
    let annotation = |service: &Value| {
        service
            .at("metadata")
            .at("annotations")
            .at(SOURCE_RANGES)
            .clone()
    };
    if !spec.items("loadBalancerSourceRanges").is_empty() {
        // The path is spelled as in Kubernetes.
        let path = Path::new("spec").child("LoadBalancerSourceRanges");
        if !is_balanced {
            errors.push(Error::forbidden(&path, ONLY_BALANCED));
        }
        for (i, range) in check::texts(spec, "loadBalancerSourceRanges")
            .map(str::trim)
            .enumerate()
        {
            let mut before =
                check::texts(old.at("spec"), "loadBalancerSourceRanges").map(str::trim);
            let form = if before.any(|old| old == range) {
                Form::Sloppy
            } else {
                Form::Strict
            };
            errors.extend(validate_cidr(&path.index(i), range, form));
        }
    } else if let Some(ranges) = annotation(service).as_str() {
        let path = Path::new("metadata")
            .child("annotations")
            .key(SOURCE_RANGES);
        if !is_balanced {
            errors.push(Error::forbidden(&path, ONLY_BALANCED));
        }
        if annotation(old).as_str() != Some(ranges) && !ranges.trim().is_empty() {
            for range in ranges.split(',').map(str::trim) {
                errors.extend(validate_cidr(&path, range, Form::Strict));
            }
        }
    }
}

fn load_balancer_class(errors: &mut Errors, path: &Path, spec: &Value) {
    let Some(class) = spec.at("loadBalancerClass").as_str() else {
        return;
    };
    let path = path.child("loadBalancerClass");
    if spec.text("type") == "LoadBalancer" {
        check::label_name(errors, &path, class);
    } else {
        errors.push(Error::forbidden(&path, ONLY_BALANCED));
    }
}

fn traffic(errors: &mut Errors, path: &Path, spec: &Value) {
    let policies = ["Cluster", "Local"];
    let external = spec.text("externalTrafficPolicy");
    let external_path = path.child("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        check::required_one_of(errors, &external_path, external, &policies);
    } else if !external.is_empty() {
        let fault = "may only be set for externally-accessible services";
        errors.push(Error::invalid(&external_path, external, fault));
    }
    let port_path = path.child("healthCheckNodePort");
    match (
        needs_health_check_port(spec),
        spec.count("healthCheckNodePort"),
    ) {
        (false, 0) => {}
        (false, port) => {
            let fault = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(&port_path, port, fault));
        }
        (true, 0) => errors.push(Error::required(&port_path, "")),
        (true, port) => check::number_faults(errors, &port_path, port, names::port_number(port)),
    }
    let internal_path = path.child("internalTrafficPolicy");
    match spec.at("internalTrafficPolicy").as_str() {
        Some(policy) => check::one_of(errors, &internal_path, policy, &policies),
        None if matches!(spec.text("type"), "ClusterIP" | "LoadBalancer" | "NodePort") => {
            errors.push(Error::required(&internal_path, ""));
        }
        None => {}
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let distribution = spec.at("trafficDistribution");
    check::optional_one_of(
        errors,
        &path.child("trafficDistribution"),
        distribution,
        &distributions,
    );
}

/// Validates an update of the status: the addresses of the load balancer.
pub(super) fn status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let ingress = |service: &Value| {
        service
            .at("status")
            .at("loadBalancer")
            .items("ingress")
            .to_vec()
    };
    let (entries, before) = (ingress(new), ingress(old));
    if new.at("spec").text("type") != "LoadBalancer" {
        if !entries.is_empty() {
            let fault = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(Error::forbidden(&path, fault));
        }
        return errors;
    }
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let ip = entry.text("ip");
        if !ip.is_empty() {
            let known = before.iter().any(|old| old.text("ip") == ip);
            let form = if known { Form::Sloppy } else { Form::Strict };
            errors.extend(validate_ip(&path.child("ip"), ip, form));
        }
        let mode_path = path.child("ipMode");
        match (entry.at("ipMode").as_str(), ip.is_empty()) {
            (None, false) => errors.push(Error::required(
                &mode_path,
                "must be specified when `ip` is set",
            )),
            (None, true) => {}
            (Some(_), true) => {
                errors.push(Error::forbidden(
                    &mode_path,
                    "may not be specified when `ip` is not set",
                ));
            }
            (Some(mode), false) => check::one_of(&mut errors, &mode_path, mode, &["Proxy", "VIP"]),
        }
        host_name(&mut errors, &path.child("hostname"), entry.text("hostname"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(spec: Value) -> Vec<String> {
        let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
        super::super::default(&mut service);
        create(&service).iter().map(Error::to_string).collect()
    }

    #[test]
    fn services_need_ports_with_names_where_there_are_several() {
        let cases = [
            (json!({"ports": [{"port": 80}]}), vec![]),
            (json!({}), vec!["spec.ports: Required value"]),
            (json!({"clusterIP": "None", "clusterIPs": ["None"]}), vec![]),
            (
                json!({"type": "ExternalName", "externalName": "a.example."}),
                vec![],
            ),
            (
                json!({"type": "ExternalName"}),
                vec!["spec.externalName: Required value"],
            ),
            (
                json!({"ports": [{"port": 80}, {"name": "b", "port": 0}]}),
                vec![
                    "spec.ports[0].name: Required value",
                    "spec.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[1].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                json!({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}),
                vec![concat!(
                    "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,",
                    "\"Port\":80,\"TargetPort\":0,\"NodePort\":0}"
                )],
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(faults(spec), expected);
        }
    }

    #[test]
    fn node_ports_are_of_the_types_that_use_them() {
        let ports = json!([{"port": 80, "nodePort": 30080}]);
        assert_eq!(
            faults(json!({"type": "NodePort", "ports": ports})),
            Vec::<String>::new()
        );
        assert_eq!(
            faults(json!({"ports": ports})),
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]
        );
    }

    #[test]
    fn external_traffic_has_a_policy_only_where_there_is_some() {
        assert_eq!(
            faults(json!({"ports": [{"port": 80}], "externalTrafficPolicy": "Local"})),
            [
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services"
            ]
        );
    }
}
