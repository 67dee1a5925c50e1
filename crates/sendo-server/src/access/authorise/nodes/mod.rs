//! The node authoriser: a node is allowed what the role `system:node` allows, but of pods, and of
//! what pods refer to, only what concerns the node itself.

mod references;

use std::collections::{BTreeSet, HashMap};

use sendo_apimachinery::{Status, go_quote};
use sendo_store::{At, Entry};
use serde_json::Value;

use super::{Attributes, Requested, ResourceAttributes};
use crate::access::Access;
use crate::access::follow::View;
use crate::catalog::keys::Keys;
use crate::catalog::storage::backend;
use crate::request::user::User;

/// The group of node agents.
const NODES: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";

/// The decision of the node authoriser.
pub(crate) enum Decision {
    /// The request is allowed.
    Allowed,
    /// The request is not allowed, and perhaps why; another authoriser may still allow it.
    Refused(String),
    /// The user is no node.
    NoNode,
}

fn refused(why: impl Into<String>) -> Result<Decision, Status> {
    Ok(Decision::Refused(why.into()))
}

/// The name of the node a user is; empty if it is a node without a name.
pub(crate) fn node_of(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    user.is_in(NODES).then_some(name)
}

/// Whether a pod refers to any Secret, and to any ConfigMap, be it a mirror or not.
pub(crate) fn refers_to_secrets_and_config_maps(pod: &Value) -> (bool, bool) {
    let objects = references::all_referenced_objects(pod);
    let has = |kind: Kind| objects.iter().any(|object| object.kind == kind);
    (has(Kind::Secret), has(Kind::ConfigMap))
}

/// Whether a user is a node, known by name or not.
pub(crate) fn is_node(user: &User) -> bool {
    node_of(user).is_some()
}

/// Decides whether a node is allowed a request.
pub(crate) async fn decide(
    access: &Access,
    attributes: &Attributes<'_>,
) -> Result<Decision, Status> {
    let Some(node) = node_of(attributes.user) else {
        return Ok(Decision::NoNode);
    };
    if node.is_empty() {
        return refused(format!(
            "unknown node for user {}",
            go_quote(&attributes.user.name)
        ));
    }
    if let Requested::Resource(subject) = &attributes.requested {
        let request = NodeRequest {
            access,
            node,
            verb: attributes.verb,
            subject,
        };
        if let Some(decision) = request.decide().await? {
            return Ok(decision);
        }
    }
    if access.node_rules.iter().any(|rule| rule.allows(attributes)) {
        return Ok(Decision::Allowed);
    }
    refused("")
}

/// A node's request on a resource of which each node is allowed a part.
struct NodeRequest<'a> {
    access: &'a Access,
    node: &'a str,
    verb: &'a str,
    subject: &'a ResourceAttributes<'a>,
}

impl NodeRequest<'_> {
    /// The decision on such a resource; `None` for all others.
    async fn decide(&self) -> Result<Option<Decision>, Status> {
        let ResourceAttributes {
            group,
            resource,
            subresource,
            ..
        } = self.subject;
        let decision = match (*group, *resource) {
            ("", "secrets") => self.read(Kind::Secret).await,
            ("", "configmaps") => self.read(Kind::ConfigMap).await,
            ("", "persistentvolumeclaims") if *subresource == "status" => match self.verb {
                "update" | "patch" => self.related(Kind::Claim).await,
                _ => refused("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims") => self.get(Kind::Claim).await,
            ("", "persistentvolumes") => self.get(Kind::Volume).await,
            ("resource.k8s.io", "resourceclaims") => self.get(Kind::ResourceClaim).await,
            ("storage.k8s.io", "volumeattachments") => self.get(Kind::Attachment).await,
            ("", "serviceaccounts") => self.account().await,
            ("coordination.k8s.io", "leases") => self.lease(),
            ("storage.k8s.io", "csinodes") => self.csi_node(),
            ("resource.k8s.io", "resourceslices") => self.slice().await,
            ("", "nodes") => self.node(),
            ("", "pods") => self.pod().await,
            _ => return Ok(None),
        };
        decision.map(Some)
    }

    async fn get(&self, kind: Kind) -> Result<Decision, Status> {
        if self.verb != "get" {
            return refused("can only get individual resources of this type");
        }
        if !self.subject.subresource.is_empty() {
            return refused("cannot get subresource");
        }
        self.related(kind).await
    }

    async fn read(&self, kind: Kind) -> Result<Decision, Status> {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return refused("can only read resources of this type");
        }
        if !self.subject.subresource.is_empty() {
            return refused("cannot read subresource");
        }
        if self.subject.namespace.is_empty() {
            return refused("can only read namespaced object of this type");
        }
        self.related(kind).await
    }

    /// Whether the object concerns the node: a pod on it refers to it.
    async fn related(&self, kind: Kind) -> Result<Decision, Status> {
        if self.subject.name.is_empty() {
            return refused("No Object name found");
        }
        if self.concerns(kind).await? {
            return Ok(Decision::Allowed);
        }
        refused(format!(
            "no relationship found between node '{}' and this object",
            self.node
        ))
    }

    async fn concerns(&self, kind: Kind) -> Result<bool, Status> {
        let ResourceAttributes {
            namespace, name, ..
        } = *self.subject;
        let path = match kind {
            Kind::Volume => {
                // A volume is its claim's, and the claim a pod's.
                let volume = self.stored("", "persistentvolumes", name).await?;
                let claim = &volume["spec"]["claimRef"];
                let text = |member: &str| claim[member].as_str().unwrap_or_default().to_owned();
                return self
                    .uses(Kind::Claim, &text("namespace"), &text("name"))
                    .await;
            }
            Kind::Attachment => ("storage.k8s.io", "volumeattachments"),
            Kind::Slice => ("resource.k8s.io", "resourceslices"),
            _ => return self.uses(kind, namespace, name).await,
        };
        let object = self.stored(path.0, path.1, name).await?;
        Ok(object["spec"]["nodeName"] == self.node)
    }

    async fn uses(&self, kind: Kind, namespace: &str, name: &str) -> Result<bool, Status> {
        let object = ObjectRef {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let bound = &self.access.bound;
        bound.read(|bound| bound.uses(self.node, &object)).await
    }

    /// A cluster-scoped object; null if it is absent.
    async fn stored(&self, group: &str, plural: &str, name: &str) -> Result<Value, Status> {
        let key = Keys::new(group, plural, false).object(None, name);
        let found = self.access.store.get(&key, At::Latest).await;
        let entry = found.map_err(backend)?.entry;
        Ok(entry.map_or(Value::Null, |entry| {
            serde_json::from_slice(&entry.value).unwrap_or_default()
        }))
    }

    async fn account(&self) -> Result<Decision, Status> {
        if self.verb == "get" && self.subject.subresource.is_empty() {
            return self.read(Kind::ServiceAccount).await;
        }
        if self.verb != "create" || self.subject.name.is_empty() {
            return refused("can only create tokens for individual service accounts");
        }
        if self.subject.subresource != "token" {
            return refused("can only create token subresource of serviceaccount");
        }
        self.related(Kind::ServiceAccount).await
    }

    fn lease(&self) -> Result<Decision, Status> {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return refused("can only get, create, update, patch, or delete a node lease");
        }
        if self.subject.namespace != LEASES {
            return refused(format!(
                "can only access leases in the {} system namespace",
                go_quote(LEASES)
            ));
        }
        self.own("can only access node lease with the same name as the requesting node")
    }

    fn csi_node(&self) -> Result<Decision, Status> {
        if !matches!(self.verb, "get" | "create" | "update" | "patch" | "delete") {
            return refused("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.subject.subresource.is_empty() {
            return refused("cannot authorize CSINode subresources");
        }
        self.own("can only access CSINode with the same name as the requesting node")
    }

    /// An object with the name of the node; the path of a creation has no name.
    fn own(&self, why: &str) -> Result<Decision, Status> {
        if self.verb != "create" && self.subject.name != self.node {
            return refused(why);
        }
        Ok(Decision::Allowed)
    }

    async fn slice(&self) -> Result<Decision, Status> {
        if !self.subject.subresource.is_empty() {
            return refused("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => Ok(Decision::Allowed),
            "get" | "update" | "patch" | "delete" => self.related(Kind::Slice).await,
            "watch" | "list" | "deletecollection" if self.selects_own() => Ok(Decision::Allowed),
            "watch" | "list" | "deletecollection" => refused(
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => refused(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self) -> Result<Decision, Status> {
        match (self.subject.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => {
                Ok(Decision::Allowed)
            }
            ("", "get" | "list" | "watch") => match self.subject.name {
                name if name == self.node => Ok(Decision::Allowed),
                "" => refused(format!(
                    "node '{}' cannot read all nodes, only its own Node object",
                    self.node
                )),
                name => refused(format!(
                    "node '{}' cannot read '{name}', only its own Node object",
                    self.node
                )),
            },
            _ => refused(""),
        }
    }

    async fn pod(&self) -> Result<Decision, Status> {
        match (self.subject.subresource, self.verb) {
            ("", "get") => self.get(Kind::Pod).await,
            ("", "list" | "watch") if self.selects_own() => Ok(Decision::Allowed),
            ("", "list" | "watch") if !self.subject.name.is_empty() => {
                self.related(Kind::Pod).await
            }
            ("", "list" | "watch") => {
                refused("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(Decision::Allowed)
            }
            _ => refused(""),
        }
    }

    /// Whether a collection is narrowed to what is on the node.
    fn selects_own(&self) -> bool {
        self.subject.fields.exact("spec.nodeName") == Some(self.node)
    }
}

/// A kind of object that may concern a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Attachment,
    Claim,
    ConfigMap,
    Pod,
    ResourceClaim,
    Secret,
    ServiceAccount,
    Slice,
    Volume,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ObjectRef {
    kind: Kind,
    namespace: String,
    name: String,
}

/// Which pods are bound to nodes, and what they refer to.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    pods: HashMap<String, (String, BTreeSet<ObjectRef>)>,
    /// By node, how many of its pods refer to a object.
    used: HashMap<String, HashMap<ObjectRef, usize>>,
}

/// Where pods are kept.
pub(crate) const PODS: &[&str] = &["/registry/core/pods/"];

impl Bound {
    fn uses(&self, node: &str, object: &ObjectRef) -> bool {
        self.used
            .get(node)
            .is_some_and(|used| used.contains_key(object))
    }
}

impl View for Bound {
    fn put(&mut self, entry: &Entry) {
        self.remove(&entry.key);
        let pod: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let Some(node) = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) else {
            return;
        };
        let objects = references::referenced_objects(&pod);
        let used = self.used.entry(node.to_owned()).or_default();
        for object in &objects {
            *used.entry(object.clone()).or_default() += 1;
        }
        let bound = (node.to_owned(), objects);
        self.pods.insert(entry.key.to_string(), bound);
    }

    fn remove(&mut self, key: &str) {
        let Some((node, objects)) = self.pods.remove(key) else {
            return;
        };
        let Some(used) = self.used.get_mut(&node) else {
            return;
        };
        for object in objects {
            if let Some(count) = used.get_mut(&object) {
                *count -= 1;
                if *count == 0 {
                    used.remove(&object);
                }
            }
        }
        if used.is_empty() {
            self.used.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests;
