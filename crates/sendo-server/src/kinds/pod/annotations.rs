//! Validation of the annotations that pods have a meaning for: tolerations, seccomp, AppArmor,
//! deletion cost.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodSpecificAnnotations`,
//!   `ValidatePodSpecificAnnotationUpdates`, `ValidateSeccompPodAnnotations`,
//!   `ValidateAppArmorPodAnnotations`, `validateSeccompAnnotationsAndFields`,
//!   `validateAppArmorAnnotationsAndFieldsMatchOnCreate`
//! - `pkg/apis/core/helper/helpers.go`: `GetDeletionCostFromPodAnnotations`
//! - `pkg/api/pod/util.go`: `ApparmorFieldForAnnotation`
//! - `pkg/registry/core/pod/strategy.go`: `applyAppArmorVersionSkew`

use sendo_apimachinery::field::{Error, Path};
use serde_json::{Value, json};

use super::affinity;
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};

/// Marks a mirror pod, which represents a static pod of the kubelet.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The maximum length of an AppArmor profile name.
const MAX_PROFILE: usize = 4096;

/// Validates the annotations of a pod or template with this spec.
pub(super) fn validate(errors: &mut Errors, path: &Path, annotations: &Value, spec: &Value) {
    if annotations.has(MIRROR) && spec.text("nodeName").is_empty() {
        let fault = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(Error::invalid(
            &path.key(MIRROR),
            annotations.text(MIRROR),
            fault,
        ));
    }
    if let Ok(tolerations) = serde_json::from_str::<Vec<Value>>(annotations.text(TOLERATIONS)) {
        affinity::tolerations(errors, &path.child(TOLERATIONS), &tolerations);
    }
    if let Some(cost) = annotations.at(DELETION_COST).as_str()
        && !is_deletion_cost(cost)
    {
        errors.push(Error::invalid(
            &path.key(DELETION_COST),
            cost,
            "must be a 32bit integer",
        ));
    }
    if annotations.has(SECCOMP_POD) {
        seccomp(
            errors,
            &path.child(SECCOMP_POD),
            annotations.text(SECCOMP_POD),
        );
    }
    for (key, profile) in annotations.as_object().into_iter().flatten() {
        if key.starts_with(SECCOMP_CONTAINER) {
            seccomp(
                errors,
                &path.child(key),
                profile.as_str().unwrap_or_default(),
            );
        }
    }
    for (key, profile) in annotations.as_object().into_iter().flatten() {
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor(
                errors,
                &path.key(key),
                container,
                profile.as_str().unwrap_or_default(),
                spec,
            );
        }
    }
}

/// Whether a text is a 32-bit integer without a plus sign or leading zeros.
fn is_deletion_cost(cost: &str) -> bool {
    let digits = cost.strip_prefix('-').unwrap_or(cost);
    let has_plain_start = cost == "0" || digits.starts_with(|c| matches!(c, '1'..='9'));
    has_plain_start && cost.parse::<i32>().is_ok()
}

fn seccomp(errors: &mut Errors, path: &Path, profile: &str) {
    match profile.strip_prefix("localhost/") {
        _ if matches!(profile, "docker/default" | "runtime/default" | "unconfined") => {}
        Some(file) => check::descending_path(errors, path, file),
        None => errors.push(Error::invalid(
            path,
            profile,
            "must be a valid seccomp profile",
        )),
    }
}

fn app_armor(errors: &mut Errors, path: &Path, container: &str, profile: &str, spec: &Value) {
    let mut is_known = false;
    super::each_container(spec, path, |other, _| {
        is_known |= other.text("name") == container
    });
    if !is_known {
        errors.push(Error::invalid(path, container, "container not found"));
    }
    let is_profile = matches!(profile, "" | "runtime/default" | "unconfined")
        || profile.starts_with("localhost/");
    if !is_profile {
        let fault = format!("invalid AppArmor profile name: \"{profile}\"");
        errors.push(Error::invalid(path, profile, fault));
    }
}

/// The `appArmorProfile` that an AppArmor annotation stands for, if it is valid.
pub(super) fn app_armor_field(profile: &str) -> Option<Value> {
    match profile {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        profile => {
            let file = profile.strip_prefix("localhost/")?;
            let is_usable = file.trim() == file && !file.is_empty() && file.len() <= MAX_PROFILE;
            is_usable.then(|| json!({"type": "Localhost", "localhostProfile": file}))
        }
    }
}

/// Sets the AppArmor fields of containers from their annotations.
pub(super) fn sync_app_armor(pod: &mut Value) {
    if pod.at("spec").at("os").text("name") == "windows" {
        return;
    }
    if !has_any(pod.at("metadata").at("annotations"), APP_ARMOR) {
        return;
    }
    let annotations = pod.at("metadata").at("annotations").clone();
    let of_pod = pod
        .at("spec")
        .at("securityContext")
        .at("appArmorProfile")
        .clone();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.object("spec").items_mut(list) {
            let key = [APP_ARMOR, container.text("name")].concat();
            let field = app_armor_field(annotations.text(&key));
            let has_field = container.at("securityContext").has("appArmorProfile");
            if let Some(field) = field.filter(|field| !has_field && *field != of_pod) {
                container
                    .object("securityContext")
                    .set("appArmorProfile", field);
            }
        }
    }
}

/// Whether there is an annotation with this key prefix.
fn has_any(annotations: &Value, prefix: &str) -> bool {
    let mut keys = annotations.as_object().into_iter().flatten();
    keys.any(|(key, _)| key.starts_with(prefix))
}

/// Validates that immutable annotations did not change.
pub(super) fn validate_update(errors: &mut Errors, path: &Path, new: &Value, old: &Value) {
    let (annotations, before) = (
        new.at("metadata").at("annotations"),
        old.at("metadata").at("annotations"),
    );
    let mut refuse = |key: &str, verb: &str| {
        if key.starts_with(APP_ARMOR) {
            errors.push(Error::forbidden(
                &path.key(key),
                format!("may not {verb} AppArmor annotations"),
            ));
        }
        if key == MIRROR {
            errors.push(Error::forbidden(
                &path.key(key),
                format!("may not {verb} mirror pod annotation"),
            ));
        }
    };
    for (key, value) in before.as_object().into_iter().flatten() {
        if annotations.get(key) != Some(value) {
            refuse(key, "remove or update");
        }
    }
    for key in annotations
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if before.get(key).is_none() {
            refuse(key, "add");
        }
    }
    validate(errors, path, annotations, new.at("spec"));
}

/// Validates on create that the annotations and fields of a profile agree.
pub(super) fn match_fields(errors: &mut Errors, path: &Path, pod: &Value) {
    let (annotations, spec) = (pod.at("metadata").at("annotations"), pod.at("spec"));
    if let Some(annotation) = annotations.at(SECCOMP_POD).as_str() {
        let profile = spec.at("securityContext").at("seccompProfile");
        let path = path.child("securityContext").child("seccompProfile");
        same_profile(errors, &path, annotation, profile, Profile::Seccomp);
    }
    super::each_container(spec, path, |container, path| {
        let key = [SECCOMP_CONTAINER, container.text("name")].concat();
        if let Some(annotation) = annotations.at(&key).as_str() {
            let profile = container.at("securityContext").at("seccompProfile");
            let path = path.child("securityContext").child("seccompProfile");
            same_profile(errors, &path, annotation, profile, Profile::Seccomp);
        }
    });
    if spec.at("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.at("securityContext").at("appArmorProfile");
    super::each_container(spec, path, |container, path| {
        let own = container.at("securityContext").at("appArmorProfile");
        let profile = if own.is_null() { of_pod } else { own };
        let key = [APP_ARMOR, container.text("name")].concat();
        if let Some(annotation) = annotations.at(&key).as_str() {
            let path = path.child("securityContext").child("appArmorProfile");
            same_profile(errors, &path, annotation, profile, Profile::AppArmor);
        }
    });
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Profile {
    AppArmor,
    Seccomp,
}

fn same_profile(
    errors: &mut Errors,
    path: &Path,
    annotation: &str,
    profile: &Value,
    kind: Profile,
) {
    let name = if kind == Profile::AppArmor {
        "apparmor"
    } else {
        "seccomp"
    };
    let is_same_type = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default"
                || (kind == Profile::Seccomp && annotation == "docker/default")
        }
        "Localhost" => annotation.starts_with("localhost/"),
        _ => return,
    };
    if !is_same_type {
        let fault = format!("{name} type in annotation and field must match");
        errors.push(Error::forbidden(&path.child("type"), fault));
    } else if profile.text("type") == "Localhost"
        && annotation.strip_prefix("localhost/") != profile.at("localhostProfile").as_str()
    {
        let fault = format!("{name} profile in annotation and field must match");
        errors.push(Error::forbidden(&path.child("localhostProfile"), fault));
    }
}
