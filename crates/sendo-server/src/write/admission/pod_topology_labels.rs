//! PodTopologyLabels: a pod that is created with its node, and a binding, whose labels
//! the pod gets, have the labels that say where the node is.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/podtopologylabels/admission.go`: `Admit`

use sendo_apimachinery::Status;
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::value::{Read, Write};

pub(super) const POD_TOPOLOGY_LABELS: Plugin = Plugin {
    name: "PodTopologyLabels",
    handles: |attributes| {
        attributes.operation == Operation::Create
            && (attributes.is_of("", "pods", "") || attributes.is_of("", "pods", "binding"))
    },
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(mutate(attributes, object))
    })),
    validate: None,
};

/// Labels of a node that its pods have too.
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Gives a pod that has a node, or the binding to one, the labels that say where that is.
async fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let node = match attributes.subresource() {
        "" => object.at("spec").text("nodeName"),
        _ => object.at("target").text("name"),
    };
    if node.is_empty() {
        return Ok(());
    }
    let keys = Keys::new("", "nodes", false);
    let Some(node) = lookup::get(attributes.call, &keys, None, node).await? else {
        return Ok(());
    };
    for label in LABELS {
        if let Some(value) = node.at("metadata").at("labels").get(label) {
            object
                .object("metadata")
                .object("labels")
                .set(label, value.clone());
        }
    }
    Ok(())
}
