//! Validation of updates of a pod's status.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodStatusUpdate`, `validatePodConditions`,
//!   `validatePodResourceClaimStatuses`, `ValidateContainerStateTransition`, `validatePodIPs`,
//!   `validateHostIPs`
//! - `pkg/api/v1/pod/util.go`: `UpdatePodCondition`, `AllContainersCouldRestart`

use sendo_apimachinery::addresses::{Form, parse_ip, validate_ip};
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::annotations;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};

const ENDED: &str = "may not be transitioned to non-terminated state";

/// Sets a condition of a pod and replaces the one of the same type. `lastTransitionTime` becomes
/// `now` if the status changed.
pub(crate) fn set_condition(pod: &mut Value, mut condition: Value, now: &str) {
    condition.set("lastProbeTime", Value::Null);
    condition.set("lastTransitionTime", now);
    let status = pod.object("status");
    let kind = condition.text("type").to_owned();
    let mut own = status.items_mut("conditions").iter_mut();
    match own.find(|own| own.text("type") == kind) {
        Some(own) => {
            if own.text("status") == condition.text("status") {
                condition.copy_from("lastTransitionTime", own);
            }
            *own = condition;
        }
        None => {
            let mut all = status.items("conditions").to_vec();
            all.push(condition);
            status.set("conditions", all);
        }
    }
}

/// Validates an update of a pod's status.
pub(super) fn validate_update(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    let annotations_path = Path::new("metadata").child("annotations");
    annotations::validate_update(&mut errors, &annotations_path, new, old);
    let path = Path::new("status");
    let (status, old_status) = (new.at("status"), old.at("status"));
    conditions(
        &mut errors,
        &path.child("conditions"),
        status.items("conditions"),
    );
    nominated_node(&mut errors, &path.child("nominatedNodeName"), new, old);
    if status.count("observedGeneration") < 0 {
        let generation = status.count("observedGeneration");
        let fault = "must be a non-negative integer";
        errors.push(Error::invalid(
            &path.child("observedGeneration"),
            generation,
            fault,
        ));
    }
    let class = |status: &Value| Value::from(status.text("qosClass"));
    check::immutable(
        &mut errors,
        &path.child("qosClass"),
        &class(status),
        &class(old_status),
    );
    for (key, list) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        restarts(
            &mut errors,
            &path.child(key),
            status.items(key),
            old_status.items(key),
            old.at("spec"),
            list,
        );
    }
    claims(&mut errors, &path.child("resourceClaimStatuses"), new);
    addresses(
        &mut errors,
        &path.child("podIPs"),
        status,
        old_status,
        "podIPs",
    );
    host_addresses(&mut errors, &path.child("hostIPs"), status, old_status);
    errors
}

/// Validates the statuses of resource claims.
fn claims(errors: &mut Errors, path: &Path, pod: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for (i, status) in pod
        .at("status")
        .items("resourceClaimStatuses")
        .iter()
        .enumerate()
    {
        let path = path.index(i);
        let name = status.text("name");
        let mut known = pod.at("spec").items("resourceClaims").iter();
        if !known.any(|claim| claim.text("name") == name) {
            let fault = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid(&path.child("name"), name, fault));
        }
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        seen.push(name);
        if let Some(made) = status.at("resourceClaimName").as_str() {
            let faults = names::dns1123_subdomain(made);
            check::faults(errors, &path.child("resourceClaimName"), made, faults);
        }
    }
}

fn conditions(errors: &mut Errors, path: &Path, conditions: &[Value]) {
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let generation = condition.count("observedGeneration");
        if generation < 0 {
            let fault = "must be a non-negative integer";
            errors.push(Error::invalid(
                &path.child("observedGeneration"),
                generation,
                fault,
            ));
        }
        let kind = condition.text("type");
        if !matches!(kind, "Initialized" | "PodScheduled" | "Ready") {
            // The path is spelled as in Kubernetes.
            check::label_name(errors, &path.child("Type"), kind);
        }
    }
}

fn nominated_node(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    let name = new.at("status").text("nominatedNodeName");
    if name.is_empty() || name == old.at("status").text("nominatedNodeName") {
        return;
    }
    check::faults(errors, path, name, names::dns1123_subdomain(name));
    if !old.at("spec").text("nodeName").is_empty() {
        let fault = "may not be set on pods that are already bound to a node";
        errors.push(Error::forbidden(path, fault));
    }
}

/// Validates that a terminated container does not become running again unless its restart policy
/// allows it.
fn restarts(
    errors: &mut Errors,
    path: &Path,
    new: &[Value],
    old: &[Value],
    spec: &Value,
    list: &str,
) {
    if !list.is_empty() && every_container_may_restart(spec) {
        return;
    }
    for (i, status) in old.iter().enumerate() {
        let (name, ended) = (status.text("name"), status.at("state").at("terminated"));
        if ended.is_null() {
            continue;
        }
        let mut now = new.iter().filter(|now| now.text("name") == name);
        if now.any(|now| !now.at("state").has("terminated")) {
            let mut containers = spec.items(list).iter();
            let container = containers.find(|container| container.text("name") == name);
            let restarts = container
                .is_some_and(|container| restarts_after(container, spec, ended.count("exitCode")));
            if !restarts {
                errors.push(Error::forbidden(&path.index(i).child("state"), ENDED));
            }
        }
    }
}

/// Whether a restart rule of any container may restart all containers.
fn every_container_may_restart(spec: &Value) -> bool {
    let containers = spec
        .items("containers")
        .iter()
        .chain(spec.items("initContainers"));
    let mut rules = containers.flat_map(|container| container.items("restartPolicyRules"));
    rules.any(|rule| rule.text("action") == "RestartAllContainers")
}

/// Whether a container is restarted after it exited with this code.
fn restarts_after(container: &Value, spec: &Value, code: i64) -> bool {
    for rule in container.items("restartPolicyRules") {
        let codes = rule.at("exitCodes");
        let is_listed = codes
            .items("values")
            .iter()
            .any(|value| value.as_i64() == Some(code));
        let applies = match codes.text("operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        if applies && rule.text("action") == "Restart" {
            return true;
        }
    }
    let own = container.at("restartPolicy").as_str();
    match own.unwrap_or(spec.text("restartPolicy")) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

/// Validates the IPs of a pod or of its host: at most one per family.
fn addresses(errors: &mut Errors, path: &Path, status: &Value, old: &Value, key: &str) {
    let of = |status: &Value| -> Vec<String> {
        status
            .items(key)
            .iter()
            .map(|ip| ip.text("ip").to_owned())
            .collect()
    };
    let (ips, known) = (of(status), of(old));
    for (i, ip) in ips.iter().enumerate() {
        // Unchanged addresses may be non-canonical.
        let form = if known.contains(ip) {
            Form::Sloppy
        } else {
            Form::Strict
        };
        errors.extend(validate_ip(&path.index(i), ip, form));
    }
    let versions: Vec<Option<bool>> = ips
        .iter()
        .map(|ip| parse_ip(ip).map(|ip| ip.is_ipv4()))
        .collect();
    let is_dual = versions.contains(&Some(true)) && versions.contains(&Some(false));
    if ips.len() > 1 && (!is_dual || ips.len() > 2) {
        let shown = ips
            .iter()
            .map(|ip| serde_json::json!({"IP": ip}))
            .collect::<Vec<_>>();
        let fault = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(path, shown, fault));
    }
}

fn host_addresses(errors: &mut Errors, path: &Path, status: &Value, old: &Value) {
    let Some(first) = status.items("hostIPs").first() else {
        return;
    };
    if first.text("ip") != status.text("hostIP") {
        let path = path.index(0).child("ip");
        errors.push(Error::invalid(
            &path,
            first.text("ip"),
            "must be equal to `hostIP`",
        ));
    }
    addresses(errors, path, status, old, "hostIPs");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_changes_when_its_status_does() {
        let condition =
            |status: &str, reason: &str| json!({"type": "T", "status": status, "reason": reason});
        let mut pod = json!({});
        let mut seen = Vec::new();
        for (status, reason, now) in [("True", "a", "1"), ("True", "b", "2"), ("False", "b", "3")] {
            set_condition(&mut pod, condition(status, reason), now);
            let own = &pod["status"]["conditions"];
            assert_eq!(own.as_array().map(Vec::len), Some(1));
            seen.push(own[0]["lastTransitionTime"].as_str().unwrap().to_owned());
        }
        assert_eq!(seen, ["1", "1", "3"]);
        set_condition(&mut pod, json!({"type": "U", "status": "True"}), "4");
        assert_eq!(pod["status"]["conditions"][1]["lastTransitionTime"], "4");
    }

    #[test]
    fn claim_statuses_name_claims_of_the_pod() {
        let pod = json!({
            "spec": {"resourceClaims": [{"name": "a"}]},
            "status": {"resourceClaimStatuses": [
                {"name": "a", "resourceClaimName": "p-a-1"},
                {"name": "a"},
                {"name": "b", "resourceClaimName": "B"},
            ]},
        });
        let mut errors = Errors::new();
        claims(&mut errors, &Path::new("claims"), &pod);
        let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
        assert_eq!(
            fields,
            [
                "claims[1].name",
                "claims[2].name",
                "claims[2].resourceClaimName"
            ]
        );
    }

    #[test]
    fn a_container_that_ended_for_good_stays_so() {
        let pod = |policy: &str, state: Value| {
            json!({
                "metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"},
                "spec": {"restartPolicy": policy, "containers": [{"name": "c"}]},
                "status": {"containerStatuses": [{"name": "c", "state": state}]},
            })
        };
        let ended = |code: i64| json!({"terminated": {"exitCode": code}});
        let running = json!({"running": {}});
        for (policy, code, allowed) in [
            ("Always", 0, true),
            ("OnFailure", 0, false),
            ("OnFailure", 1, true),
            ("Never", 1, false),
        ] {
            let errors = validate_update(&pod(policy, running.clone()), &pod(policy, ended(code)));
            assert_eq!(errors.is_empty(), allowed, "{policy} {code}: {errors:?}");
        }
    }

    #[test]
    fn the_quality_of_service_is_fixed() {
        let pod = |class: &str| json!({"metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"}, "status": {"qosClass": class}});
        let errors = validate_update(&pod("Guaranteed"), &pod("Burstable"));
        assert_eq!(
            errors[0].to_string(),
            "status.qosClass: Invalid value: \"Guaranteed\": field is immutable"
        );
    }
}
