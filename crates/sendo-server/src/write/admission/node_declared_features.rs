//! NodeDeclaredFeatureValidator: a pod that is on a node is changed in no way that the node does
//! not know.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/nodedeclaredfeatures/admission.go`: `Validate`
//! - `staging/src/k8s.io/component-helpers/nodedeclaredfeatures/features/registry.go`

use sendo_apimachinery::{Status, go_quote};
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::value::Read;

pub(super) const NODE_DECLARED_FEATURE_VALIDATOR: Plugin = Plugin {
    name: "NodeDeclaredFeatureValidator",
    handles: |attributes| {
        let is_pod = ["", "resize"].map(|subresource| attributes.is_of("", "pods", subresource));
        attributes.operation == Operation::Update && is_pod.contains(&true)
    },
    mutate: None,
    validate: Some(|attributes, pod, _| Box::pin(validate(attributes, pod))),
};

/// A feature that changes of pods need, and whether one does.
type Feature = (&'static str, fn(&Value, &Value) -> bool);

const FEATURES: [Feature; 2] = [
    ("InPlacePodLevelResourcesVerticalScaling", |old, new| {
        old.at("resources") != new.at("resources")
    }),
    ("InPlacePodVerticalScalingInitContainers", |old, new| {
        let pairs = old
            .items("initContainers")
            .iter()
            .zip(new.items("initContainers"));
        let mut pairs = pairs.filter(|(old, _)| old.text("restartPolicy") != "Always");
        pairs.any(|(old, new)| old.at("resources") != new.at("resources"))
    }),
];

async fn validate(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let node = pod.at("spec").text("nodeName");
    let Some(old) = attributes.old.filter(|_| !node.is_empty()) else {
        return Ok(());
    };
    let (old, new) = (old.at("spec"), pod.at("spec"));
    let needed = FEATURES.iter().filter(|(_, needs)| needs(old, new));
    let mut needed: Vec<&str> = needed.map(|(name, _)| *name).collect();
    if needed.is_empty() {
        return Ok(());
    }
    let keys = Keys::new("", "nodes", false);
    let Some(found) = lookup::get(attributes.call, &keys, None, node).await? else {
        let why = format_args!("node {} not found", go_quote(node));
        return Err(attributes.forbid(pod, why));
    };
    let declared = found.at("status").items("declaredFeatures");
    needed.retain(|feature| !declared.iter().any(|declared| declared == feature));
    if needed.is_empty() {
        return Ok(());
    }
    let why = format_args!(
        "pod update requires features {} which are not available on node {}",
        needed.join(", "),
        go_quote(node)
    );
    Err(attributes.forbid(pod, why))
}
