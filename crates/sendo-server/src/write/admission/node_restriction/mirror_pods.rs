//! The pods that a node creates: mirrors of those that it runs by itself. They refer to no object
//! of the API, by which the node could read it.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/noderestriction/admission.go`: `admitPodCreate`
//! - `pkg/api/pod/util.go`: `HasAPIObjectReference`

use sendo_apimachinery::{Meta, Status, go_quote};
use serde_json::Value;

use super::{NodeWrite, is_on};
use crate::access::authorise::nodes;
use crate::kinds::value::Read;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Volumes that need nothing of the API.
const LOCAL: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volumes that do, and what of it.
const REFERRING: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    (
        "ephemeral",
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that do.
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    (
        "serviceAccountToken",
        "serviceaccounts (via projected volumes)",
    ),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

pub(super) async fn check(write: &NodeWrite<'_>) -> Result<(), Status> {
    let (pod, node) = (write.object, write.quoted());
    if Meta::new(pod).annotation(MIRROR).is_none() {
        return write.refuse(format!(
            "pod does not have {} annotation, node {node} can only create mirror pods",
            go_quote(MIRROR)
        ));
    }
    if !is_on(pod, write.node) {
        return write.refuse(format!(
            "node {node} can only create pods with spec.nodeName set to itself"
        ));
    }
    check_owner(write).await?;
    match reference(pod) {
        Ok(None) => Ok(()),
        Ok(Some(resource)) => write.refuse(format!(
            "node {node} can not create pods that reference {resource}"
        )),
        Err(fault) => write.refuse(format!(
            "error checking mirror pod for API references: {fault}"
        )),
    }
}

/// The node is the one owner of its pods.
async fn check_owner(write: &NodeWrite<'_>) -> Result<(), Status> {
    let node = write.quoted();
    let owner = match write.object.at("metadata").items("ownerReferences") {
        [owner] => owner,
        [] => {
            return write.refuse(format!(
                "node {node} can only create pods with an owner reference set to itself"
            ));
        }
        _ => {
            return write.refuse(format!(
                "node {node} can only create pods with a single owner reference set to itself"
            ));
        }
    };
    let found = [
        owner.text("apiVersion"),
        owner.text("kind"),
        owner.text("name"),
    ];
    if found != ["v1", "Node", write.node] {
        return write.refuse(format!(
            "node {node} can only create pods with an owner reference set to itself"
        ));
    }
    if !owner.is_set("controller") {
        return write.refuse(format!(
            "node {node} can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner.is_set("blockOwnerDeletion") {
        return write.refuse(format!(
            "node {node} must not set blockOwnerDeletion on an owner reference"
        ));
    }
    let stored = write.stored("", "nodes", None, write.node).await?;
    let (named, uid) = (owner.text("uid"), Meta::new(&stored).uid());
    if named == uid {
        return Ok(());
    }
    write.refuse(format!(
        "node {} UID mismatch: expected {named} got {uid}",
        write.node
    ))
}

/// The first kind of object that a pod refers to, or the fault of a volume that is of no known
/// kind.
fn reference(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = pod.at("spec");
    if !spec.text("serviceAccountName").is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    let (secrets, config_maps) = nodes::refers_to_secrets_and_config_maps(pod);
    if secrets {
        return Ok(Some("secrets"));
    }
    if config_maps {
        return Ok(Some("configmaps"));
    }
    if !spec.items("resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.items("volumes") {
        if let Some(resource) = reference_of_volume(volume)? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

fn reference_of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    let first = |of: &Value, known: &[(&str, &'static str)]| {
        let mut known = known.iter();
        known
            .find(|(member, _)| of.has(member))
            .map(|(_, what)| *what)
    };
    if LOCAL.iter().any(|member| volume.has(member)) {
        return Ok(None);
    }
    if let Some(resource) = first(volume, &REFERRING) {
        return Ok(Some(resource));
    }
    let name = go_quote(volume.text("name"));
    if !volume.has("projected") {
        return Err(format!("unknown volume type for volume  {name}"));
    }
    for source in volume.at("projected").items("sources") {
        if let Some(resource) = first(source, &PROJECTED) {
            return Ok(Some(resource));
        }
        if !source.has("downwardAPI") {
            return Err(format!("unknown source for projected volume {name}"));
        }
    }
    Ok(None)
}
