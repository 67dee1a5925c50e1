//! Finds the objects that a pod refers to, field by field of its type: no other text in a pod lets
//! its node read an object.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/auth/authorizer/node/graph.go`: `AddPod`
//! - `pkg/api/v1/pod/util.go`: `VisitPodSecretNames`, `VisitPodConfigmapNames`

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Kind, ObjectRef};

/// A pod itself and all it refers to. A mirror of a pod that the node has from
/// elsewhere gives it nothing more.
pub(super) fn referenced_objects(pod: &Value) -> BTreeSet<ObjectRef> {
    let metadata = &pod["metadata"];
    let mut found = References::new(pod);
    found.add(Kind::Pod, &metadata["name"]);
    if metadata["annotations"]["kubernetes.io/config.mirror"].is_null() {
        found.visit(pod);
    }
    found.objects
}

/// All that a pod refers to, be it a mirror or not.
pub(super) fn all_referenced_objects(pod: &Value) -> BTreeSet<ObjectRef> {
    let mut found = References::new(pod);
    found.visit(pod);
    found.objects
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Kinds of volumes that have a `secretRef`.
const WITH_SECRET: [&str; 7] = [
    "cephfs",
    "cinder",
    "flexVolume",
    "iscsi",
    "rbd",
    "scaleIO",
    "storageos",
];

struct References<'p> {
    pod: &'p str,
    namespace: &'p str,
    objects: BTreeSet<ObjectRef>,
}

impl<'p> References<'p> {
    /// None yet.
    fn new(pod: &'p Value) -> Self {
        let metadata = &pod["metadata"];
        References {
            pod: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
            objects: BTreeSet::new(),
        }
    }
}

impl References<'_> {
    /// Adds what has a name; an absent or empty one refers to nothing.
    fn add(&mut self, kind: Kind, name: &Value) {
        self.add_named(kind, text(name));
    }

    fn add_named(&mut self, kind: Kind, name: &str) {
        if !name.is_empty() {
            self.objects.insert(ObjectRef {
                kind,
                namespace: self.namespace.to_owned(),
                name: name.to_owned(),
            });
        }
    }

    fn visit(&mut self, pod: &Value) {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        self.add(Kind::ServiceAccount, &spec["serviceAccountName"]);
        for secret in items(&spec["imagePullSecrets"]) {
            self.add(Kind::Secret, &secret["name"]);
        }
        for list in ["initContainers", "containers", "ephemeralContainers"] {
            items(&spec[list]).for_each(|container| self.visit_container(container));
        }
        items(&spec["volumes"]).for_each(|volume| self.visit_volume(volume));
        for claim in items(&spec["resourceClaims"]) {
            match claim["resourceClaimName"].as_str() {
                Some(_) => self.add(Kind::ResourceClaim, &claim["resourceClaimName"]),
                // The one that was made for it, if any was needed.
                None => {
                    let mut made = items(&status["resourceClaimStatuses"]);
                    if let Some(made) = made.find(|made| made["name"] == claim["name"]) {
                        self.add(Kind::ResourceClaim, &made["resourceClaimName"]);
                    }
                }
            }
        }
        let extended = &status["extendedResourceClaimStatus"]["resourceClaimName"];
        self.add(Kind::ResourceClaim, extended);
    }

    fn visit_container(&mut self, container: &Value) {
        for source in items(&container["envFrom"]) {
            self.add(Kind::Secret, &source["secretRef"]["name"]);
            self.add(Kind::ConfigMap, &source["configMapRef"]["name"]);
        }
        for variable in items(&container["env"]) {
            let source = &variable["valueFrom"];
            self.add(Kind::Secret, &source["secretKeyRef"]["name"]);
            self.add(Kind::ConfigMap, &source["configMapKeyRef"]["name"]);
        }
    }

    fn visit_volume(&mut self, volume: &Value) {
        self.add(Kind::Secret, &volume["secret"]["secretName"]);
        self.add(Kind::Secret, &volume["azureFile"]["secretName"]);
        for source in WITH_SECRET {
            self.add(Kind::Secret, &volume[source]["secretRef"]["name"]);
        }
        let of_driver = &volume["csi"]["nodePublishSecretRef"]["name"];
        self.add(Kind::Secret, of_driver);
        self.add(Kind::ConfigMap, &volume["configMap"]["name"]);
        for source in items(&volume["projected"]["sources"]) {
            self.add(Kind::Secret, &source["secret"]["name"]);
            self.add(Kind::ConfigMap, &source["configMap"]["name"]);
        }
        let claim = &volume["persistentVolumeClaim"]["claimName"];
        self.add(Kind::Claim, claim);
        if volume["ephemeral"].is_object() {
            let claim = format!("{}-{}", self.pod, text(&volume["name"]));
            self.add_named(Kind::Claim, &claim);
        }
    }
}
