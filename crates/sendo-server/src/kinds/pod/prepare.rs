//! The strategy of pods: what a create, update or write of a subresource may set.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/pod/strategy.go`: `dropNonEphemeralContainerUpdates`,
//!   `dropNonResizeUpdates`, `applyMatchLabelKeysAndMismatchLabelKeys`,
//!   `applySchedulingGatedCondition`, `updatePodGeneration`
//! - `pkg/api/pod/util.go`: `DropDisabledPodFields`, `DropDisabledTemplateFields`
//! - `pkg/features/kube_features.go`

use serde_json::{Value, json};

use super::{annotations, defaults, quality};
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, writes};

pub(super) fn create(cx: &Cx<'_>, pod: &mut Value) {
    writes::first_generation(pod);
    let spec = pod.object("spec");
    drop_unserved(spec);
    defaults::sync_service_account(spec);
    let quality = match pod.at("status").text("qosClass") {
        "" => quality::class(pod.at("spec")),
        class => class,
    };
    let mut status = json!({"phase": "Pending", "qosClass": quality});
    if !pod.at("spec").items("schedulingGates").is_empty() {
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": cx.time(),
        });
        status.set("conditions", json!([condition]));
    }
    pod.set("status", status);
    merge_label_keys(pod);
    annotations::sync_app_armor(pod);
}

pub(super) fn update(_: &Cx<'_>, new: &mut Value, old: &Value) {
    new.copy_from("status", old);
    drop_unserved(new.object("spec"));
    defaults::sync_service_account(new.object("spec"));
    generation(new, old);
}

/// Prepares an update through `/status`, which may change the status, labels, annotations and
/// finalizers.
pub(super) fn status(_: &Cx<'_>, new: &mut Value, old: &Value) {
    new.copy_from("spec", old);
    let metadata = new.object("metadata");
    metadata.remove("deletionTimestamp");
    metadata.copy_from("ownerReferences", old.at("metadata"));
    let (status, old_status) = (new.object("status"), old.at("status"));
    // A kubelet of an older version does not send these fields and must not reset them.
    status.default_if_zero("qosClass", old_status.at("qosClass").clone());
    if old_status.has("observedGeneration") {
        status.default_if_zero(
            "observedGeneration",
            old_status.at("observedGeneration").clone(),
        );
    }
    let mut remembered: Vec<(&str, i64)> = old_status
        .items("conditions")
        .iter()
        .map(|condition| {
            (
                condition.text("type"),
                condition.count("observedGeneration"),
            )
        })
        .collect();
    for condition in status.items_mut("conditions") {
        let kind = condition.text("type");
        let Some(at) = remembered.iter().position(|(of, _)| *of == kind) else {
            continue;
        };
        let (_, generation) = remembered.remove(at);
        if generation != 0 {
            condition.default_if_zero("observedGeneration", generation);
        }
    }
}

/// Prepares an update through `/ephemeralcontainers`, which may change only these.
pub(super) fn ephemeral_containers(_: &Cx<'_>, new: &mut Value, old: &Value) {
    let requested = new.at("spec").clone();
    new.copy_from("spec", old);
    new.copy_from("status", old);
    writes::keep_metadata(new, old);
    new.object("spec")
        .copy_from("ephemeralContainers", &requested);
    generation(new, old);
}

/// Prepares an update through `/resize`, which may change only the resources of the pod and its
/// containers and their resize policies.
///
/// Added, removed, reordered or renamed containers are kept for validation to refuse.
pub(super) fn resize(_: &Cx<'_>, new: &mut Value, old: &Value) {
    let lists = ["containers", "initContainers"];
    let count = |pod: &Value, key: &str| pod.at("spec").items(key).len();
    if lists.iter().all(|key| count(new, key) == count(old, key)) {
        let requested = new.at("spec").clone();
        new.copy_from("spec", old);
        new.object("spec").copy_from("resources", &requested);
        new.copy_from("status", old);
        writes::keep_metadata(new, old);
        for key in lists {
            resize_containers(new.object("spec"), key, &requested);
        }
    }
    generation(new, old);
}

fn resize_containers(spec: &mut Value, key: &str, requested: &Value) {
    let containers = || requested.items(key).iter();
    if containers()
        .zip(spec.items(key))
        .any(|(new, old)| new.text("name") != old.text("name"))
    {
        spec.copy_from(key, requested);
        return;
    }
    for (container, requested) in spec.items_mut(key).iter_mut().zip(containers()) {
        container.copy_from("resources", requested);
        container.copy_from("resizePolicy", requested);
    }
}

fn generation(new: &mut Value, old: &Value) {
    if new.at("spec") != old.at("spec") {
        writes::next_generation(new, old);
    }
}

/// Removes fields of features that are disabled by default in this version.
pub(crate) fn drop_unserved(spec: &mut Value) {
    spec.remove("schedulingGroup");
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(key) {
            let lifecycle = container.at("lifecycle");
            if !lifecycle.has("stopSignal") {
                continue;
            }
            if lifecycle.has("postStart") || lifecycle.has("preStop") {
                container.object("lifecycle").remove("stopSignal");
            } else {
                container.remove("lifecycle");
            }
        }
    }
    for volume in spec.items_mut("volumes") {
        if let Some(projected) = volume.existing("projected") {
            for source in projected.items_mut("sources") {
                source.remove("clusterTrustBundle");
                source.remove("podCertificate");
            }
        }
    }
}

/// Adds the label values that `matchLabelKeys` and `mismatchLabelKeys` name to the label selectors
/// of the same term.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.at("metadata").at("labels").clone();
    let spec = pod.object("spec");
    for constraint in spec.items_mut("topologySpreadConstraints") {
        merge_keys_of(constraint, &labels);
    }
    let Some(affinity) = spec.existing("affinity") else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = affinity.existing(kind) else {
            continue;
        };
        for term in affinity.items_mut("preferredDuringSchedulingIgnoredDuringExecution") {
            merge_keys_of(term.object("podAffinityTerm"), &labels);
        }
        for term in affinity.items_mut("requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys_of(term, &labels);
        }
    }
}

fn merge_keys_of(term: &mut Value, labels: &Value) {
    if !term.has("labelSelector") {
        return;
    }
    let mut expressions = term.at("labelSelector").items("matchExpressions").to_vec();
    let before = expressions.len();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.items(keys).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if expressions.len() > before {
        term["labelSelector"].set("matchExpressions", expressions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cx<R>(run: impl FnOnce(&Cx<'_>) -> R) -> R {
        let random = sendo_world::Random::from_seed(1);
        run(&Cx {
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &random,
            api_version: "v1",
            user: &crate::request::user::User::admin(),
        })
    }

    #[test]
    fn a_new_pod_is_pending_whatever_it_says() {
        let mut pod = json!({"spec": {}, "status": {"phase": "Running"}});
        cx(|cx| create(cx, &mut pod));
        assert_eq!(
            pod["status"],
            json!({"phase": "Pending", "qosClass": "BestEffort"})
        );
        let mut classified = json!({"spec": {}, "status": {"qosClass": "Guaranteed"}});
        cx(|cx| create(cx, &mut classified));
        assert_eq!(classified["status"]["qosClass"], "Guaranteed");
        assert_eq!(pod["metadata"]["generation"], 1);
    }

    #[test]
    fn a_gated_pod_says_why_it_waits() {
        let mut pod = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
        cx(|cx| create(cx, &mut pod));
        let condition = &pod["status"]["conditions"][0];
        assert_eq!(
            [&condition["type"], &condition["reason"]],
            ["PodScheduled", "SchedulingGated"]
        );
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn label_keys_become_requirements() {
        let term =
            json!({"labelSelector": {}, "matchLabelKeys": ["a", "z"], "mismatchLabelKeys": ["b"]});
        let mut pod = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        });
        merge_label_keys(&mut pod);
        let term = &pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            [0];
        assert_eq!(
            term["labelSelector"]["matchExpressions"],
            json!([
                {"key": "a", "operator": "In", "values": ["1"]},
                {"key": "b", "operator": "NotIn", "values": ["2"]},
            ])
        );
    }

    #[test]
    fn a_status_keeps_what_an_old_node_agent_forgets() {
        let old = json!({"spec": {"a": 1}, "status": {"qosClass": "Burstable", "observedGeneration": 2,
                         "conditions": [{"type": "Ready", "observedGeneration": 2}]}});
        let mut new = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready"}]}});
        cx(|cx| status(cx, &mut new, &old));
        assert_eq!(
            new["status"],
            json!({"phase": "Running", "qosClass": "Burstable", "observedGeneration": 2,
                   "conditions": [{"type": "Ready", "observedGeneration": 2}]})
        );
        assert_eq!(new["spec"], old["spec"]);
    }

    #[test]
    fn resize_changes_resources_only() {
        let old = json!({"metadata": {"generation": 1}, "spec": {"containers": [{"name": "c", "image": "a"}]}});
        let mut new = json!({"metadata": {"generation": 1, "labels": {"x": "y"}},
            "spec": {"containers": [{"name": "c", "image": "b", "resources": {"limits": {"cpu": "1"}}}]}});
        cx(|cx| resize(cx, &mut new, &old));
        assert_eq!(
            new,
            json!({"metadata": {"generation": 2},
                   "spec": {"containers": [{"name": "c", "image": "a", "resources": {"limits": {"cpu": "1"}}}]}})
        );
    }
}
