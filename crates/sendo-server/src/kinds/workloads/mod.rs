//! Rules of the kinds of `apps`, and of ReplicationControllers and PodTemplates of the core group.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodTemplateSpec`
//! - `pkg/api/pod/util.go`: `DropDisabledTemplateFields`

mod controller_revision;
mod daemon_set;
mod deployment;
pub(super) mod parts;
mod pod_template;
mod replica_set;
mod replication_controller;
mod stateful_set;

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use super::check::Errors;
pub(super) use parts::name_warning;

use super::value::{Read, Write};
use super::{Cx, Rules, pod, writes};

/// The rules of a kind of `apps`, or of `ReplicationController` and `PodTemplate` of the core
/// group.
pub(super) fn rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "ControllerRevision" => const { &controller_revision::RULES },
        "DaemonSet" => const { &daemon_set::RULES },
        "Deployment" => const { &deployment::RULES },
        "PodTemplate" => const { &pod_template::RULES },
        "ReplicaSet" => const { &replica_set::RULES },
        "ReplicationController" => const { &replication_controller::RULES },
        "StatefulSet" => const { &stateful_set::RULES },
        _ => return None,
    })
}

/// Resets the status, sets generation 1, and drops fields of disabled features from the template.
fn create(cx: &Cx<'_>, workload: &mut Value) {
    writes::starts_without_status(cx, workload);
    drop_unserved(workload);
}

/// Restores the status and increments the generation if the spec changed.
fn update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    drop_unserved(new);
    writes::spec_moves_generation(cx, new, old);
}

fn drop_unserved(workload: &mut Value) {
    if let Some(template) = workload.object("spec").existing("template") {
        pod::prepare::drop_unserved(template.object("spec"));
    }
}

/// The value of the selectable field `status.replicas`.
fn replicas_text(workload: &Value) -> String {
    workload.at("status").count("replicas").to_string()
}

/// Validates that the selector did not change.
fn fixed_selector(errors: &mut Errors, new: &Value, old: &Value) {
    let selector = |workload: &Value| workload.at("spec").at("selector").clone();
    if selector(new) != selector(old) {
        let shown = parts::selector_text(&selector(new));
        errors.push(Error::invalid(
            &Path::new("spec").child("selector"),
            shown,
            "field is immutable",
        ));
    }
}

/// Warnings for the name of a workload, which becomes part of its pods' names.
pub(super) fn pod_name_warnings(workload: &Value) -> Vec<String> {
    let name = workload.at("metadata").text("name");
    name_warning(name, "Pod names and hostnames")
}

/// Warnings for the template of a workload.
fn template_warnings(workload: &Value) -> Vec<String> {
    let path = Path::new("spec").child("template");
    pod::warnings::of_template(&path, workload.at("spec").at("template"))
}

/// Warnings for a new workload: for its name and its template.
fn creation_warnings(workload: &Value) -> Vec<String> {
    let mut warnings = pod_name_warnings(workload);
    warnings.extend(template_warnings(workload));
    warnings
}

/// Warnings for an updated workload: for its template, if the generation changed.
fn change_warnings(new: &Value, old: &Value) -> Vec<String> {
    match is_next_generation(new, old) {
        true => template_warnings(new),
        false => Vec::new(),
    }
}

/// Whether an update changed the generation.
pub(super) fn is_next_generation(new: &Value, old: &Value) -> bool {
    let generation = |object: &Value| object.at("metadata").count("generation");
    generation(new) != generation(old)
}
