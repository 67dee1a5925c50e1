//! Rules of Ingresses and IngressClasses.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/networking/validation/validation.go`: `ValidateIngressCreate`,
//!   `ValidateIngressUpdate`, `ValidateIngressStatusUpdate`, `ValidateIngressClass`,
//!   `ValidateIngressClassUpdate`
//! - `pkg/apis/networking/v1/defaults.go`: `SetDefaults_IngressClass`
//! - `pkg/registry/networking/ingress/strategy.go`
//! - `pkg/registry/networking/ingressclass/strategy.go`

use sendo_apimachinery::addresses::{Form, parse_ip, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::Value;

use super::host_name;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    prepare_for_create: writes::starts_without_status,
    prepare_for_update: writes::spec_moves_generation,
    prepare_for_status_update: writes::status_with_metadata,
    validate: |_, ingress| {
        let mut errors = validate(ingress, &Value::Null);
        class_annotation(&mut errors, ingress);
        errors
    },
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        errors.extend(validate(new, old));
        errors
    },
    validate_status_update: |_, new, old| status_update(new, old),
    warnings_on_create: |ingress| {
        let is_annotated = ingress
            .at("metadata")
            .at("annotations")
            .has(CLASS_ANNOTATION);
        let warns = is_annotated && !ingress.at("spec").has("ingressClassName");
        let text = format!(
            "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        );
        warns.then_some(text).into_iter().collect()
    },
    ..Rules::NEUTRAL
};

pub(super) const CLASS: Rules = Rules {
    default: |class| {
        if let Some(parameters) = class.object("spec").existing("parameters") {
            parameters.default_to("scope", "Cluster");
        }
    },
    prepare_for_create: |_, class| writes::first_generation(class),
    prepare_for_update: |_, new, old| super::spec_moves_generation(new, old),
    validate: |_, class| validate_class(class),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        let controller = |class: &Value| Value::from(class.at("spec").text("controller"));
        check::immutable(
            &mut errors,
            &Path::new("spec").child("controller"),
            &controller(new),
            &controller(old),
        );
        errors.extend(validate_class(new));
        errors
    },
    ..Rules::NEUTRAL
};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const NOT_AN_IP: &str = "must be a DNS name, not an IP address";
const MAX_CONTROLLER: usize = 250;

fn validate(ingress: &Value, old: &Value) -> Errors {
    let mut errors = check::new_metadata(ingress, Scope::Namespaced, names::dns1123_subdomain);
    let (spec, path) = (ingress.at("spec"), Path::new("spec"));
    let has_default = spec.has("defaultBackend");
    if spec.items("rules").is_empty() && !has_default {
        let fault = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&path, spec.at("rules").clone(), fault));
    }
    if has_default {
        let path = path.child("defaultBackend");
        backend(&mut errors, &path, spec.at("defaultBackend"));
    }
    let allow_bad_wildcards = old.at("spec").items("rules").iter().any(|rule| {
        let mut found = Vec::new();
        paths(&mut found, &Path::root(), rule);
        rule.text("host").contains('*') && !found.is_empty()
    });
    for (i, rule) in spec.items("rules").iter().enumerate() {
        let path = path.child("rules").index(i);
        let host = rule.text("host");
        if !host.is_empty() {
            let path = path.child("host");
            if parse_ip(host).is_some() {
                errors.push(Error::invalid(&path, host, NOT_AN_IP));
            }
            host_pattern(&mut errors, &path, host);
        }
        if !(host.contains('*') && allow_bad_wildcards) {
            paths(&mut errors, &path, rule);
        }
    }
    tls(&mut errors, &path.child("tls"), spec.items("tls"), old);
    if let Some(class) = spec.at("ingressClassName").as_str() {
        let path = path.child("ingressClassName");
        check::faults(&mut errors, &path, class, names::dns1123_subdomain(class));
    }
    errors
}

/// Validates a host name or a wildcard such as `*.example.com`.
fn host_pattern(errors: &mut Errors, path: &Path, host: &str) {
    let faults = if host.contains('*') {
        names::wildcard_dns1123_subdomain(host)
    } else {
        names::dns1123_subdomain(host)
    };
    check::faults(errors, path, host, faults);
}

fn tls(errors: &mut Errors, path: &Path, entries: &[Value], old: &Value) {
    let faults = |entry: &Value| match entry.text("secretName") {
        "" => Vec::new(),
        name => names::dns1123_subdomain(name),
    };
    let allow_bad_names = old
        .at("spec")
        .items("tls")
        .iter()
        .any(|entry| !faults(entry).is_empty());
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        for (i, host) in check::texts(entry, "hosts").enumerate() {
            host_pattern(errors, &path.child("hosts").index(i), host);
        }
        if !allow_bad_names {
            let path = path.child("secretName");
            check::faults(errors, &path, entry.text("secretName"), faults(entry));
        }
    }
}

fn paths(errors: &mut Errors, path: &Path, rule: &Value) {
    let http = rule.at("http");
    if http.is_null() {
        return;
    }
    let path = path.child("http").child("paths");
    if http.items("paths").is_empty() {
        errors.push(Error::required(&path, ""));
    }
    for (i, entry) in http.items("paths").iter().enumerate() {
        self::path(errors, &path.index(i), entry);
    }
}

fn path(errors: &mut Errors, at: &Path, entry: &Value) {
    let (path_at, path) = (at.child("path"), entry.text("path"));
    let type_at = at.child("pathType");
    let mut refuse = |fault: String| errors.push(Error::invalid(&path_at, path, fault));
    let Some(kind) = entry.at("pathType").as_str() else {
        errors.push(Error::required(&type_at, "pathType must be specified"));
        return;
    };
    let is_absolute = path.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !is_absolute {
                refuse("must be an absolute path".to_owned());
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(sequence) {
                    refuse(format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if path.ends_with(suffix) {
                    refuse(format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !is_absolute {
                refuse("must be an absolute path".to_owned());
            }
        }
        _ => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(Error::not_supported(&type_at, kind, &kinds));
        }
    }
    backend(errors, &at.child("backend"), entry.at("backend"));
}

fn backend(errors: &mut Errors, path: &Path, backend: &Value) {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => {
            let fault = "cannot set both resource and service backends";
            errors.push(Error::invalid(path, "", fault));
        }
        (true, false) => reference(errors, &path.child("resource"), backend.at("resource")),
        (false, true) => service(errors, path, backend.at("service")),
        (false, false) => {
            let fault = "resource or service backend is required";
            errors.push(Error::invalid(path, "", fault));
        }
    }
}

fn service(errors: &mut Errors, path: &Path, service: &Value) {
    let at = path.child("service");
    check::required_name(
        errors,
        &at.child("name"),
        service.text("name"),
        names::dns1123_label,
    );
    let (at, port) = (at.child("port"), service.at("port"));
    match (port.text("name"), port.count("number")) {
        ("", 0) => errors.push(Error::required(path, "port name or number is required")),
        ("", number) => {
            let at = at.child("number");
            check::number_faults(errors, &at, number, names::port_number(number));
        }
        (name, 0) => check::faults(errors, &at.child("name"), name, names::port_name(name)),
        _ => {
            let fault = "cannot set both port name & port number";
            errors.push(Error::invalid(path, "", fault));
        }
    }
}

/// Validates a reference to an object of any kind in the same namespace.
fn reference(errors: &mut Errors, path: &Path, reference: &Value) {
    if let Some(group) = reference.at("apiGroup").as_str() {
        let faults = names::dns1123_subdomain(group);
        check::faults(errors, &path.child("apiGroup"), group, faults);
    }
    for key in ["kind", "name"] {
        let path = path.child(key);
        check::required_name(errors, &path, reference.text(key), names::path_segment);
    }
}

/// Validates the legacy class annotation, which excludes `ingressClassName`.
fn class_annotation(errors: &mut Errors, ingress: &Value) {
    let annotation = ingress
        .at("metadata")
        .at("annotations")
        .at(CLASS_ANNOTATION);
    let class = ingress.at("spec").at("ingressClassName");
    if !annotation.is_null() && !class.is_null() && annotation != class {
        let path = Path::new("annotations").child(CLASS_ANNOTATION);
        let fault = "must match `ingressClassName` when both are specified";
        errors.push(Error::invalid(&path, annotation.clone(), fault));
    }
}

fn status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let balancers = |ingress: &Value| {
        let balancer = ingress.at("status").at("loadBalancer");
        balancer.items("ingress").to_vec()
    };
    let known = balancers(old);
    let path = Path::new("status").child("loadBalancer").child("ingress");
    for (i, balancer) in balancers(new).iter().enumerate() {
        let path = path.index(i);
        let ip = balancer.text("ip");
        if !ip.is_empty() {
            let is_known = known.iter().any(|old| old.text("ip") == ip);
            let form = if is_known { Form::Sloppy } else { Form::Strict };
            errors.extend(validate_ip(&path.child("ip"), ip, form));
        }
        host_name(
            &mut errors,
            &path.child("hostname"),
            balancer.text("hostname"),
        );
    }
    errors
}

fn validate_class(class: &Value) -> Errors {
    let mut errors = check::new_metadata(class, Scope::Cluster, names::dns1123_subdomain);
    let (spec, path) = (class.at("spec"), Path::new("spec"));
    let (controller, controller_path) = (spec.text("controller"), path.child("controller"));
    if controller.len() > MAX_CONTROLLER {
        errors.push(Error::too_long(&controller_path, MAX_CONTROLLER));
    }
    errors.extend(names::domain_prefixed_path(&controller_path, controller));
    if spec.has("parameters") {
        let path = path.child("parameters");
        parameters(&mut errors, &path, spec.at("parameters"));
    }
    errors
}

fn parameters(errors: &mut Errors, path: &Path, parameters: &Value) {
    reference(errors, path, parameters);
    let (scope, scope_path) = (parameters.at("scope"), path.child("scope"));
    let namespace_path = path.child("namespace");
    match (scope.as_str(), parameters.at("namespace").as_str()) {
        (None, _) => errors.push(Error::required(&scope_path, "")),
        (Some("Namespace"), None) => {
            let why = "`parameters.scope` is set to 'Namespace'";
            errors.push(Error::required(&namespace_path, why));
        }
        (Some("Namespace"), Some(name)) => {
            check::faults(errors, &namespace_path, name, names::dns1123_label(name));
        }
        (Some("Cluster"), Some(_)) => {
            let why = "`parameters.scope` is set to 'Cluster'";
            errors.push(Error::forbidden(&namespace_path, why));
        }
        (Some("Cluster"), None) => {}
        (Some(scope), _) => {
            check::one_of(errors, &scope_path, scope, &["Cluster", "Namespace"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(spec: &Value) -> Vec<String> {
        let ingress = json!({"metadata": {"name": "i", "namespace": "n"}, "spec": spec});
        let errors = validate(&ingress, &Value::Null);
        errors.iter().map(ToString::to_string).collect()
    }

    fn with_path(path: Value) -> Value {
        json!({"rules": [{"http": {"paths": [path]}}]})
    }

    #[test]
    fn backends_are_one_service_with_one_port() {
        let cases = [
            (
                json!({"service": {"name": "a", "port": {"number": 80}}}),
                vec![],
            ),
            (
                json!({}),
                vec![
                    "spec.defaultBackend: Invalid value: \"\": resource or service backend is required",
                ],
            ),
            (
                json!({"service": {"name": "a"}}),
                vec!["spec.defaultBackend: Required value: port name or number is required"],
            ),
            (
                json!({"service": {"name": "a", "port": {"name": "b", "number": 80}}}),
                vec![
                    "spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number",
                ],
            ),
        ];
        for (backend, expected) in cases {
            assert_eq!(errors(&json!({"defaultBackend": backend})), expected);
        }
    }

    #[test]
    fn paths_are_absolute_and_do_not_step_back() {
        let at = "spec.rules[0].http.paths[0]";
        let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
        let cases = [
            ("Prefix", "/a", None),
            ("Prefix", "a", Some(": must be an absolute path")),
            ("Exact", "/a/..", Some(": cannot end with '/..'")),
            ("ImplementationSpecific", "/a/..", None),
            ("ImplementationSpecific", "", None),
        ];
        for (kind, path, fault) in cases {
            let entry = json!({"pathType": kind, "path": path, "backend": backend});
            let expected = fault.map(|fault| format!("{at}.path: Invalid value: {path:?}{fault}"));
            assert_eq!(errors(&with_path(entry)), Vec::from_iter(expected));
        }
        let found = errors(&with_path(json!({"backend": backend})));
        assert_eq!(
            found,
            [format!(
                "{at}.pathType: Required value: pathType must be specified"
            )]
        );
    }

    #[test]
    fn an_ingress_leads_somewhere() {
        assert_eq!(
            errors(&json!({})),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
    }
}
