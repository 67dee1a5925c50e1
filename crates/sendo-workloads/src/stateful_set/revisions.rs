//! The revisions of a StatefulSet: the one that its pods had, and the one that they get.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/statefulset/stateful_set_control.go`: `getStatefulSetRevisions`,
//!   `truncateHistory`
//! - `pkg/controller/statefulset/stateful_set_utils.go`: `newRevision`

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use sendo::{Context, ObjectExt, Result};

use super::replicas::Sync;
use crate::revisions;

/// The two revisions of a StatefulSet.
pub(super) struct Revisions {
    /// The revision before the update; the same as `update` when none is in progress.
    pub(super) current: ControllerRevision,
    /// The revision of the template in the spec.
    pub(super) update: ControllerRevision,
    /// How often the name of a revision was that of another one.
    pub(super) collisions: i32,
}

impl Revisions {
    /// The template of the current revision.
    pub(super) fn current_template(&self, set: &StatefulSet) -> PodTemplateSpec {
        let recorded = revisions::template(&self.current);
        recorded.unwrap_or_else(|| spec_template(set))
    }
}

/// The template in the spec.
pub(super) fn spec_template(set: &StatefulSet) -> PodTemplateSpec {
    let spec = set.spec.as_ref();
    spec.map(|spec| spec.template.clone()).unwrap_or_default()
}

/// Finds the revisions among the `known` ones, oldest first. A new template gets a new revision;
/// one that it had before becomes the newest again.
pub(super) async fn find(
    set: &StatefulSet,
    known: &[ControllerRevision],
    cx: &Context,
) -> Result<Revisions> {
    let status = set.status.as_ref();
    let mut collisions = status.and_then(|s| s.collision_count).unwrap_or(0);
    let template = spec_template(set);
    let data = revisions::data(&template);
    let number = revisions::next_number(known);
    let equal = known.iter().rfind(|known| revisions::records(known, &data));
    let update = match (equal, known.last()) {
        (Some(equal), Some(newest)) if equal.name() == newest.name() => newest.clone(),
        (Some(equal), _) => revisions::renumber(equal, number, cx).await?,
        (None, _) => {
            let labels = template.metadata.and_then(|metadata| metadata.labels);
            let mut new = revisions::new(set, labels, data, number, collisions);
            new.metadata.annotations = set.metadata.annotations.clone();
            revisions::create(set.name(), new, &mut collisions, cx).await?
        }
    };
    let name = status.and_then(|status| status.current_revision.as_deref());
    let current = known.iter().find(|known| Some(known.name()) == name);
    Ok(Revisions {
        current: current.unwrap_or(&update).clone(),
        update,
        collisions,
    })
}

impl Sync<'_> {
    /// Deletes the oldest revisions beyond the limit that no pod has.
    pub(super) async fn prune_history(&self, known: &[ControllerRevision]) -> Result<()> {
        let Some(limit) = self.spec.revision_history_limit else {
            return Ok(());
        };
        let Ok(limit) = usize::try_from(limit) else {
            return Ok(());
        };
        let mut live: Vec<&str> = self
            .pods
            .iter()
            .filter_map(|pod| super::pod::revision(pod))
            .collect();
        live.extend([self.revisions.current.name(), self.revisions.update.name()]);
        let unused = known
            .iter()
            .filter(|revision| !live.contains(&revision.name()));
        let unused: Vec<ControllerRevision> = unused.cloned().collect();
        revisions::prune(&unused, limit, self.cx).await
    }
}
