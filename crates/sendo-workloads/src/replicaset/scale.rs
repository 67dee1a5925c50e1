//! Creates missing pods, and deletes surplus ones.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replicaset/replica_set.go`: `manageReplicas`, `slowStartBatch`,
//!   `getIndirectlyRelatedPods`
//! - `pkg/controller/controller_utils.go`: `GetPodFromTemplate`

use std::future::Future;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{self, PodTemplateSpec};
use sendo::{Context, EventSeverity::*, ObjectExt, client};

use super::rank;
use crate::claim::controller_reference;
use crate::pods::{BY_CONTROLLER, Pod};

/// The maximum number of pods created or deleted in one sync.
const BURST_REPLICAS: usize = 500;

/// The first failure of a sync to create or delete a pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("cannot create a pod: {0}")]
    Create(#[source] client::Error),
    #[error("cannot delete a pod: {0}")]
    Delete(#[source] client::Error),
}

/// Creates or deletes pods until there are as many active ones as the spec has replicas.
pub(super) async fn scale(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    cx: &Context,
) -> Result<(), Failure> {
    let wanted = wanted(set);
    if active.len() < wanted {
        let missing = (wanted - active.len()).min(BURST_REPLICAS);
        return slow_start(missing, || create(set, cx)).await;
    }
    let surplus = (active.len() - wanted).min(BURST_REPLICAS);
    if surplus == 0 {
        return Ok(());
    }
    let related = related(set, cx);
    let to_delete = rank::pods_to_delete(active, &related, surplus, cx.now());
    let deletions = to_delete.iter().map(|pod| delete(set, pod, cx));
    join_all(deletions).await.into_iter().collect()
}

/// The replicas in the spec.
pub(super) fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    usize::try_from(replicas.unwrap_or(1)).unwrap_or_default()
}

/// The pods of all ReplicaSets with the same controller, which are the old and new ones of a
/// rollout: pods are deleted first from the node that has most of them.
fn related(set: &ReplicaSet, cx: &Context) -> Vec<Arc<Pod>> {
    let controller = set.controller();
    let siblings = cx
        .list::<ReplicaSet>()
        .in_namespace(set.namespace().unwrap_or_default())
        .filter(move |other| controller.is_some() && other.controller() == controller);
    let mut uids: Vec<_> = siblings.iter().map(|sibling| sibling.uid()).collect();
    if uids.is_empty() {
        uids.push(set.uid());
    }
    let pods = uids
        .into_iter()
        .flat_map(|uid| cx.list::<Pod>().by(&BY_CONTROLLER, uid));
    pods.collect()
}

/// Runs `step` in batches of 1, 2, 4, …, and starts no batch after one with a failure, so that a
/// template that cannot work costs few requests.
async fn slow_start<F, E>(count: usize, step: impl Fn() -> F) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let (mut left, mut batch) = (count, 1);
    while left > 0 {
        let now = batch.min(left);
        let results = join_all((0..now).map(|_| step())).await;
        results.into_iter().collect::<Result<(), E>>()?;
        left -= now;
        batch *= 2;
    }
    Ok(())
}

async fn create(set: &ReplicaSet, cx: &Context) -> Result<(), Failure> {
    match cx.client().create(&pod_from_template(set)).await {
        Ok(pod) => {
            cx.event(
                Normal,
                "SuccessfulCreate",
                format!("Created pod: {}", pod.name()),
            );
            Ok(())
        }
        // Nothing can be created in a namespace that is being deleted, and that is no failure.
        Err(error) if error.is_namespace_gone() => Ok(()),
        Err(error) => {
            cx.event(Warning, "FailedCreate", format!("Error creating: {error}"));
            Err(Failure::Create(error))
        }
    }
}

/// A pod from the set's template, controlled by the set.
fn pod_from_template(set: &ReplicaSet) -> v1::Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone());
    let PodTemplateSpec { metadata, spec } = template.unwrap_or_default();
    let wanted = metadata.unwrap_or_default();
    let mut pod = v1::Pod {
        spec,
        ..v1::Pod::default()
    };
    pod.metadata.generate_name = Some(format!("{}-", set.name()));
    pod.metadata.namespace = set.metadata.namespace.clone();
    pod.metadata.labels = wanted.labels;
    pod.metadata.annotations = wanted.annotations;
    pod.metadata.finalizers = wanted.finalizers;
    pod.metadata.owner_references = Some(vec![controller_reference(set)]);
    pod
}

async fn delete(set: &ReplicaSet, pod: &Pod, cx: &Context) -> Result<(), Failure> {
    match cx.client().delete(pod).await {
        Ok(_) => {
            cx.event(
                Normal,
                "SuccessfulDelete",
                format!("Deleted pod: {}", pod.name()),
            );
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => {
            tracing::debug!(set = %set.key(), pod = %pod.name(), %error, "a pod could not be deleted");
            cx.event(Warning, "FailedDelete", format!("Error deleting: {error}"));
            Err(Failure::Delete(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_slow_start_doubles_and_ends_with_the_first_failure() {
        let calls = RefCell::new(0);
        let step = |fails_at: usize| {
            let calls = &calls;
            move || {
                *calls.borrow_mut() += 1;
                let now = *calls.borrow();
                async move { if now >= fails_at { Err(now) } else { Ok(()) } }
            }
        };
        let run = futures::executor::block_on;
        assert_eq!(run(slow_start(10, step(100))), Ok(()));
        assert_eq!(calls.take(), 10);
        // 1, then 2, then a batch of 4 in which the fifth call fails.
        assert_eq!(run(slow_start(100, step(5))), Err(5));
        assert_eq!(calls.take(), 7);
    }
}
