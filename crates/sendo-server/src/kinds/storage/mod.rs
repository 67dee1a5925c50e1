//! Volumes, claims on them, and the drivers that provide them.

pub(crate) mod claim;
mod csi;
mod volume;

use super::value::Write;
use super::{Rules, writes};

/// The rules of a kind of `storage.k8s.io`, or of the volumes and claims of core.
pub(super) fn rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "CSIDriver" => const { &csi::DRIVER },
        "CSINode" => const { &csi::NODE },
        "CSIStorageCapacity" => const { &csi::CAPACITY },
        "PersistentVolume" => const { &volume::RULES },
        "PersistentVolumeClaim" => const { &claim::RULES },
        "StorageClass" => const { &STORAGE_CLASS },
        "VolumeAttachment" => const { &VOLUME_ATTACHMENT },
        "VolumeAttributesClass" => const { &Rules::NEUTRAL },
        _ => return None,
    })
}

const STORAGE_CLASS: Rules = Rules {
    default: |class| {
        class.default_to("reclaimPolicy", "Delete");
        class.default_to("volumeBindingMode", "Immediate");
    },
    delete_returns_object: true,
    ..Rules::NEUTRAL
};

const VOLUME_ATTACHMENT: Rules = Rules {
    prepare_for_create: |_, attachment| attachment.set("status", serde_json::json!({})),
    prepare_for_update: |_, new, old| new.copy_from("status", old),
    prepare_for_status_update: writes::status_alone,
    allow_unconditional_update: false,
    delete_returns_object: true,
    ..Rules::NEUTRAL
};
