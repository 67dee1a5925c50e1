//! NodeRestriction: a node changes what concerns itself, and nothing by which it would get more.
//!
//! The node authoriser has let the request pass by its path; this step looks at what is written:
//! mirror pods that refer to no other object, the status of the node's own pods, its own Node
//! without labels, taints and owners by which it would draw pods to it, its own lease and CSINode,
//! tokens for its pods. On by default, as kubeadm configures it.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/noderestriction/admission.go`

mod labels;
mod mirror_pods;
mod tokens;

use std::sync::Arc;

use sendo_apimachinery::{GroupResource, Status, go_quote};
use serde_json::Value;

use super::certificates::requested;
use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::access::authorise::nodes::node_of;
use crate::catalog::keys::Keys;
use crate::kinds::value::Read;

pub(super) const NODE_RESTRICTION: Plugin = Plugin {
    name: "NodeRestriction",
    handles: |attributes| {
        attributes.operation != Operation::Connect && node_of(attributes.user()).is_some()
    },
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(restrict(attributes, object))
    })),
    validate: None,
};

const LEASES: &str = "kube-node-lease";

/// The signers of certificates that nodes have.
const NODE_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

async fn restrict(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let object = &*object;
    let node = node_of(attributes.user()).unwrap_or_default();
    let write = NodeWrite {
        attributes,
        node,
        object,
    };
    if node.is_empty() {
        let user = go_quote(&attributes.user().name);
        return write.refuse(format!("could not determine node from user {user}"));
    }
    let facts = &attributes.call.resource.facts;
    match (&*facts.group, &*facts.plural, attributes.subresource()) {
        ("", "pods", "") => write.pod().await,
        ("", "pods", "status") => write.pod_status(),
        ("", "pods", "eviction") => write.eviction().await,
        ("", "pods", other) => write.refuse(format!(
            "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
            go_quote(other)
        )),
        ("", "nodes", _) => write.node(),
        ("", "persistentvolumeclaims", "status") => write.claim_status(),
        ("", "persistentvolumeclaims", _) => write.refuse("may only update PVC status"),
        ("", "serviceaccounts", "token") => tokens::check(&write).await,
        ("coordination.k8s.io", "leases", _) => write.lease(),
        ("storage.k8s.io", "csinodes", _) => write.csi_node(),
        ("resource.k8s.io", "resourceslices", _) => write.slice(),
        ("certificates.k8s.io", "certificatesigningrequests", _) => write.certificate(),
        _ => Ok(()),
    }
}

/// What a node is about to write.
struct NodeWrite<'a> {
    attributes: &'a Attributes<'a>,
    node: &'a str,
    object: &'a Value,
}

impl NodeWrite<'_> {
    fn refuse(&self, why: impl std::fmt::Display) -> Result<(), Status> {
        Err(self.attributes.forbid(self.object, why))
    }

    fn operation(&self) -> Operation {
        self.attributes.operation
    }

    /// What is stored; null if nothing is.
    fn old(&self) -> &Value {
        self.attributes.old.unwrap_or(&Value::Null)
    }

    fn quoted(&self) -> String {
        go_quote(self.node)
    }

    async fn pod(&self) -> Result<(), Status> {
        let node = self.quoted();
        match self.operation() {
            Operation::Create => mirror_pods::check(self).await,
            Operation::Delete if is_on(self.old(), self.node) => Ok(()),
            Operation::Delete => self.refuse(format!(
                "node {node} can only delete pods with spec.nodeName set to itself"
            )),
            other => self.refuse(format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                go_quote(other.as_str())
            )),
        }
    }

    fn pod_status(&self) -> Result<(), Status> {
        if self.operation() != Operation::Update {
            let operation = go_quote(self.operation().as_str());
            return self.refuse(format!("unexpected operation {operation}"));
        }
        let (node, old, new) = (self.quoted(), self.old(), self.object);
        if !is_on(old, self.node) {
            return self.refuse(format!(
                "node {node} can only update pod status for pods with spec.nodeName set to itself"
            ));
        }
        if !labels::changed(old, new).is_empty() {
            let why = format!("node {node} cannot update labels through pod status");
            return self.refuse(why);
        }
        if claims_of(old) != claims_of(new) {
            let why = format!("node {node} cannot update resource claim statues");
            return self.refuse(why);
        }
        let extended = |pod: &Value| pod.at("status").at("extendedResourceClaimStatus").clone();
        if extended(old) != extended(new) {
            let why = format!("node {node} cannot update extended resource claim status");
            return self.refuse(why);
        }
        Ok(())
    }

    async fn eviction(&self) -> Result<(), Status> {
        let pod = self.stored_pod(self.attributes.name(self.object)).await?;
        if is_on(&pod, self.node) {
            return Ok(());
        }
        let why = format!(
            "node {} can only evict pods with spec.nodeName set to itself",
            self.node
        );
        self.refuse(why)
    }

    /// The pod of that name in the namespace of the request.
    async fn stored_pod(&self, name: &str) -> Result<Arc<Value>, Status> {
        let namespace = self.attributes.call.namespace();
        self.stored("", "pods", namespace, name).await
    }

    /// Another object, which has to be there.
    async fn stored(
        &self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        let keys = Keys::new(group, plural, namespace.is_some());
        let found = lookup::get(self.attributes.call, &keys, namespace, name).await?;
        found.ok_or_else(|| Status::not_found(&GroupResource::new(group, plural), name))
    }

    fn node(&self) -> Result<(), Status> {
        let (node, requested) = (self.quoted(), self.attributes.name(self.object));
        if requested != self.node {
            let requested = go_quote(requested);
            return self.refuse(format!(
                "node {node} is not allowed to modify node {requested}"
            ));
        }
        match self.operation() {
            Operation::Create => self.created_node(),
            Operation::Update => self.changed_node(),
            Operation::Delete | Operation::Connect => Ok(()),
        }
    }

    fn created_node(&self) -> Result<(), Status> {
        let node = self.quoted();
        if self.object.at("spec").has("configSource") {
            return self.refuse(format!(
                "node {node} is not allowed to create pods with a non-nil configSource"
            ));
        }
        let forbidden = labels::forbidden(self.old(), self.object);
        if forbidden.is_empty() {
            return Ok(());
        }
        self.refuse(format!(
            "node {node} is not allowed to set the following labels: {}",
            forbidden.join(", ")
        ))
    }

    fn changed_node(&self) -> Result<(), Status> {
        let (node, old, new) = (self.quoted(), self.old(), self.object);
        let of_spec = |node: &Value, member: &str| node.at("spec").at(member).clone();
        let source = of_spec(new, "configSource");
        if !source.is_null() && source != of_spec(old, "configSource") {
            return self.refuse(format!(
                "node {node} is not allowed to update configSource to a new non-nil configSource"
            ));
        }
        if !is_same_list(old.at("spec").at("taints"), new.at("spec").at("taints")) {
            return self.refuse(format!("node {node} is not allowed to modify taints"));
        }
        let owners = |node: &Value| node.at("metadata").items("ownerReferences").to_vec();
        if owners(old) != owners(new) {
            let why = format!("node {node} is not allowed to modify ownerReferences");
            return self.refuse(why);
        }
        let forbidden = labels::forbidden(old, new);
        if forbidden.is_empty() {
            return Ok(());
        }
        self.refuse(format!(
            "is not allowed to modify labels: {}",
            forbidden.join(", ")
        ))
    }

    fn claim_status(&self) -> Result<(), Status> {
        if self.operation() != Operation::Update {
            let operation = go_quote(self.operation().as_str());
            return self.refuse(format!("unexpected operation {operation}"));
        }
        if without_sizes(self.old()) == without_sizes(self.object) {
            return Ok(());
        }
        // Kubernetes goes on with the difference between its internal types.
        self.refuse(format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions",
            self.quoted()
        ))
    }

    fn lease(&self) -> Result<(), Status> {
        if self.attributes.call.namespace() != Some(LEASES) {
            return self.refuse(format!(
                "can only access leases in the \"{LEASES}\" system namespace"
            ));
        }
        match self.attributes.name(self.object) == self.node {
            true => Ok(()),
            false => {
                self.refuse("can only access node lease with the same name as the requesting node")
            }
        }
    }

    fn csi_node(&self) -> Result<(), Status> {
        match self.attributes.name(self.object) == self.node {
            true => Ok(()),
            false => {
                self.refuse("can only access CSINode with the same name as the requesting node")
            }
        }
    }

    /// Changes are left to the authoriser, which knows what is stored.
    fn slice(&self) -> Result<(), Status> {
        let (slice, what) = match self.operation() {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.old(), "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        if is_on(slice, self.node) {
            return Ok(());
        }
        self.refuse(format!(
            "can only {what} ResourceSlice with the same NodeName as the requesting node"
        ))
    }

    /// A request for a certificate of a node is one for this node.
    fn certificate(&self) -> Result<(), Status> {
        let spec = self.object.at("spec");
        if self.operation() != Operation::Create || !NODE_SIGNERS.contains(&spec.text("signerName"))
        {
            return Ok(());
        }
        let request = match requested(spec) {
            Ok(request) => request,
            Err(fault) => return self.refuse(format!("unable to parse csr: {fault}")),
        };
        let name = format!("system:node:{}", self.node);
        if request.subject.common_name() == Some(&*name) {
            return Ok(());
        }
        self.refuse(format!("can only create a node CSR with CN={name}"))
    }
}

/// Whether a pod, or a slice of devices, is on a node.
fn is_on(object: &Value, node: &str) -> bool {
    object.at("spec").text("nodeName") == node
}

/// Which claims a pod's status names, and for what.
fn claims_of(pod: &Value) -> Vec<(&str, Option<&str>)> {
    let claims = pod.at("status").items("resourceClaimStatuses").iter();
    claims
        .map(|claim| (claim.text("name"), claim.at("resourceClaimName").as_str()))
        .collect()
}

/// Whether two lists are equal; one that is absent is empty.
fn is_same_list(one: &Value, other: &Value) -> bool {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    items(one) == items(other)
}

/// A claim without what its node may report of it.
fn without_sizes(claim: &Value) -> Value {
    use crate::kinds::value::Write;

    let mut claim = claim.clone();
    if let Some(meta) = claim.existing("metadata") {
        meta.remove("resourceVersion");
        meta.remove("managedFields");
    }
    if let Some(status) = claim.existing("status") {
        for reported in [
            "capacity",
            "conditions",
            "allocatedResourceStatuses",
            "allocatedResources",
        ] {
            status.remove(reported);
        }
    }
    if claim.at("status").as_object().is_some_and(|s| s.is_empty()) {
        claim.remove("status");
    }
    claim
}
