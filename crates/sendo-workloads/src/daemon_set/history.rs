//! The templates that a DaemonSet has had.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/daemon/update.go`: `constructHistory`, `dedupCurHistories`, `snapshot`,
//!   `cleanupHistory`

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use sendo::client::controller_reference;
use sendo::{Context, ObjectExt, Patch, Result, Selector};
use serde_json::{Value, json};

use super::{HASH_LABEL, Sync};
use crate::pods::{BY_CONTROLLER, Pod};
use crate::{revisions, template};

/// The revisions of a DaemonSet.
pub(super) struct History {
    current: ControllerRevision,
    old: Vec<ControllerRevision>,
}

/// Finds the revisions. A new template gets a new one; one that it had before becomes the newest
/// again. `None` if the name of the new one is in use, which another collision count avoids.
pub(super) async fn find(
    set: &DaemonSet,
    selector: &Selector,
    cx: &Context,
) -> Result<Option<History>> {
    let known = revisions::claim(set, selector, cx).await?;
    let spec = set.spec.as_ref();
    let data = revisions::data(&spec.map(|spec| spec.template.clone()).unwrap_or_default());
    let (mut current, old): (Vec<_>, Vec<_>) = known
        .into_iter()
        .partition(|revision| revisions::records(revision, &data));
    let number = revisions::next_number(&old);
    let current = match current.pop() {
        None => match create(set, data, number, cx).await? {
            Some(created) => created,
            None => return Ok(None),
        },
        Some(newest) => {
            remove_duplicates(set, &newest, &current, cx).await?;
            match newest.revision < number {
                true => revisions::renumber(&newest, number, cx).await?,
                false => newest,
            }
        }
    };
    Ok(Some(History { current, old }))
}

async fn create(
    set: &DaemonSet,
    data: Value,
    number: i64,
    cx: &Context,
) -> Result<Option<ControllerRevision>> {
    let spec = set.spec.clone().unwrap_or_default();
    let collisions = set
        .status
        .as_ref()
        .and_then(|status| status.collision_count);
    let hash = template::hash(&spec.template, collisions);
    let mut labels = spec
        .template
        .metadata
        .and_then(|m| m.labels)
        .unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let revision = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", set.name())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data.clone())),
        revision: number,
    };
    match cx.create(&revision).await {
        Ok(created) => Ok(Some(created)),
        Err(error) if error.is_already_exists() => {
            let existing = cx.live().get::<ControllerRevision>(revision.key()).await?;
            if let Some(existing) = existing.filter(|known| revisions::records(known, &data)) {
                return Ok(Some(existing));
            }
            let next = collisions.unwrap_or(0) + 1;
            let written = cx
                .client()
                .status(set, |status| status.collision_count = Some(next));
            written.await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Of several revisions of one template only the newest stays, and pods name that.
async fn remove_duplicates(
    set: &DaemonSet,
    newest: &ControllerRevision,
    others: &[ControllerRevision],
    cx: &Context,
) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let hash = newest.label(HASH_LABEL);
    for pod in cx.list::<Pod>().by(&BY_CONTROLLER, set.uid()) {
        if pod.label(HASH_LABEL) != hash {
            let patch = Patch::Merge(json!({"metadata": {"labels": {HASH_LABEL: hash}}}));
            cx.patch(&*pod, patch).await?;
        }
    }
    for other in others {
        match cx.delete(other).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

impl History {
    /// The hash of the current template.
    pub(super) fn hash(&self) -> &str {
        self.current.label(HASH_LABEL).unwrap_or_default()
    }

    /// Deletes the oldest revisions beyond the limit that no pod has.
    pub(super) async fn prune(&self, sync: &Sync<'_>) -> Result<()> {
        let limit = sync.spec.revision_history_limit.unwrap_or(10);
        let limit = usize::try_from(limit).unwrap_or(0);
        let pods = sync.pods.values().flatten();
        let live: Vec<&str> = pods.filter_map(|pod| pod.label(HASH_LABEL)).collect();
        let is_unused = |revision: &&ControllerRevision| {
            revision
                .label(HASH_LABEL)
                .is_none_or(|hash| !live.contains(&hash))
        };
        let unused: Vec<_> = self.old.iter().filter(is_unused).cloned().collect();
        // Those that pods have count, too, and stay.
        let surplus = self.old.len().saturating_sub(limit).min(unused.len());
        revisions::prune(&unused, unused.len() - surplus, sync.cx).await
    }
}
