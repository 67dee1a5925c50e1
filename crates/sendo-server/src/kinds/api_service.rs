//! Rules of APIServices, which say where the aggregator proxies a group version to.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/validation/validation.go`:
//!   `ValidateAPIService`, `ValidateAPIServiceUpdate`
//! - `staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/defaults.go`
//! - `staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::check::{self, Errors};
use super::value::{Read, Write};
use super::{Cx, Rules, writes};

/// The group of APIServices.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";
/// Their plural name.
pub(crate) const PLURAL: &str = "apiservices";

pub(super) const RULES: Rules = Rules {
    default: |service| {
        if let Some(service) = service.object("spec").existing("service") {
            service.default_to("port", 443);
        }
    },
    prepare_for_create,
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    validate: |_, service| validate(service),
    validate_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        errors.extend(validate(new));
        errors
    },
    validate_status_update: |_, new, old| {
        let mut errors = check::changed_metadata(new, old);
        let path = Path::new("status").child("conditions");
        for (i, condition) in new.at("status").items("conditions").iter().enumerate() {
            let path = path.index(i).child("status");
            let states = ["True", "False", "Unknown"];
            check::one_of(&mut errors, &path, condition.text("status"), &states);
        }
        errors
    },
    allow_unconditional_update: false,
    ..Rules::NEUTRAL
};

/// An APIService without a service is served locally and is `Available` at once.
fn prepare_for_create(cx: &Cx<'_>, service: &mut Value) {
    service.set("status", json!({}));
    if !service.at("spec").has("service") {
        let condition = available(&cx.time());
        service
            .object("status")
            .set("conditions", json!([condition]));
    }
}

fn validate(service: &Value) -> Errors {
    let mut errors = check::new_metadata(service, Scope::Cluster, names::path_segment);
    let (spec, path) = (service.at("spec"), Path::new("spec"));
    let (group, version) = (spec.text("group"), spec.text("version"));
    let name = service.at("metadata").text("name");
    let required = format!("{version}.{group}");
    if name != required && !name.is_empty() && names::path_segment(name).is_empty() {
        let fault = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        let path = Path::new("metadata").child("name");
        errors.insert(0, Error::invalid(&path, name, fault));
    }
    let group_path = path.child("group");
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(Error::required(&group_path, why));
    }
    if !group.is_empty() {
        let faults = names::dns1123_subdomain(group);
        check::faults(&mut errors, &group_path, group, faults);
    }
    let faults = names::dns1035_label(version);
    check::faults(&mut errors, &path.child("version"), version, faults);
    for (key, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec.count(key);
        if !(1..=limit).contains(&priority) {
            let fault = format!("must be positive and less than {limit}");
            errors.push(Error::invalid(&path.child(key), priority, fault));
        }
    }
    service_reference(&mut errors, &path, spec);
    errors
}

/// Validates the service reference and TLS fields, which a locally served group must not set.
fn service_reference(errors: &mut Errors, path: &Path, spec: &Value) {
    let insecure_path = path.child("insecureSkipTLSVerify");
    let bundle = byte_count(spec.text("caBundle"));
    let is_insecure = spec.is_set("insecureSkipTLSVerify");
    if !spec.has("service") {
        if bundle > 0 {
            let fault = "local APIServices may not have a caBundle";
            let shown = format!("{bundle} bytes");
            errors.push(Error::invalid(&path.child("caBundle"), shown, fault));
        }
        if is_insecure {
            let fault = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(&insecure_path, true, fault));
        }
        return;
    }
    let (service, path) = (spec.at("service"), path.child("service"));
    for key in ["namespace", "name"] {
        check::required(errors, &path.child(key), service.text(key));
    }
    let port = service.count("port");
    let faults = names::port_number(port);
    if !faults.is_empty() {
        let fault = format!("port is not valid: {}", faults.join(", "));
        errors.push(Error::invalid(&path.child("port"), port, fault));
    }
    if is_insecure && bundle > 0 {
        let fault = "may not be true if caBundle is present";
        errors.push(Error::invalid(&insecure_path, true, fault));
    }
}

/// The number of bytes that a base64 text decodes to.
fn byte_count(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// What the condition of a group says that this server serves itself.
pub(crate) const LOCAL_REASON: &str = "Local";
pub(crate) const LOCAL_MESSAGE: &str = "Local APIServices are always available";

/// The condition of a group that this server serves itself.
pub(crate) fn available(now: &str) -> Value {
    json!({
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": LOCAL_REASON,
        "message": LOCAL_MESSAGE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut service = json!({
            "metadata": {"name": name},
            "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10},
        });
        change(&mut service["spec"]);
        validate(&service).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_name_is_version_and_group() {
        assert_eq!(faults("v1.example.com", |_| {}), Vec::<String>::new());
        assert_eq!(
            faults("other", |_| {}),
            [
                "metadata.name: Invalid value: \"other\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\""
            ]
        );
    }

    #[test]
    fn a_group_served_here_needs_no_certificates() {
        assert_eq!(
            faults("v1.example.com", |spec| spec.set("caBundle", "YWJjZA==")),
            [
                "spec.caBundle: Invalid value: \"4 bytes\": local APIServices may not have a caBundle"
            ]
        );
    }
}
