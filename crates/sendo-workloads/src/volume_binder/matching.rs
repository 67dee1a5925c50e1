//! Which volumes fit a claim.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go`: `FindMatchingVolume`,
//!   `IsVolumeBoundToClaim`, `CheckAccessModes`, `CheckVolumeModeMismatches`
//! - `pkg/controller/volume/persistentvolume/pv_controller.go`: `checkVolumeSatisfyClaim`

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::Resource;
use sendo::{ObjectExt, Selector};
use sendo_apimachinery::Quantity;

/// The annotation with a class, from before there was a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of a claim; empty if it has none.
pub(super) fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    let spec = claim.spec.as_ref();
    let named = spec.and_then(|spec| spec.storage_class_name.as_deref());
    claim.annotation(CLASS).or(named).unwrap_or_default()
}

/// The class of a volume; empty if it has none.
pub(super) fn class_of_volume(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let named = spec.and_then(|spec| spec.storage_class_name.as_deref());
    volume.annotation(CLASS).or(named).unwrap_or_default()
}

/// The reference of a volume to its claim.
pub(super) fn reference_to(claim: &PersistentVolumeClaim) -> ObjectReference {
    claim.object_ref(&())
}

/// Whether a volume's reference names the claim.
pub(super) fn names(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    reference.name.as_deref() == Some(claim.name())
        && reference.namespace.as_deref() == claim.namespace()
}

/// Whether the volume is bound to that very claim, or is meant for one of its name.
pub(super) fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let spec = volume.spec.as_ref();
    let Some(reference) = spec.and_then(|spec| spec.claim_ref.as_ref()) else {
        return false;
    };
    let uid = reference.uid.as_deref().unwrap_or_default();
    names(reference, claim) && (uid.is_empty() || uid == claim.uid().as_str())
}

/// Why the volume does not satisfy the claim, if it does not.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.is_being_deleted() {
        return Some(format!(
            "the volume is marked for deletion {:?}",
            volume.name()
        ));
    }
    let attributes = |class: Option<&String>| class.cloned().unwrap_or_default();
    let volume_spec = volume.spec.clone().unwrap_or_default();
    let claim_spec = claim.spec.clone().unwrap_or_default();
    let text = if capacity(volume) < request(claim) {
        "requested PV is too small"
    } else if class_of_volume(volume) != class_of_claim(claim) {
        "storageClassName does not match"
    } else if attributes(volume_spec.volume_attributes_class_name.as_ref())
        != attributes(claim_spec.volume_attributes_class_name.as_ref())
    {
        "volumeAttributesClassName does not match"
    } else if !has_same_mode(volume, claim) {
        "incompatible volumeMode"
    } else if !has_access_modes(volume, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// Whether both are file systems, or both block devices.
pub(super) fn has_same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let volume = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_mode.as_deref());
    let claim = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_mode.as_deref());
    volume.unwrap_or("Filesystem") == claim.unwrap_or("Filesystem")
}

fn has_access_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let offered = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.access_modes.as_ref());
    let wanted = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.access_modes.as_ref());
    let mut wanted = wanted.into_iter().flatten();
    wanted.all(|mode| offered.is_some_and(|offered| offered.contains(mode)))
}

fn capacity(volume: &PersistentVolume) -> Quantity {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    let storage = capacity.and_then(|capacity| capacity.get("storage"));
    storage
        .and_then(|storage| storage.0.parse().ok())
        .unwrap_or_else(zero)
}

/// The storage that a claim asks for.
fn request(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get("storage"));
    storage
        .and_then(|storage| storage.0.parse().ok())
        .unwrap_or_else(zero)
}

fn zero() -> Quantity {
    "0".parse().expect("a quantity")
}

/// The volume for a claim: the one that is meant for it, or the smallest that fits. With delayed
/// binding only the first.
pub(super) fn best(
    volumes: impl Iterator<Item = Arc<PersistentVolume>>,
    claim: &PersistentVolumeClaim,
    delayed: bool,
) -> Option<Arc<PersistentVolume>> {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = selector.map(|selector| Selector::try_from(selector).ok());
    let is_selected = |volume: &PersistentVolume| match &selector {
        None => true,
        Some(None) => false,
        Some(Some(selector)) => selector.matches(volume.metadata.labels.as_ref()),
    };
    let is_free = |volume: &PersistentVolume| {
        let claimed = volume
            .spec
            .as_ref()
            .is_some_and(|spec| spec.claim_ref.is_some());
        let phase = volume
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        !claimed && phase == Some("Available")
    };
    let mut best: Option<Arc<PersistentVolume>> = None;
    for volume in volumes {
        let has_size = capacity(&volume) >= request(claim) && !volume.is_being_deleted();
        if is_bound_to(&volume, claim) && has_size && has_same_mode(&volume, claim) {
            return Some(volume);
        }
        let fits = !delayed
            && is_free(&volume)
            && is_selected(&volume)
            && mismatch(&volume, claim).is_none();
        let is_smaller = |best: &Arc<PersistentVolume>| capacity(&volume) < capacity(best);
        if fits && best.as_ref().is_none_or(is_smaller) {
            best = Some(volume);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn volume(name: &str, size: &str, more: Value) -> Arc<PersistentVolume> {
        let mut spec = json!({"capacity": {"storage": size}, "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let volume = json!({"metadata": {"name": name, "labels": {"disk": name}}, "spec": spec,
            "status": {"phase": "Available"}});
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn claim(more: Value) -> PersistentVolumeClaim {
        let mut spec = json!({"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}}});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let metadata = json!({"name": "c", "namespace": "a", "uid": "1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn found(volumes: &[Arc<PersistentVolume>], claim: &PersistentVolumeClaim) -> Option<String> {
        let best = best(volumes.iter().cloned(), claim, false)?;
        Some(best.name().to_owned())
    }

    #[test]
    fn the_smallest_volume_that_fits_is_taken() {
        let volumes = [
            volume("small", "1Gi", json!({})),
            volume("large", "9Gi", json!({})),
            volume("fitting", "2048Mi", json!({})),
            volume("other", "2Gi", json!({"storageClassName": "slow"})),
            volume(
                "taken",
                "2Gi",
                json!({"claimRef": {"namespace": "a", "name": "x", "uid": "2"}}),
            ),
            volume("block", "2Gi", json!({"volumeMode": "Block"})),
        ];
        assert_eq!(
            found(&volumes, &claim(json!({}))).as_deref(),
            Some("fitting")
        );
        let shared = claim(json!({"accessModes": ["ReadWriteMany"]}));
        assert_eq!(found(&volumes, &shared), None);
        let selected = claim(json!({"selector": {"matchLabels": {"disk": "large"}}}));
        assert_eq!(found(&volumes, &selected).as_deref(), Some("large"));
    }

    #[test]
    fn a_volume_that_is_meant_for_the_claim_comes_first() {
        let meant = json!({"claimRef": {"namespace": "a", "name": "c"}});
        let volumes = [volume("a", "2Gi", json!({})), volume("z", "9Gi", meant)];
        assert_eq!(found(&volumes, &claim(json!({}))).as_deref(), Some("z"));
        let delayed = best(volumes[..1].iter().cloned(), &claim(json!({})), true);
        assert_eq!(delayed, None, "the scheduler chooses");
    }
}
