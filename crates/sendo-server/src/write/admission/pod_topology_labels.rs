//! Where a pod runs, told to it by labels.

use sendo_apimachinery::Status;
use serde_json::Value;

use super::lookup;
use crate::call::Call;
use crate::keys::Keys;
use crate::kinds::value::{Read, Write};

/// Labels of a node that its pods have too.
const LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Gives a pod that has a node the labels that say where that is.
pub(super) async fn admit(call: &Call<'_>, pod: &mut Value) -> Result<(), Status> {
    let node = pod.at("spec").text("nodeName");
    if node.is_empty() {
        return Ok(());
    }
    let keys = Keys::new("", "nodes", false);
    let Some(node) = lookup::get(call, &keys, None, node).await? else {
        return Ok(());
    };
    for label in LABELS {
        if let Some(value) = node.at("metadata").at("labels").get(label) {
            pod.object("metadata")
                .object("labels")
                .set(label, value.clone());
        }
    }
    Ok(())
}
