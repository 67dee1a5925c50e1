//! Creates missing pods, and deletes surplus ones.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/replicaset/replica_set.go`: `manageReplicas`, `slowStartBatch`,
//!   `getIndirectlyRelatedPods`

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use sendo::{Context, ObjectExt, slow_start};

use super::rank;
use super::replicated::Replicated;
use crate::pods::control::{self, Failure, from_template};
use crate::pods::{BY_CONTROLLER, Pod};

/// The maximum number of pods created or deleted in one sync.
const BURST_REPLICAS: usize = 500;

/// Creates or deletes pods until there are as many active ones as the spec has replicas.
pub(super) async fn scale<S: Replicated>(
    set: &S,
    active: &[Arc<Pod>],
    cx: &Context,
) -> Result<(), Failure> {
    let wanted = usize::try_from(set.replicas().unwrap_or(1)).unwrap_or_default();
    if active.len() < wanted {
        let missing = (wanted - active.len()).min(BURST_REPLICAS);
        let pod = from_template(set, set.template().unwrap_or(&PodTemplateSpec::default()));
        let create = |_| async { control::create(&pod, cx).await.map(drop) };
        return slow_start(0..missing, create).await.into_result();
    }
    let surplus = (active.len() - wanted).min(BURST_REPLICAS);
    if surplus == 0 {
        return Ok(());
    }
    let related = related(set, cx);
    let to_delete = rank::pods_to_delete(active, &related, surplus, cx.now());
    let deletions = to_delete.iter().map(|pod| control::delete(pod, cx));
    join_all(deletions).await.into_iter().collect()
}

/// The pods of all ReplicaSets with the same controller, which are the old and new ones of a
/// rollout: pods are deleted first from the node that has most of them.
fn related<S: Replicated>(set: &S, cx: &Context) -> Vec<Arc<Pod>> {
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
