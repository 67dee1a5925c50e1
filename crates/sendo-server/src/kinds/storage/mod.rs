//! Volumes, claims on them, and the drivers that provide them.

mod attachment;
pub(crate) mod claim;
mod classes;
mod csi;
mod volume;

use super::Rules;

/// The rules of a kind of `storage.k8s.io`, or of the volumes and claims of core.
pub(super) fn rules(kind: &str) -> Option<&'static Rules> {
    Some(match kind {
        "CSIDriver" => const { &csi::DRIVER },
        "CSINode" => const { &csi::NODE },
        "CSIStorageCapacity" => const { &csi::CAPACITY },
        "PersistentVolume" => const { &volume::RULES },
        "PersistentVolumeClaim" => const { &claim::RULES },
        "StorageClass" => const { &classes::STORAGE },
        "VolumeAttachment" => const { &attachment::RULES },
        "VolumeAttributesClass" => const { &classes::ATTRIBUTES },
        _ => return None,
    })
}
