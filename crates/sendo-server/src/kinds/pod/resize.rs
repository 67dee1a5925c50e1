//! Validation of in-place resizes, through the subresource `/resize`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/validation.go`: `ValidatePodResize`

use sendo_apimachinery::field::{Error, Path};
use serde_json::Value;

use super::annotations::MIRROR;
use super::{quality, validate};
use crate::kinds::check::{self, Errors};
use crate::kinds::value::{Read, Write};

const RESIZABLE: &str = "only cpu and memory resources are mutable";

/// Validates a resize.
pub(super) fn pod(new: &Value, old: &Value) -> Errors {
    let mut errors = check::changed_metadata(new, old);
    errors.extend(validate::metadata_and_spec(new));
    let path = Path::new("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    if old.at("metadata").at("annotations").has(MIRROR) {
        return vec![Error::forbidden(
            &Path::new(""),
            "static pods cannot be resized",
        )];
    }
    if old_spec.at("os").text("name") == "windows" {
        return vec![Error::forbidden(
            &Path::new(""),
            "windows pods cannot be resized",
        )];
    }
    if old.at("status").text("qosClass") != quality::class(spec) {
        let shown = new.at("status").text("qosClass");
        let fault = "Pod QOS Class may not change as a result of resizing";
        errors.push(Error::invalid(&path, shown, fault));
    }
    let mut running = old.at("status").items("containerStatuses").iter();
    if running
        .find(|status| status.at("state").has("running"))
        .is_some_and(|status| !status.has("resources"))
    {
        errors.push(Error::forbidden(
            &path,
            "Pod running on node without support for resize",
        ));
    }
    let mut rest = spec.clone();
    pod_level(&mut errors, &path, &mut rest, old_spec);
    if !same_containers(&mut errors, &path, spec, old_spec) {
        return errors;
    }
    for key in ["initContainers", "containers"] {
        for (i, (new, old)) in spec.items(key).iter().zip(old_spec.items(key)).enumerate() {
            nothing_removed(
                &mut errors,
                &path.child(key).index(i).child("resources"),
                new,
                old,
                "",
            );
        }
    }
    for container_and_old in rest
        .items_mut("containers")
        .iter_mut()
        .zip(old_spec.items("containers"))
    {
        let (container, old) = container_and_old;
        ignore_container(container, old);
        if container != old {
            errors.push(Error::forbidden(&path, RESIZABLE));
        }
    }
    for (i, container) in rest.items_mut("initContainers").iter_mut().enumerate() {
        let old = &old_spec.items("initContainers")[i];
        resized_init_container(
            &mut errors,
            &path.child("initContainers").index(i),
            container,
            old,
        );
    }
    if errors.is_empty() && rest != *old_spec {
        errors.push(Error::forbidden(&path, RESIZABLE));
    }
    errors
}

fn resized_init_container(errors: &mut Errors, path: &Path, container: &mut Value, old: &Value) {
    let was_changed = container != old;
    ignore_container(container, old);
    if container != old {
        let fault = "only cpu and memory resources for init or sidecar containers are mutable";
        errors.push(Error::forbidden(path, fault));
    }
    let restarts = container
        .items("resizePolicy")
        .iter()
        .filter(|p| p.text("restartPolicy") == "RestartContainer");
    if was_changed && container.text("restartPolicy") != "Always" {
        for _ in restarts {
            let fault = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.push(Error::forbidden(path, fault));
        }
    }
}

/// Validates the resize of pod-level resources.
fn pod_level(errors: &mut Errors, path: &Path, rest: &mut Value, old: &Value) {
    let is_given = |spec: &Value| {
        ["limits", "requests"]
            .iter()
            .any(|list| spec.at("resources").entries(list).next().is_some())
    };
    if !is_given(rest) && !is_given(old) {
        return;
    }
    if old.has("resources") && !rest.has("resources") {
        errors.push(Error::forbidden(
            &path.child("resources"),
            "pod-level resources cannot be removed",
        ));
        return;
    }
    if old.has("resources") {
        nothing_removed(errors, &path.child("resources"), rest, old, "pod-level ");
    }
    ignore_resized(rest, old);
    if rest.at("resources") != old.at("resources") {
        let fault = "only cpu and memory resources are mutable at pod-level";
        errors.push(Error::forbidden(path, fault));
    }
}

fn same_containers(errors: &mut Errors, path: &Path, spec: &Value, old: &Value) -> bool {
    let before = errors.len();
    for key in ["containers", "initContainers"] {
        let path = path.child(key);
        if spec.items(key).len() != old.items(key).len() {
            errors.push(Error::forbidden(
                &path,
                format!("{key} may not be added or removed on resize"),
            ));
            continue;
        }
        for (i, (new, old)) in spec.items(key).iter().zip(old.items(key)).enumerate() {
            if new.text("name") != old.text("name") {
                let fault = format!("{key} may not be renamed or reordered on resize");
                errors.push(Error::forbidden(&path.index(i).child("name"), fault));
            }
        }
    }
    errors.len() == before
}

fn nothing_removed(errors: &mut Errors, path: &Path, new: &Value, old: &Value, what: &str) {
    for list in ["requests", "limits"] {
        let mut names = old.at("resources").entries(list).map(|(name, _)| name);
        if names.any(|name| !new.at("resources").at(list).has(name)) {
            let fault = format!("{what}resource {list} cannot be removed");
            errors.push(Error::forbidden(&path.child(list), fault));
        }
    }
}

/// Restores the resizable fields of a container. Kubernetes does not compare its claims, except
/// that a resize cannot be the first to add some.
fn ignore_container(container: &mut Value, old: &Value) {
    if let Some(resources) = container.existing("resources") {
        resources.remove("claims");
    }
    ignore_resized(container, old);
}

/// Restores the resizable resources, so that all other fields can be compared.
fn ignore_resized(holder: &mut Value, old: &Value) {
    if !holder.has("resources") && !old.has("resources") {
        return;
    }
    for list in ["requests", "limits"] {
        let before = old.at("resources").at(list);
        let resources = holder.object("resources");
        if !resources.has(list) && before.is_null() {
            continue;
        }
        for name in ["cpu", "memory"] {
            resources.object(list).copy_from(name, before);
        }
        if before.is_null() && resources.entries(list).next().is_none() {
            resources.remove(list);
        }
    }
    if !old.has("resources")
        && holder
            .at("resources")
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
    {
        holder.remove("resources");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::update::tests::running;
    use super::*;

    #[test]
    fn resizing_changes_cpu_and_memory_alone() {
        let mut old = running();
        old["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        old["status"]["qosClass"] = "Burstable".into();
        let mut new = old.clone();
        new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
        assert_eq!(pod(&new, &old), []);
        new["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "1Gi".into();
        assert_eq!(
            pod(&new, &old)[0].to_string(),
            format!("spec: Forbidden: {RESIZABLE}")
        );
    }
}
