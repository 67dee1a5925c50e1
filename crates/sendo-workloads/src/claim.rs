//! Which objects are an owner's own: adopts orphans that match its selector,
//! releases objects that no longer do.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sendo::{Context, Error, Index, Kind, ObjectExt, Patch, Result, Selector, Typed, Uid};
use serde_json::json;

/// Where an owner looks for the objects of a kind that are or may become its own.
pub(crate) struct Claim<'a, O, K: 'static> {
    /// Who claims.
    pub(crate) owner: &'a O,
    /// What it claims.
    pub(crate) selector: &'a Selector,
    /// Objects by what controls them.
    pub(crate) controlled: &'static Index<K, Uid>,
    /// Objects that nothing controls, by namespace.
    pub(crate) orphans: &'static Index<K, String>,
}

impl<O: Typed, K: Typed> Claim<'_, O, K> {
    /// The objects that are this owner's after claiming, of the orphans only
    /// those that are `adoptable`.
    pub(crate) async fn claim(
        &self,
        adoptable: impl Fn(&K) -> bool + Send + Sync,
        cx: &Context,
    ) -> Result<Vec<Arc<K>>> {
        let is_selected = |object: &K| self.selector.matches(object.meta().labels.as_ref());
        let mut ours = Vec::new();
        for object in cx.list::<K>().by(self.controlled, self.owner.uid()) {
            if is_selected(&object) {
                ours.push(object);
            } else if !self.owner.is_being_deleted() {
                self.release(&object, cx).await?;
            }
        }
        if self.owner.is_being_deleted() {
            return Ok(ours);
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
                ours.push(adopted);
            }
        }
        Ok(ours)
    }

    /// The cache may be old: an owner that is going away, or another of its
    /// name, must adopt nothing, or it would be collected with it.
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
            // Gone, or another object by now: nothing to adopt.
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

/// The reference by which an object names `owner` as its controller.
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
