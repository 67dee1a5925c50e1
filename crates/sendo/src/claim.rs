//! Claims objects for their controller by its label selector, as the controllers of Kubernetes do.
//!
//! A controller such as a ReplicaSet finds its objects by a selector that users can change, on
//! objects whose labels users can change. [`Claim`] adopts orphans that match, and releases objects
//! that it controls and that no longer match.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/controller_ref_manager.go`: `BaseControllerRefManager`,
//!   `PodControllerRefManager`, `ReplicaSetControllerRefManager`,
//!   `ControllerRevisionControllerRefManager`

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cache::{Index, Selector};
use crate::client::Patch;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::object::{ObjectExt, Typed, Uid};
use crate::owner::controller_reference;

/// How an owner finds the objects of a kind that it controls or may adopt.
///
/// The program declares both indexes, and that it writes `K` with
/// [`Verb::Patch`](crate::Verb::Patch).
///
/// ```
/// use k8s_openapi::api::apps::v1::ReplicaSet;
/// use k8s_openapi::api::core::v1::Pod;
/// use sendo::claim::Claim;
/// use sendo::{Context, Index, ObjectExt, Result, Selector, Uid};
///
/// static CONTROLLED: Index<Pod, Uid> = Index::new("by-controller", |pod| pod.controller());
/// static ORPHANS: Index<Pod, String> = Index::new("orphans", |pod| {
///     let orphan = pod.controller().is_none();
///     orphan.then(|| pod.namespace().unwrap_or_default().to_owned())
/// });
///
/// async fn pods(set: &ReplicaSet, selector: &Selector, cx: &Context) -> Result<usize> {
///     let claim = Claim::new(set, selector, &CONTROLLED, &ORPHANS);
///     Ok(claim.claim(|pod| !pod.is_being_deleted(), cx).await?.len())
/// }
/// ```
#[derive(Debug)]
pub struct Claim<'a, O, K: 'static> {
    owner: &'a O,
    selector: &'a Selector,
    controlled: &'static Index<K, Uid>,
    orphans: &'static Index<K, String>,
    finalizer: Option<&'static str>,
}

impl<'a, O: Typed, K: Typed> Claim<'a, O, K> {
    /// The claim of `owner` to the objects that `selector` matches.
    ///
    /// `controlled` finds objects by the uid of their controller, `orphans` those without a
    /// controller by their namespace.
    pub fn new(
        owner: &'a O,
        selector: &'a Selector,
        controlled: &'static Index<K, Uid>,
        orphans: &'static Index<K, String>,
    ) -> Self {
        Claim {
            owner,
            selector,
            controlled,
            orphans,
            finalizer: None,
        }
    }

    /// Adds this finalizer to objects that are adopted, and removes it from those that are
    /// released. By default finalizers stay as they are.
    pub fn with_finalizer(mut self, finalizer: &'static str) -> Self {
        self.finalizer = Some(finalizer);
        self
    }

    /// Adopts and releases objects, and returns those that the owner controls then. Only orphans
    /// that are `adoptable` are adopted. An owner that is being deleted does neither.
    ///
    /// # Errors
    /// A conflict, which is tried again quietly, if the owner or an object has changed meanwhile.
    pub async fn claim(
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
        let meta = object.meta();
        let mut owners = meta.owner_references.clone().unwrap_or_default();
        // First, where the strategic merge patch of Kubernetes' controllers puts it.
        owners.insert(0, controller_reference(self.owner));
        let mut change = json!({ "ownerReferences": owners });
        if let Some(finalizer) = self.finalizer {
            let mut finalizers = meta.finalizers.clone().unwrap_or_default();
            if !finalizers.iter().any(|known| known == finalizer) {
                finalizers.push(finalizer.to_owned());
            }
            change["finalizers"] = json!(finalizers);
        }
        self.write(object, change, cx).await
    }

    async fn release(&self, object: &K, cx: &Context) -> Result<()> {
        let meta = object.meta();
        let mut owners = meta.owner_references.clone().unwrap_or_default();
        owners.retain(|owner| owner.uid != self.owner.uid().as_str());
        let mut change = json!({ "ownerReferences": owners });
        if let Some(finalizer) = self.finalizer {
            let mut finalizers = meta.finalizers.clone().unwrap_or_default();
            finalizers.retain(|known| known != finalizer);
            change["finalizers"] = json!(finalizers);
        }
        self.write(object, change, cx).await.map(drop)
    }

    /// Writes metadata of the very object that was read; `None` if it is gone.
    async fn write(&self, object: &K, mut change: Value, cx: &Context) -> Result<Option<Arc<K>>> {
        change["uid"] = json!(object.uid().as_str());
        change["resourceVersion"] = json!(object.meta().resource_version);
        let patch = Patch::Merge(json!({ "metadata": change }));
        match cx.client().patch(object, patch).await {
            Ok(written) => Ok(Some(Arc::new(written))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
