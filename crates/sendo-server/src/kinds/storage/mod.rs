//! The kinds of the API group `storage.k8s.io`, and PersistentVolumes and PersistentVolumeClaims of
//! the core group.

mod attachment;
pub(crate) mod claim;
mod classes;
mod csi;
mod volume;

use super::Rules;

/// The rules of a kind of `storage.k8s.io`, or of volumes and claims of the core group.
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
