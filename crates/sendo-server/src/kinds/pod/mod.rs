//! Rules of Pods, and of the pod templates of workloads.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/pod/strategy.go`: `CheckGracefulDelete`, `ToSelectableFields`
//! - `pkg/api/pod/util.go`: `VisitPodSecretNames`
//! - `pkg/apis/core/pods/helpers.go`: `VisitContainersWithPath`
//! - `pkg/apis/core/v1/conversion.go`: `addConversionFuncs`

pub(crate) mod affinity;
mod annotations;
mod containers;
pub(crate) mod defaults;
mod env;
mod image;
mod mounts;
mod overlaps;
pub(crate) mod prepare;
mod probes;
mod quality;
mod resize;
mod security;
pub(crate) mod sources;
mod status;
pub(crate) mod storage_systems;
mod update;
pub(crate) mod validate;
pub(crate) mod volumes;
pub(crate) mod warnings;
mod windows;

pub(crate) use status::set_condition;

use sendo_apimachinery::field::Path;
use serde_json::Value;

use super::value::Read;
use super::{NAMESPACE, Rules, SelectableField, UnknownFields, Update};

pub(super) const RULES: Rules = Rules {
    default: defaults::pod,
    prepare_for_create: prepare::create,
    prepare_for_update: prepare::update,
    validate: |_, pod| validate::create(pod),
    validate_update: |_, new, old| update::pod(new, old),
    warnings_on_create: warnings::of_pod,
    prepare_for_status_update: prepare::status,
    validate_status_update: |_, new, old| status::validate_update(new, old),
    subresources: &[
        ("ephemeralcontainers", EPHEMERAL_CONTAINERS),
        ("resize", RESIZE),
    ],
    selectable_fields: &SELECTABLE,
    unknown_fields: UnknownFields::NotSupported,
    grace_period: Some(grace_period),
    ..Rules::NEUTRAL
};

/// Whether the pod is a mirror pod, which represents a static pod of a kubelet.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod.at("metadata")
        .at("annotations")
        .has(annotations::MIRROR)
}

/// Whether the pod refers to a Secret.
pub(crate) fn uses_secrets(spec: &Value) -> bool {
    let names = |reference: &Value, key: &str| !reference.text(key).is_empty();
    let of_container = |container: &Value| {
        let sources = container.items("envFrom").iter();
        let variables = container.items("env").iter();
        sources
            .map(|source| source.at("secretRef"))
            .chain(variables.map(|variable| variable.at("valueFrom").at("secretKeyRef")))
            .any(|secret| names(secret, "name"))
    };
    let of_volume = |volume: &Value| {
        let by_reference = [
            "cephfs",
            "cinder",
            "flexVolume",
            "rbd",
            "scaleIO",
            "iscsi",
            "storageos",
        ];
        names(volume.at("azureFile"), "secretName")
            || names(volume.at("secret"), "secretName")
            || names(volume.at("csi").at("nodePublishSecretRef"), "name")
            || by_reference
                .iter()
                .any(|kind| names(volume.at(kind).at("secretRef"), "name"))
            || volume
                .at("projected")
                .items("sources")
                .iter()
                .any(|source| names(source.at("secret"), "name"))
    };
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    spec.items("imagePullSecrets")
        .iter()
        .any(|secret| names(secret, "name"))
        || lists
            .iter()
            .any(|list| spec.items(list).iter().any(of_container))
        || spec.items("volumes").iter().any(of_volume)
}

const EPHEMERAL_CONTAINERS: Update = Update {
    prepare: prepare::ephemeral_containers,
    validate: |_, new, old| update::ephemeral_containers(new, old),
};

const RESIZE: Update = Update {
    prepare: prepare::resize,
    validate: |_, new, old| resize::pod(new, old),
};

const SELECTABLE: [SelectableField; 11] = [
    NAMESPACE,
    ("spec.nodeName", |pod| {
        pod.at("spec").text("nodeName").to_owned()
    }),
    // The legacy name of that field.
    ("spec.host", |pod| {
        pod.at("spec").text("nodeName").to_owned()
    }),
    ("spec.restartPolicy", |pod| {
        pod.at("spec").text("restartPolicy").to_owned()
    }),
    ("spec.schedulerName", |pod| {
        pod.at("spec").text("schedulerName").to_owned()
    }),
    ("spec.serviceAccountName", |pod| {
        pod.at("spec").text("serviceAccountName").to_owned()
    }),
    ("spec.hostNetwork", |pod| {
        pod.at("spec").is_set("hostNetwork").to_string()
    }),
    ("status.phase", |pod| {
        pod.at("status").text("phase").to_owned()
    }),
    ("status.podIP", |pod| first_ip(pod).to_owned()),
    // Kubernetes accepts this field label, but never sets the field.
    ("status.podIPs", |_| String::new()),
    ("status.nominatedNodeName", |pod| {
        pod.at("status").text("nominatedNodeName").to_owned()
    }),
];

/// Visits all containers of the pod spec at `path`: init containers, containers, ephemeral
/// containers.
fn each_container(spec: &Value, path: &Path, mut visit: impl FnMut(&Value, &Path)) {
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in spec.items(key).iter().enumerate() {
            visit(container, &path.child(key).index(i));
        }
    }
}

fn first_ip(pod: &Value) -> &str {
    pod.at("status")
        .items("podIPs")
        .first()
        .map_or("", |ip| ip.text("ip"))
}

/// The grace period of a pod: zero if it is not scheduled or has finished. A negative period counts
/// as one second.
fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let ended = matches!(pod.at("status").text("phase"), "Failed" | "Succeeded");
    if ended || pod.at("spec").text("nodeName").is_empty() {
        return 0;
    }
    let period = requested.unwrap_or_else(|| pod.at("spec").count("terminationGracePeriodSeconds"));
    if period < 0 { 1 } else { period }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_ends_gracefully_only_where_it_runs() {
        let running = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        let unscheduled = json!({"spec": {"terminationGracePeriodSeconds": 30}});
        let ended = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}});
        let cases = [
            (&running, None, 30),
            (&running, Some(5), 5),
            (&running, Some(-5), 1),
            (&unscheduled, Some(5), 0),
            (&ended, Some(5), 0),
        ];
        for (pod, requested, expected) in cases {
            assert_eq!(grace_period(pod, requested), expected);
        }
    }
}
