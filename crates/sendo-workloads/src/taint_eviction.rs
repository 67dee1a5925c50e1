//! Deletes pods from nodes whose `NoExecute` taints they do not tolerate.
//!
//! A pod without a toleration of such a taint is deleted at once. One that tolerates it
//! for a number of seconds is deleted that long after this controller first saw the pod
//! on the tainted node, and stays if the taint is removed before. These times are kept in
//! memory only: when the controller restarts, the toleration seconds start again.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/tainteviction/taint_eviction.go`: `addConditionAndDeletePod`,
//!   `getMinTolerationTime`, `processPodOnNode`, `handlePodUpdate`, `handleNodeUpdate`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::{Mutex, MutexGuard};
use sendo::client::Patch;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, EventSeverity, Moment, ObjectExt, ObjectKey, Reader, Reconcile,
    Result, Uid, predicate,
};
use sendo_scheduler::taints::{taints, toleration};
use serde_json::json;

use crate::pods::{BY_NODE, Pod, condition_patch, node_of, tolerations};

/// The controller of pods on tainted nodes.
pub fn controller() -> Controller {
    let node_or_tolerations_changed = predicate::changed(|old: &Pod, new| {
        node_of(old) != node_of(new) || tolerations(old) != tolerations(new)
    });
    let taints_changed =
        predicate::changed(|old: &Node, new| !no_execute_taints(old).eq(no_execute_taints(new)));
    let pods_on = |node: &Node, cx: &Reader| cx.list::<Pod>().by(&BY_NODE, node.name()).keys();
    Controller::new::<Pod>()
        .named("taint-eviction-controller")
        .when(node_or_tolerations_changed)
        .watches(kind::<Node>().when(taints_changed), map_object(pods_on))
        .index(&BY_NODE)
        .workers(8)
        .reconcile(Evictions::default())
}

/// The taints of a node with the effect `NoExecute`.
fn no_execute_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    taints(node).filter(|taint| taint.effect == "NoExecute")
}

/// How long a pod tolerates the taints of its node; `None` if it does forever.
fn toleration_time(pod: &Pod, node: &Node) -> Option<Duration> {
    let ends =
        no_execute_taints(node).filter_map(|taint| match toleration(tolerations(pod), taint) {
            None => Some(0),
            Some(toleration) => toleration.toleration_seconds,
        });
    let seconds = ends.min()?;
    Some(Duration::from_secs(seconds.try_into().unwrap_or_default()))
}

/// When pods were first seen on a node whose taints they do not tolerate forever.
#[derive(Default)]
struct Evictions(Mutex<BTreeMap<ObjectKey, (Uid, Moment)>>);

impl Reconcile<Pod> for Evictions {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        let key = ObjectKey::from_object(&*pod);
        let node = node_of(&pod).and_then(|name| cx.get::<Node>(ObjectKey::cluster(name)));
        let tolerated = node.and_then(|node| toleration_time(&pod, &node));
        let Some(tolerated) = tolerated.filter(|_| !pod.is_being_deleted()) else {
            let scheduled = self.known().remove(&key);
            if scheduled.is_some_and(|(uid, _)| uid == pod.uid()) && !pod.is_being_deleted() {
                record_event(&cx, format!("Cancelling deletion of Pod {key}"));
            }
            return Ok(Action::done());
        };
        let now = cx.clock().now();
        let due = self.first_seen(&key, pod.uid(), now) + tolerated;
        let left = due - now;
        if !left.is_zero() {
            return Ok(Action::after(left));
        }
        record_event(&cx, format!("Marking for deletion Pod {key}"));
        evict(&pod, &cx).await?;
        self.known().remove(&key);
        Ok(Action::done())
    }

    async fn gone(&self, key: ObjectKey, _: Context) -> Result<()> {
        self.known().remove(&key);
        Ok(())
    }
}

impl Evictions {
    fn known(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Uid, Moment)>> {
        self.0.lock()
    }

    /// When this pod was first seen on the tainted node: `now`, if it was not before.
    fn first_seen(&self, key: &ObjectKey, uid: Uid, now: Moment) -> Moment {
        let mut known = self.known();
        match known.get(key) {
            Some((same, since)) if *same == uid => *since,
            _ => {
                known.insert(key.clone(), (uid, now));
                now
            }
        }
    }
}

fn record_event(cx: &Context, what: String) {
    cx.event(EventSeverity::Normal, "TaintManagerEviction", what);
}

/// Deletes a pod after setting the condition `DisruptionTarget`.
async fn evict(pod: &Arc<Pod>, cx: &Context) -> Result<()> {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": Time(cx.now()),
        "observedGeneration": pod.metadata.generation,
    });
    let patch = Patch::Strategic(json!({"status": condition_patch(pod, &condition)}));
    let evicted = match cx.client().patch_status(&**pod, patch).await {
        Ok(_) => cx.delete(&**pod).await.map(drop),
        Err(error) => Err(error),
    };
    match evicted {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn stays(tolerations: Value, taints: Value) -> Option<u64> {
        let pod = json!({"spec": {"containers": [], "tolerations": tolerations}});
        let node = json!({"spec": {"taints": taints}});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let node: Node = serde_json::from_value(node).expect("a node");
        toleration_time(&pod, &node).map(|time| time.as_secs())
    }

    #[test]
    fn the_shortest_toleration_counts() {
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
        let tolerates = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let no_schedule = json!({"key": "a", "effect": "NoSchedule"});
        assert_eq!(stays(json!([]), json!([])), None);
        assert_eq!(stays(json!([]), json!([no_schedule])), None);
        assert_eq!(stays(json!([]), json!([taint("a")])), Some(0));
        let forever = tolerates("a", Value::Null);
        assert_eq!(stays(json!([forever]), json!([taint("a")])), None);
        assert_eq!(
            stays(
                json!([forever, tolerates("b", json!(30))]),
                json!([taint("a"), taint("b")])
            ),
            Some(30)
        );
        assert_eq!(
            stays(json!([forever]), json!([taint("a"), taint("b")])),
            Some(0)
        );
        assert_eq!(
            stays(json!([tolerates("a", json!(-5))]), json!([taint("a")])),
            Some(0)
        );
        // The first toleration that tolerates the taint counts, whatever follows.
        let twice = json!([tolerates("a", json!(60)), tolerates("a", json!(5))]);
        assert_eq!(stays(twice, json!([taint("a")])), Some(60));
    }
}
