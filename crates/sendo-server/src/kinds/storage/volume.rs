//! PersistentVolumes.

use serde_json::{Value, json};

use crate::kinds::value::{Read, Write};
use crate::kinds::{Cx, Rules, pod};

pub(super) const RULES: Rules = Rules {
    default: |volume| {
        volume.object("status").default_if_zero("phase", "Pending");
        let spec = volume.object("spec");
        spec.default_if_zero("persistentVolumeReclaimPolicy", "Retain");
        spec.default_to("volumeMode", "Filesystem");
        if let Some(path) = spec.existing("hostPath") {
            path.default_to("type", "");
        }
        pod::volumes::network_storage(spec);
    },
    prepare_for_create: |cx, volume| {
        volume.set(
            "status",
            json!({"phase": "Pending", "lastPhaseTransitionTime": cx.time()}),
        );
    },
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update,
    ..Rules::NEUTRAL
};

/// The time of a change of phase is kept beside it, unless the writer says better.
fn prepare_for_status_update(cx: &Cx<'_>, new: &mut Value, old: &Value) {
    const TIME: &str = "lastPhaseTransitionTime";
    new.copy_from("spec", old);
    let (status, old_status) = (new.object("status"), old.at("status"));
    let same_phase = status.text("phase") == old_status.text("phase");
    if same_phase && !status.has(TIME) {
        status.copy_from(TIME, old_status);
    } else if !same_phase && (!status.has(TIME) || status.at(TIME) == old_status.at(TIME)) {
        status.set(TIME, cx.time());
    }
}
