//! Claims objects for a controller object: adopts orphans that match its selector, and releases
//! objects that it controls and that no longer match.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/controller_ref_manager.go`: `BaseControllerRefManager`,
//!   `PodControllerRefManager`, `ReplicaSetControllerRefManager`

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sendo::{Context, Error, Index, Kind, ObjectExt, Patch, Result, Selector, Typed, Uid};
use serde_json::json;

/// How an owner finds the objects of a kind that it controls or may adopt.
pub(crate) struct Claim<'a, O, K: 'static> {
    /// The owner.
    pub(crate) owner: &'a O,
    /// Its selector.
    pub(crate) selector: &'a Selector,
    /// Objects by the uid of their controller.
    pub(crate) controlled: &'static Index<K, Uid>,
    /// Objects without a controller, by namespace.
    pub(crate) orphans: &'static Index<K, String>,
}

impl<O: Typed, K: Typed> Claim<'_, O, K> {
    /// Adopts and releases objects, and returns those that the owner controls then. Only orphans
    /// that are `adoptable` are adopted.
    pub(crate) async fn claim(
        &self,
        adoptable: impl Fn(&K) -> bool + Send + Sync,
        cx: &Context,
    ) -> Result<Vec<Arc<K>>> {
        let is_selected = |object: &K| self.selector.matches(object.meta().labels.as_ref());
        let mut claimed = Vec::new();
        for object in cx.list::<K>().by(self.controlled, self.owner.uid()) {
            if is_selected(&object) {
                claimed.push(object);
            } else if !self.owner.is_being_deleted() {
                self.release(&object, cx).await?;
            }
        }
        if self.owner.is_being_deleted() {
            return Ok(claimed);
        }
        let namespace = self.owner.namespace().unwrap_or_default().to_owned();
        let orphans = cx.list::<K>().by(self.orphans, namespace);
        let mut may_adopt = false;
        for object in orphans.filter(|object| adoptable(object) && is_selected(object)) {
            if !may_adopt {
                self.refuse_if_replaced(cx).await?;
                may_adopt = true;
            }
            if let Some(adopted) = self.adopt(&object, cx).await? {
                claimed.push(adopted);
            }
        }
        Ok(claimed)
    }

    /// Fails if the live owner is being deleted or has been replaced by another of its name, which
    /// the cache may not show yet: what it adopted would be garbage collected with it.
    async fn refuse_if_replaced(&self, cx: &Context) -> Result<()> {
        let live = cx.live().get::<O>(self.owner.key()).await?;
        match live {
            Some(live) if live.uid() == self.owner.uid() && !live.is_being_deleted() => Ok(()),
            _ => Err(Error::conflict(format!(
                "{} has been deleted or replaced, so it adopts nothing",
                self.owner.key()
            ))),
        }
    }

    async fn adopt(&self, object: &K, cx: &Context) -> Result<Option<Arc<K>>> {
        let patch = Patch::Strategic(json!({"metadata": {
            "uid": object.uid().as_str(),
            "ownerReferences": [controller_reference(self.owner)],
        }}));
        match cx.client().patch(object, patch).await {
            Ok(adopted) => Ok(Some(Arc::new(adopted))),
            // It was deleted, or replaced by another object of its name: there is nothing to adopt.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, object: &K, cx: &Context) -> Result<()> {
        let patch = Patch::Strategic(json!({"metadata": {
            "uid": object.uid().as_str(),
            "ownerReferences": [{"$patch": "delete", "uid": self.owner.uid().as_str()}],
        }}));
        match cx.client().patch(object, patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The owner reference that names `owner` as the controller.
pub(crate) fn controller_reference<O: Typed>(owner: &O) -> OwnerReference {
    let kind = Kind::of::<O>();
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        name: owner.name().to_owned(),
        uid: owner.uid().to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
