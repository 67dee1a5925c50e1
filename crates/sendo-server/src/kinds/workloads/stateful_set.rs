//! Rules of StatefulSets.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/apps/validation/validation.go`: `ValidateStatefulSet`, `ValidateStatefulSetUpdate`,
//!   `ValidateStatefulSetStatusUpdate`
//! - `pkg/apis/apps/v1/defaults.go`: `SetDefaults_StatefulSet`
//! - `pkg/registry/apps/statefulset/strategy.go`
//! - `pkg/features/kube_features.go`

use sendo_apimachinery::field::{BadValue, Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Value, json};

use super::parts;
use crate::kinds::check::{self, Errors};
use crate::kinds::ordered::Ordered;
use crate::kinds::storage::claim;
use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod, storage, writes};

pub(super) const RULES: Rules = Rules {
    default,
    prepare_for_create: |cx, set| {
        super::create(cx, set);
        drop_max_unavailable(set);
    },
    prepare_for_update,
    validate: |_, set| {
        let mut errors = check::new_metadata(set, Scope::Namespaced, names::dns1123_label);
        validate_spec(&mut errors, set.at("spec"), Stage::New);
        errors
    },
    validate_update: |_, new, old| validate_update(new, old),
    prepare_for_status_update: writes::status_with_metadata,
    validate_status_update: |_, new, old| validate_status_update(new, old),
    warnings_on_create: |set| {
        let mut warnings = super::template_warnings(set);
        warnings.extend(claim_warnings(set, |path| path));
        warnings.extend(history_warning(set));
        warnings
    },
    warnings_on_update: |new, old| {
        let mut warnings = super::change_warnings(new, old);
        // Kubernetes spells the path like this on update only.
        warnings.extend(claim_warnings(new, |path| path.child("Spec")));
        warnings.extend(history_warning(new));
        warnings
    },
    ..Rules::NEUTRAL
};

fn default(set: &mut Value) {
    let spec = set.object("spec");
    spec.default_if_zero("podManagementPolicy", "OrderedReady");
    let strategy = spec.object("updateStrategy");
    if strategy.text("type").is_empty() {
        strategy.set("type", "RollingUpdate");
        strategy.object("rollingUpdate");
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(rolling_update) = strategy.existing("rollingUpdate")
    {
        rolling_update.default_to("partition", 0);
    }
    let retention = spec.object("persistentVolumeClaimRetentionPolicy");
    retention.default_if_zero("whenDeleted", "Retain");
    retention.default_if_zero("whenScaled", "Retain");
    spec.default_to("replicas", 1);
    spec.default_to("revisionHistoryLimit", 10);
    pod::defaults::template(spec.object("template"));
    for claim in spec.items_mut("volumeClaimTemplates") {
        claim.set("apiVersion", "v1");
        claim.set("kind", "PersistentVolumeClaim");
        storage::claim::default(claim);
    }
}

fn prepare_for_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    let rolling_update = old.at("spec").at("updateStrategy").at("rollingUpdate");
    if !rolling_update.has("maxUnavailable") {
        drop_max_unavailable(new);
    }
    super::update(cx, new, old);
}

/// Drops `maxUnavailable`, whose feature MaxUnavailableStatefulSet is disabled by default in this
/// version.
fn drop_max_unavailable(set: &mut Value) {
    let strategy = set.object("spec").existing("updateStrategy");
    if let Some(rolling_update) = strategy.and_then(|strategy| strategy.existing("rollingUpdate")) {
        rolling_update.remove("maxUnavailable");
    }
}

/// Whether a StatefulSet is new. Immutable fields are validated only on create, since older
/// versions may have accepted other values.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Stage {
    New,
    Changed,
}

fn validate_spec(errors: &mut Errors, spec: &Value, stage: Stage) {
    let path = Path::new("spec");
    let policy = spec.text("podManagementPolicy");
    let policy_path = path.child("podManagementPolicy");
    match policy {
        "" => errors.push(Error::required(&policy_path, "")),
        "OrderedReady" | "Parallel" => {}
        _ => errors.push(Error::invalid(
            &policy_path,
            policy,
            "must be 'OrderedReady' or 'Parallel'",
        )),
    }
    update_strategy(
        errors,
        &path.child("updateStrategy"),
        spec.at("updateStrategy"),
    );
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    if !retention.is_null() {
        for key in ["whenDeleted", "whenScaled"] {
            let path = path
                .child("persistentVolumeClaimRetentionPolicy")
                .child(key);
            check::one_of(errors, &path, retention.text(key), &["Retain", "Delete"]);
        }
    }
    if stage == Stage::New {
        for (i, claim) in spec.items("volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates").index(i).child("spec");
            storage::claim::validate_spec(errors, &path, claim.at("spec"));
        }
    }
    for key in ["replicas", "minReadySeconds"] {
        check::non_negative(errors, &path.child(key), spec.count(key));
    }
    check::non_negative(
        errors,
        &path.child("ordinals.start"),
        spec.at("ordinals").count("start"),
    );
    let service = spec.text("serviceName");
    if stage == Stage::New && !service.is_empty() {
        let faults = names::dns1123_label(service);
        check::faults(errors, &path.child("serviceName"), service, faults);
    }
    parts::selector(
        errors,
        &path.child("selector"),
        spec.at("selector"),
        "statefulset",
    );
    template(errors, &path, spec);
    parts::runs_forever(
        errors,
        &path.child("template"),
        spec.at("template"),
        "StatefulSet",
    );
}

/// Validates the template as the pods get it: with the claim templates as volumes.
fn template(errors: &mut Errors, path: &Path, spec: &Value) {
    let Some(selector) = parts::parsed(spec.at("selector")) else {
        let shown = parts::selector_text(spec.at("selector"));
        errors.push(Error::invalid(&path.child("selector"), shown, ""));
        return;
    };
    let path = path.child("template");
    let mut template = spec.at("template").clone();
    let pod_spec = template.object("spec");
    pod_spec.remove("subdomain");
    pod_spec.remove("hostname");
    let claims = spec
        .items("volumeClaimTemplates")
        .iter()
        .map(|claim| claim.at("metadata").at("name"));
    let mut volumes: Vec<Value> = Vec::new();
    for name in claims {
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        if !volumes.contains(&volume) {
            volumes.push(volume);
        }
    }
    let own = pod_spec.items("volumes").iter();
    let own = own.filter(|own| {
        !volumes
            .iter()
            .any(|volume| volume.at("name") == own.at("name"))
    });
    let own: Vec<Value> = own.cloned().collect();
    volumes.extend(own);
    pod_spec.set("volumes", volumes);
    if !selector.is_everything() {
        parts::matching_labels(errors, &path, &template, &selector);
    }
    pod::validate::template(errors, &path, &template);
    pod::validate::template_metadata(errors, &path, &template);
}

fn update_strategy(errors: &mut Errors, path: &Path, strategy: &Value) {
    let rolling_update = strategy.at("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "" => errors.push(Error::required(path, "")),
        "OnDelete" if !rolling_update.is_null() => {
            let fault = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(
                &rolling_path,
                BadValue::Raw(internal(rolling_update)),
                fault,
            ));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            check::non_negative(
                errors,
                &rolling_path.child("partition"),
                rolling_update.count("partition"),
            );
            let unavailable = rolling_update.at("maxUnavailable");
            if !unavailable.is_null() {
                let path = rolling_path.child("maxUnavailable");
                parts::number_or_percent(errors, &path, unavailable);
                if parts::is_none(unavailable) {
                    errors.push(Error::invalid(&path, unavailable.clone(), "cannot be 0"));
                }
                parts::at_most_all(errors, &path, unavailable);
            }
        }
        kind => {
            let shown = Ordered::new()
                .text("Type", kind)
                .raw("RollingUpdate", internal(rolling_update));
            errors.push(Error::invalid(
                path,
                shown.bad_value(),
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
}

/// The rolling update parameters as Kubernetes prints its internal struct in a message.
fn internal(rolling_update: &Value) -> String {
    if rolling_update.is_null() {
        return "null".to_owned();
    }
    let text = Ordered::new().with("Partition", &rolling_update.count("partition").into());
    text.with("MaxUnavailable", rolling_update.at("maxUnavailable"))
        .finish()
}

fn validate_update(new: &Value, old: &Value) -> Errors {
    const FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                         'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                         'minReadySeconds' are forbidden";
    let mut errors = check::changed_metadata(new, old);
    validate_spec(&mut errors, new.at("spec"), Stage::Changed);
    let mut rest = new.at("spec").clone();
    for key in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        rest.copy_from(key, old.at("spec"));
    }
    if rest != *old.at("spec") {
        errors.push(Error::forbidden(&Path::new("spec"), FIXED));
    }
    errors
}

fn validate_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    let (status, path) = (new.at("status"), Path::new("status"));
    let of_replicas = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    parts::counts(&mut errors, &path, status, &["replicas"]);
    parts::counts(&mut errors, &path, status, &of_replicas);
    parts::counts(
        &mut errors,
        &path,
        status,
        &["observedGeneration", "collisionCount"],
    );
    parts::parts_of_replicas(&mut errors, &path, status, &of_replicas);
    parts::available_are_ready(&mut errors, &path, status, "status.readyReplicas");
    errors.extend(check::changed_metadata(new, old));
    parts::collisions(&mut errors, &path, new, old);
    errors
}

fn history_warning(set: &Value) -> Option<String> {
    let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    let is_negative = set.at("spec").count("revisionHistoryLimit") < 0;
    is_negative.then(|| text.to_owned())
}

fn claim_warnings(set: &Value, spec_path: fn(Path) -> Path) -> Vec<String> {
    let path = Path::new("spec").child("volumeClaimTemplates");
    let templates = set.at("spec").items("volumeClaimTemplates").iter();
    let warnings = templates.enumerate().flat_map(|(i, template)| {
        claim::spec_warnings(&spec_path(path.index(i)), template.at("spec"))
    });
    warnings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stateful_set_keeps_order_and_claims() {
        let mut set =
            json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}});
        default(&mut set);
        set["spec"].remove("template");
        assert_eq!(
            set["spec"],
            json!({
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "podManagementPolicy": "OrderedReady",
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "volumeClaimTemplates": [{
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "data"},
                    "spec": {"volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                }],
            })
        );
    }

    #[test]
    fn only_a_strategy_left_out_gets_a_partition() {
        let mut set = json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}});
        default(&mut set);
        assert_eq!(
            set["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate"})
        );
    }

    #[test]
    fn only_some_fields_of_the_spec_may_change() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}});
        let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        let mut old = json!({
            "metadata": {"name": "s", "namespace": "n", "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template,
                     "volumeClaimTemplates": [claim]},
        });
        default(&mut old);
        let mut new = old.clone();
        new["spec"]["replicas"] = 5.into();
        assert_eq!(validate_update(&new, &old), []);
        new["spec"]["serviceName"] = "t".into();
        assert_eq!(validate_update(&new, &old).len(), 1);
    }
}
