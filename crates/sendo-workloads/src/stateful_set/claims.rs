//! The claims of a StatefulSet's pods, and whom they are deleted with.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_pod_control.go`: `createPersistentVolumeClaims`,
//!   `UpdatePodClaimForRetentionPolicy`, `PodClaimIsStale`, `recordClaimEvent`
//! - `pkg/controller/statefulset/stateful_set_utils.go`: `getPersistentVolumeClaims`,
//!   `isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`, `hasUnexpectedController`

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sendo::client::controller_reference;
use sendo::{Context, Error, EventSeverity::*, Kind, ObjectExt, Patch, Result, Typed, Uid};
use serde_json::json;

use crate::pods::Pod;

/// The templates of claims.
pub(super) fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    let spec = set.spec.as_ref();
    let templates = spec.and_then(|spec| spec.volume_claim_templates.as_deref());
    templates.unwrap_or_default()
}

/// The name of a pod's claim.
pub(super) fn name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i32) -> String {
    format!("{}-{}-{ordinal}", template.name(), set.name())
}

/// The claims of the pod with that ordinal.
fn wanted(set: &StatefulSet, ordinal: i32) -> impl Iterator<Item = PersistentVolumeClaim> {
    let required = set
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.match_labels.clone());
    templates(set).iter().map(move |template| {
        let mut claim = template.clone();
        claim.metadata.name = Some(name(set, template, ordinal));
        claim.metadata.namespace = set.metadata.namespace.clone();
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.extend(required.clone().unwrap_or_default());
        claim.status = None;
        claim
    })
}

/// Those of the claims that exist.
fn existing(set: &StatefulSet, ordinal: i32, cx: &Context) -> Vec<PersistentVolumeClaim> {
    let found = wanted(set, ordinal).filter_map(|claim| {
        let found = cx.get::<PersistentVolumeClaim>(claim.key())?;
        Some((*found).clone())
    });
    found.collect()
}

/// Creates the claims of a pod that do not exist.
pub(super) async fn create(set: &StatefulSet, ordinal: i32, cx: &Context) -> Result<()> {
    let (set_name, pod) = (set.name(), format!("{}-{ordinal}", set.name()));
    let mut failure = None;
    for claim in wanted(set, ordinal) {
        let name = claim.name();
        if let Some(known) = cx.get::<PersistentVolumeClaim>(claim.key()) {
            if known.is_being_deleted() {
                let error = Error::message(format!("pvc {name} is being deleted"));
                failure.get_or_insert(error);
            }
            continue;
        }
        match cx.create(&claim).await {
            Ok(_) => {
                let message =
                    format!("Create Claim {name} Pod {pod} in StatefulSet {set_name} success");
                cx.event(Normal, "SuccessfulCreate", message);
            }
            Err(error) if error.is_already_exists() => {
                failure.get_or_insert(error.into());
            }
            Err(error) => {
                let message = format!(
                    "Create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error}"
                );
                cx.event(Warning, "FailedCreate", message);
                failure.get_or_insert(error.into());
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Whether a claim belongs to an earlier pod of that name, with which it is about to be deleted.
pub(super) fn is_stale(set: &StatefulSet, ordinal: i32, cx: &Context) -> bool {
    let pod = PodOf::name_only(set, ordinal);
    Policy::new(set).delete_when_scaled
        && existing(set, ordinal, cx)
            .iter()
            .any(|claim| pod.is_stale_in(claim))
}

/// Whether the claims of a pod have the owners that the retention policy demands.
pub(super) fn are_owned_as_wanted(
    set: &StatefulSet,
    ordinal: i32,
    pod: Option<&Pod>,
    cx: &Context,
) -> bool {
    let pod = PodOf::new(set, ordinal, pod);
    let claims = existing(set, ordinal, cx);
    claims
        .iter()
        .all(|claim| owners(set, &pod, claim).is_none())
}

/// Gives the claims of a pod the owners that the retention policy demands.
pub(super) async fn set_owners(
    set: &StatefulSet,
    ordinal: i32,
    pod: Option<&Pod>,
    cx: &Context,
) -> Result<()> {
    let pod = PodOf::new(set, ordinal, pod);
    for claim in existing(set, ordinal, cx) {
        if has_other_controller(set, &pod, &claim) {
            let message = format!(
                "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                claim.name()
            );
            cx.event(Warning, "ConflictingController", message);
        }
        let Some(owners) = owners(set, &pod, &claim) else {
            continue;
        };
        let patch = Patch::Merge(json!({"metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "ownerReferences": owners,
        }}));
        cx.patch(&claim, patch).await?;
    }
    Ok(())
}

/// When claims are deleted; by default never.
struct Policy {
    delete_when_deleted: bool,
    delete_when_scaled: bool,
}

impl Policy {
    fn new(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let policy = spec.and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
        let deletes = |text: Option<&String>| text.is_some_and(|text| text == "Delete");
        Policy {
            delete_when_deleted: deletes(policy.and_then(|p| p.when_deleted.as_ref())),
            delete_when_scaled: deletes(policy.and_then(|p| p.when_scaled.as_ref())),
        }
    }
}

/// A pod as the owner of claims.
struct PodOf {
    name: String,
    uid: Option<Uid>,
    /// Whether its ordinal is not in the range of the StatefulSet's replicas.
    is_condemned: bool,
    reference: Option<OwnerReference>,
}

impl PodOf {
    fn new(set: &StatefulSet, ordinal: i32, pod: Option<&Pod>) -> Self {
        PodOf {
            uid: pod.map(ObjectExt::uid),
            reference: pod.map(controller_reference),
            is_condemned: !super::replicas::ordinals(set).contains(&ordinal),
            ..PodOf::name_only(set, ordinal)
        }
    }

    fn name_only(set: &StatefulSet, ordinal: i32) -> Self {
        PodOf {
            name: format!("{}-{ordinal}", set.name()),
            uid: None,
            is_condemned: false,
            reference: None,
        }
    }

    fn is(&self, owner: &OwnerReference) -> bool {
        names::<Pod>(owner, &self.name)
    }

    /// Whether a claim names another pod of this name as an owner.
    fn is_stale_in(&self, claim: &PersistentVolumeClaim) -> bool {
        let own = self.uid.as_ref().map(Uid::as_str);
        let mut named = owners_of(claim).filter(|owner| self.is(owner));
        named
            .next()
            .is_some_and(|owner| Some(owner.uid.as_str()) != own)
    }
}

fn owners_of(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &OwnerReference> {
    claim.metadata.owner_references.iter().flatten()
}

/// Whether the reference is to an object of that kind and name.
fn names<K: Typed>(owner: &OwnerReference, name: &str) -> bool {
    let kind = Kind::of::<K>();
    owner.kind == kind.kind && owner.api_version == kind.api_version() && owner.name == name
}

/// Whether something else than the StatefulSet and the pod decides about the claim.
fn has_other_controller(set: &StatefulSet, pod: &PodOf, claim: &PersistentVolumeClaim) -> bool {
    let policy = Policy::new(set);
    if !policy.delete_when_scaled && !policy.delete_when_deleted {
        return false;
    }
    owners_of(claim).any(|owner| {
        if names::<StatefulSet>(owner, set.name()) {
            owner.uid != set.uid().as_str()
        } else if pod.is(owner) {
            Some(owner.uid.as_str()) != pod.uid.as_ref().map(Uid::as_str)
        } else {
            owner.controller == Some(true)
        }
    })
}

/// The owners that a claim should have; `None` if it has them.
fn owners(
    set: &StatefulSet,
    pod: &PodOf,
    claim: &PersistentVolumeClaim,
) -> Option<Vec<OwnerReference>> {
    let set_is_stale = owners_of(claim)
        .find(|owner| names::<StatefulSet>(owner, set.name()))
        .is_some_and(|owner| owner.uid != set.uid().as_str());
    if set_is_stale || pod.is_stale_in(claim) {
        // It is about to be deleted with its former owner.
        return None;
    }
    let known: Vec<OwnerReference> = owners_of(claim).cloned().collect();
    let is_ours = |owner: &OwnerReference| names::<StatefulSet>(owner, set.name()) || pod.is(owner);
    let mut wanted: Vec<_> = known
        .iter()
        .filter(|owner| !is_ours(owner))
        .cloned()
        .collect();
    let policy = Policy::new(set);
    if !has_other_controller(set, pod, claim) {
        if policy.delete_when_scaled && pod.is_condemned {
            wanted.extend(pod.reference.clone());
        } else if policy.delete_when_deleted {
            wanted.push(controller_reference(set));
        }
    }
    let key = |owner: &OwnerReference| (owner.uid.clone(), owner.controller == Some(true));
    let same = known.len() == wanted.len()
        && wanted
            .iter()
            .all(|owner| known.iter().any(|known| key(known) == key(owner)));
    (!same).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn set(deleted: &str, scaled: &str) -> StatefulSet {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "set"},
            "spec": {"replicas": 2, "selector": {}, "template": {},
                "persistentVolumeClaimRetentionPolicy": policy},
        }))
        .unwrap()
    }

    fn pod(ordinal: i32) -> Pod {
        let metadata = json!({"name": format!("web-{ordinal}"), "uid": "pod"});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    /// The names of the owners that a claim of the pod gets, if it does not have them.
    fn wanted(set: &StatefulSet, ordinal: i32, owners: Value) -> Option<Vec<String>> {
        let claim = json!({"metadata": {"name": "data-web-0", "ownerReferences": owners}});
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        let pod = PodOf::new(set, ordinal, Some(&pod(ordinal)));
        let wanted = super::owners(set, &pod, &claim)?;
        Some(wanted.into_iter().map(|owner| owner.kind).collect())
    }

    fn owned(kind: &str, name: &str, uid: &str) -> Value {
        let version = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true})
    }

    #[test]
    fn the_policy_says_whom_a_claim_is_deleted_with() {
        let none = json!([]);
        let by_set = json!([owned("StatefulSet", "web", "set")]);
        let by_pod = json!([owned("Pod", "web-5", "pod")]);
        let retain = set("Retain", "Retain");
        assert_eq!(wanted(&retain, 0, none.clone()), None);
        assert_eq!(wanted(&retain, 0, by_set.clone()), Some(vec![]));
        let deleted = set("Delete", "Retain");
        assert_eq!(
            wanted(&deleted, 0, none.clone()),
            Some(vec!["StatefulSet".to_owned()])
        );
        assert_eq!(wanted(&deleted, 0, by_set.clone()), None);
        let scaled = set("Retain", "Delete");
        assert_eq!(wanted(&scaled, 0, none.clone()), None);
        assert_eq!(wanted(&scaled, 5, none), Some(vec!["Pod".to_owned()]));
        assert_eq!(wanted(&scaled, 5, by_pod.clone()), None);
        let both = set("Delete", "Delete");
        assert_eq!(wanted(&both, 5, by_set), Some(vec!["Pod".to_owned()]));
        let by_own_pod = json!([owned("Pod", "web-1", "pod")]);
        let set_only = Some(vec!["StatefulSet".to_owned()]);
        assert_eq!(wanted(&both, 1, by_own_pod), set_only);
        // A pod of another ordinal decides about the claim.
        assert_eq!(wanted(&both, 1, by_pod), None);
    }

    #[test]
    fn a_claim_of_somebody_else_stays_as_it_is() {
        let both = set("Delete", "Delete");
        let other = json!([owned("Deployment", "x", "other")]);
        assert_eq!(wanted(&both, 0, other), None);
        let stale = json!([owned("StatefulSet", "web", "earlier")]);
        assert_eq!(wanted(&both, 0, stale), None);
    }
}
