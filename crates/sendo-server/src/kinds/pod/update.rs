//! Validation of updates of pods and of their ephemeral containers. `resize` validates resizes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodUpdate`, `ValidateContainerUpdates`,
//!   `ValidatePodEphemeralContainersUpdate`, `validateOnlyAddedTolerations`,
//!   `validateOnlyDeletedSchedulingGates`, `validateNodeAffinityMutation`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::names;
use serde_json::Value;

use super::annotations::{self, MIRROR};
use super::{affinity, validate};
use crate::kinds::check::{self, Errors};
use crate::kinds::internal;
use crate::kinds::value::{Read, Write};

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                     `spec.tolerations` (only additions to existing tolerations),\
                     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
/// Validates an update of a pod. Only a few fields of its spec are mutable.
pub(super) fn pod(new: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let is_same = spec == old_spec;
    let mut errors = common(new, old, is_same);
    for key in ["containers", "initContainers"] {
        let path = path.child(key);
        if spec.items(key).len() != old_spec.items(key).len() {
            errors.push(Error::forbidden(
                &path,
                "pod updates may not add or remove containers",
            ));
            return errors;
        }
        for (i, container) in spec.items(key).iter().enumerate() {
            check::required(
                &mut errors,
                &path.index(i).child("image"),
                container.text("image"),
            );
            super::containers::padded_image(&mut errors, &path.index(i), container);
        }
    }
    if let Check::Stop = deadline(
        &mut errors,
        &path.child("activeDeadlineSeconds"),
        spec,
        old_spec,
    ) {
        return errors;
    }
    tolerations(&mut errors, &path.child("tolerations"), spec, old_spec);
    scheduling_gates(&mut errors, &path.child("schedulingGates"), spec, old_spec);
    if is_same {
        return errors;
    }
    let mut rest = spec.clone();
    for key in ["containers", "initContainers"] {
        for (container, old) in rest.items_mut(key).iter_mut().zip(old_spec.items(key)) {
            container.copy_from("image", old);
        }
    }
    for key in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        rest.copy_from(key, old_spec);
    }
    let grace = "terminationGracePeriodSeconds";
    if old_spec.count(grace) < 0 && rest.number(grace) == Some(1) {
        rest.copy_from(grace, old_spec);
    }
    if !old_spec.items("schedulingGates").is_empty() {
        while_gated(&mut errors, &path, &mut rest, old_spec);
    }
    if rest != *old_spec {
        let difference = internal::difference("PodSpec", old_spec, &rest);
        errors.push(Error::forbidden(&path, format!("{FIXED}\n{difference}")));
    }
    errors
}

/// Validation common to updates of the pod and of its subresources.
///
/// An unchanged spec was validated when it was written and is not validated again.
fn common(new: &Value, old: &Value, is_same_spec: bool) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    errors.extend(validate::metadata(new));
    if !is_same_spec {
        errors.extend(validate::pod_spec(new));
    }
    let path = Path::new("metadata").child("annotations");
    annotations::validate_update(&mut errors, &path, new, old);
    errors
}

enum Check {
    Continue,
    Stop,
}

/// Validates `activeDeadlineSeconds`, which may be set and decreased.
fn deadline(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) -> Check {
    let deadline = |spec: &Value| spec.number("activeDeadlineSeconds");
    match (deadline(spec), deadline(old)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            let faults = names::in_range(new, 0, i64::from(i32::MAX));
            check::number_faults(errors, path, new, faults);
            Check::Stop
        }
        (Some(new), Some(old)) if old < new => {
            errors.push(Error::invalid(
                path,
                new,
                "must be less than or equal to previous value",
            ));
            Check::Stop
        }
        (None, Some(_)) => {
            let fault = "must not update from a positive integer to nil value";
            errors.push(Error::invalid(path, Value::Null, fault));
            Check::Continue
        }
        _ => Check::Continue,
    }
}

/// Validates tolerations, which may be added. Only `tolerationSeconds` of an old one may change.
fn tolerations(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    let is_kept = |old: &Value| {
        spec.items("tolerations").iter().any(|new| {
            let mut old = old.clone();
            old.copy_from("tolerationSeconds", new);
            old == *new
        })
    };
    if !old.items("tolerations").iter().all(is_kept) {
        let fault = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(path, fault));
        return;
    }
    affinity::tolerations(errors, path, spec.items("tolerations"));
}

/// Validates scheduling gates, which may only be removed.
fn scheduling_gates(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) {
    for (i, gate) in spec.items("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !old
            .items("schedulingGates")
            .iter()
            .any(|old| old.text("name") == name)
        {
            let fault = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(Error::forbidden(&path.index(i).child("name"), fault));
        }
    }
}

/// Allows a gated pod to narrow its node selector and node affinity.
fn while_gated(errors: &mut Errors, path: &Path, spec: &mut Value, old: &Value) {
    if spec.at("nodeSelector") != old.at("nodeSelector") {
        let mut entries = old.entries("nodeSelector");
        if entries.any(|(key, value)| spec.at("nodeSelector").get(key) != Some(value)) {
            let fault =
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let shown = spec.at("nodeSelector").clone();
            errors.push(Error::invalid(&path.child("nodeSelector"), shown, fault));
        }
        spec.copy_from("nodeSelector", old);
    }
    let (nodes, old_nodes) = (
        spec.at("affinity").at("nodeAffinity"),
        old.at("affinity").at("nodeAffinity"),
    );
    if nodes == old_nodes {
        return;
    }
    narrower_affinity(
        errors,
        &path.child("affinity").child("nodeAffinity"),
        nodes,
        old_nodes,
    );
    let others = ["podAffinity", "podAntiAffinity"]
        .iter()
        .any(|key| spec.at("affinity").has(key));
    if !old.has("affinity") && !others {
        spec.remove("affinity");
    } else {
        spec.object("affinity")
            .copy_from("nodeAffinity", old.at("affinity"));
    }
}

fn narrower_affinity(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |affinity: &Value| affinity.at(REQUIRED).items("nodeSelectorTerms").to_vec();
    let (new, old) = (terms(new), terms(old));
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let fault = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = internal::bad_value("[NodeSelectorTerm", &Value::from(new));
        errors.push(Error::invalid(&path, shown, fault));
        return;
    }
    for (i, (new, old)) in new.iter().zip(&old).enumerate() {
        let only_grows = |key: &str| new.items(key).starts_with(old.items(key));
        let lists = ["matchExpressions", "matchFields"];
        let was_empty = lists.iter().all(|key| old.items(key).is_empty());
        let is_empty = lists.iter().all(|key| new.items(key).is_empty());
        if (was_empty && !is_empty) || !lists.into_iter().all(only_grows) {
            let fault = "only additions are allowed (no mutations or deletions)";
            let shown = internal::bad_value("NodeSelectorTerm", new);
            errors.push(Error::invalid(&path.index(i), shown, fault));
        }
    }
}

/// Validates an update of ephemeral containers, which may only be added.
pub(super) fn ephemeral_containers(new: &Value, old: &Value) -> Errors {
    let mut errors = common(new, old, new.at("spec") == old.at("spec"));
    if old.at("metadata").at("annotations").has(MIRROR) {
        let fault = "static pods do not support ephemeral containers";
        return vec![Error::forbidden(&Path::new(""), fault)];
    }
    let path = Path::new("spec").child("ephemeralContainers");
    for container in old.at("spec").items("ephemeralContainers") {
        let name = container.text("name");
        let mut containers = new.at("spec").items("ephemeralContainers").iter();
        let fault = match containers.rfind(|other| other.text("name") == name) {
            Some(other) if other == container => continue,
            Some(other) => format!(
                "may not be changed\n{}",
                internal::difference("EphemeralContainer", container, other)
            ),
            None => "may not be removed\n".to_owned(),
        };
        errors.push(Error::forbidden(
            &path,
            format!("existing ephemeral containers \"{name}\" {fault}"),
        ));
    }
    errors
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in super::super) fn running() -> Value {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "n", "resourceVersion": "1"},
            "spec": {"containers": [{"name": "c", "image": "a"}], "serviceAccountName": "default"},
            "status": {"qosClass": "BestEffort"},
        });
        super::super::defaults::pod(&mut pod);
        pod
    }

    fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let old = running();
        let mut new = old.clone();
        change(&mut new);
        pod(&new, &old).iter().map(Error::to_string).collect()
    }

    #[test]
    fn an_image_may_change() {
        assert_eq!(
            faults(|pod| pod["spec"]["containers"][0]["image"] = "b".into()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn other_fields_of_the_spec_are_fixed() {
        let found = faults(|pod| pod["spec"]["restartPolicy"] = "Never".into());
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("spec: Forbidden: pod updates may not change fields other than")
        );
        assert!(
            found[0]
                .contains("\n- \"RestartPolicy\": \"Always\",\n+ \"RestartPolicy\": \"Never\",\n"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn a_spec_is_validated_when_it_changes() {
        let mut old = running();
        old["spec"]["restartPolicy"] = "Sometimes".into();
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(pod(&new, &old), []);
        new["spec"]["containers"][0]["image"] = "b".into();
        let found = pod(&new, &old);
        assert_eq!(found[0].field, "spec.restartPolicy");
        new["metadata"]["labels"] = json!({"a": "?"});
        assert_eq!(pod(&new, &old)[0].field, "metadata.labels");
    }

    #[test]
    fn tolerations_may_only_be_added() {
        let toleration = json!({"key": "k", "operator": "Exists"});
        assert!(faults(|pod| pod["spec"]["tolerations"] = json!([toleration])).is_empty());
        let mut old = running();
        old["spec"]["tolerations"] = json!([toleration]);
        let new = running();
        let errors = pod(&new, &old);
        assert_eq!(
            errors[0].to_string(),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
        );
    }

    #[test]
    fn a_deadline_only_comes_nearer() {
        let mut old = running();
        old["spec"]["activeDeadlineSeconds"] = 10.into();
        let mut new = old.clone();
        new["spec"]["activeDeadlineSeconds"] = 5.into();
        assert_eq!(pod(&new, &old), []);
        new["spec"]["activeDeadlineSeconds"] = 11.into();
        assert_eq!(pod(&new, &old).len(), 1);
    }
}
