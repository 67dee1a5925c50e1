//! What the restricted level asks beyond the baseline.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/pod-security-admission/policy/check_allowPrivilegeEscalation.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_capabilities_restricted.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_procMount_restricted.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_restrictedVolumes.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_runAsNonRoot.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_runAsUser.go`
//! - `staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_restricted.go`

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::is_seccomp_allowed;
use super::{Pod, Violation, context, named_containers, plural, quoted, setters};
use crate::kinds::value::Read;

/// Processes get no rights that their parents do not have.
pub(super) fn allow_privilege_escalation(pod: Pod<'_>) -> Option<Violation> {
    let containers = pod.containers_that(|container| {
        context(container).switch("allowPrivilegeEscalation") != Some(false)
    });
    let detail = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        named_containers(&containers)
    );
    (!containers.is_empty()).then(|| Violation::new("allowPrivilegeEscalation != false", detail))
}

/// Containers drop all capabilities, and add none but that for low ports.
pub(super) fn capabilities(pod: Pod<'_>) -> Option<Violation> {
    let own = |container| context(container).at("capabilities");
    let keeping = pod.containers_that(|container| {
        let dropped = own(container).items("drop");
        !dropped.iter().any(|name| name == "ALL")
    });
    let mut values = BTreeSet::new();
    let adding = pod.containers_that(|container| {
        let added = own(container).items("add").iter();
        let added = added.filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|name| *name != "NET_BIND_SERVICE").collect();
        values.extend(bad.iter().copied());
        !bad.is_empty()
    });
    let mut faults = Vec::new();
    if !keeping.is_empty() {
        faults.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            named_containers(&keeping)
        ));
    }
    if !adding.is_empty() {
        faults.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named_containers(&adding),
            quoted(values)
        ));
    }
    (!faults.is_empty()).then(|| Violation::new("unrestricted capabilities", faults.join("; ")))
}

/// The sources of volumes that are not of the node or of a storage system.
const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other sources, in the order in which the first that a volume has names it.
const FORBIDDEN_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// A pod mounts no storage system directly.
pub(super) fn volumes(pod: Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.items("volumes").iter();
    let bad: Vec<&Value> = volumes
        .filter(|volume| !ALLOWED_VOLUMES.iter().any(|source| volume.has(source)))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let source_of = |volume: &&Value| {
        let mut sources = FORBIDDEN_VOLUMES.into_iter();
        sources
            .find(|source| volume.has(source))
            .unwrap_or("unknown")
    };
    let sources: BTreeSet<&str> = bad.iter().map(source_of).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural(bad.len(), "volume", "volumes"),
        quoted(bad.iter().map(|volume| volume.text("name"))),
        plural(bad.len(), "uses", "use"),
        plural(
            sources.len(),
            "restricted volume type",
            "restricted volume types"
        ),
        quoted(&sources)
    );
    Some(Violation::new("restricted volume types", detail))
}

/// Containers do not run as root.
pub(super) fn run_as_non_root(pod: Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let of_pod = pod.context().switch("runAsNonRoot");
    let own = |container| context(container).switch("runAsNonRoot");
    let refusing = pod.containers_that(|container| own(container) == Some(false));
    if let Some(setters) = setters(of_pod == Some(false), &refusing) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Some(Violation::new(REASON, detail));
    }
    let silent = pod.containers_that(|container| own(container).is_none() && of_pod != Some(true));
    let detail = format!(
        "pod or {} must set securityContext.runAsNonRoot=true",
        named_containers(&silent)
    );
    (!silent.is_empty()).then(|| Violation::new(REASON, detail))
}

/// Nothing runs as the user 0.
pub(super) fn run_as_user(pod: Pod<'_>) -> Option<Violation> {
    let is_root = |context: &Value| context.number("runAsUser") == Some(0);
    let containers = pod.containers_that(|container| is_root(context(container)));
    let setters = setters(is_root(pod.context()), &containers)?;
    let detail = format!("{setters} must not set runAsUser=0");
    Some(Violation::new("runAsUser=0", detail))
}

/// Every container has a profile of seccomp, its own or that of the pod.
pub(super) fn seccomp_profile(pod: Pod<'_>) -> Option<Violation> {
    if let Some(violation) = super::baseline::seccomp_profile(pod) {
        return Some(violation);
    }
    let has_own = is_seccomp_allowed(pod.context().at("seccompProfile"));
    let silent =
        pod.containers_that(|container| !has_own && !context(container).has("seccompProfile"));
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        named_containers(&silent)
    );
    (!silent.is_empty()).then(|| Violation::new("seccompProfile", detail))
}
