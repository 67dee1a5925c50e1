//! Takes pods off nodes whose `NoExecute` taints they do not tolerate.
//!
//! A pod with no toleration of such a taint goes at once. One that tolerates it
//! for so many seconds goes that long after it was first seen beside the taint,
//! and stays if the taint is gone by then. When it was first seen is kept in
//! memory only: a controller that starts anew grants the time anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::client::Patch;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, EventType, Index, Moment, ObjectExt, ObjectKey, Reader, Reconcile,
    Result, Uid, predicate,
};
use sendo_scheduler::taints::{taints, toleration};
use serde_json::json;

use crate::pods::{Pod, node_of, tolerations};

/// Pods by the node they are bound to.
static BY_NODE: Index<Pod, String> =
    Index::new("pods-by-node", |pod| node_of(pod).map(str::to_owned));

/// The controller of pods on tainted nodes.
pub fn controller() -> Controller {
    let other_place = predicate::changed(|old: &Pod, new| {
        node_of(old) != node_of(new) || tolerations(old) != tolerations(new)
    });
    let other_taints = predicate::changed(|old: &Node, new| !evicting(old).eq(evicting(new)));
    let pods_on = |node: &Node, cx: &Reader| cx.list::<Pod>().by(&BY_NODE, node.name()).keys();
    Controller::new::<Pod>()
        .named("taint-eviction-controller")
        .when(other_place)
        .watches(kind::<Node>().when(other_taints), map_object(pods_on))
        .index(&BY_NODE)
        .workers(8)
        .reconcile(Evictions::default())
}

/// The taints that drive pods out.
fn evicting(node: &Node) -> impl Iterator<Item = &Taint> {
    taints(node).filter(|taint| taint.effect == "NoExecute")
}

/// How long a pod may stay on a node, from when it was first seen beside the
/// node's taints; `None` if there is no end to it.
fn patience(pod: &Pod, node: &Node) -> Option<Duration> {
    let ends = evicting(node).filter_map(|taint| match toleration(tolerations(pod), taint) {
        None => Some(0),
        Some(toleration) => toleration.toleration_seconds,
    });
    let seconds = ends.min()?;
    Some(Duration::from_secs(seconds.try_into().unwrap_or_default()))
}

/// Since when pods are known to be where they may not stay.
#[derive(Default)]
struct Evictions(Mutex<BTreeMap<ObjectKey, (Uid, Moment)>>);

impl Reconcile<Pod> for Evictions {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        let key = ObjectKey::of(&*pod);
        let node = node_of(&pod).and_then(|name| cx.get::<Node>(ObjectKey::cluster(name)));
        let patience = node.and_then(|node| patience(&pod, &node));
        let Some(patience) = patience.filter(|_| !pod.is_being_deleted()) else {
            let waited = self.known().remove(&key);
            if waited.is_some_and(|(uid, _)| uid == pod.uid()) && !pod.is_being_deleted() {
                tell(&cx, format!("Cancelling deletion of Pod {key}"));
            }
            return Ok(Action::done());
        };
        let now = cx.clock().now();
        let due = self.since(&key, pod.uid(), now) + patience;
        let left = due - now;
        if !left.is_zero() {
            return Ok(Action::after(left));
        }
        tell(&cx, format!("Marking for deletion Pod {key}"));
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this pod was first seen where it may not stay: `now`, if it was not before.
    fn since(&self, key: &ObjectKey, uid: Uid, now: Moment) -> Moment {
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

fn tell(cx: &Context, what: String) {
    cx.event(EventType::Normal, "TaintManagerEviction", what);
}

/// Deletes a pod, and says in its status why.
async fn evict(pod: &Arc<Pod>, cx: &Context) -> Result<()> {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": Time(cx.now()),
        "observedGeneration": pod.metadata.generation,
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
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
        patience(&pod, &node).map(|time| time.as_secs())
    }

    #[test]
    fn the_shortest_of_what_is_tolerated_counts() {
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
        let bears = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let soft = json!({"key": "a", "effect": "NoSchedule"});
        assert_eq!(stays(json!([]), json!([])), None);
        assert_eq!(stays(json!([]), json!([soft])), None);
        assert_eq!(stays(json!([]), json!([taint("a")])), Some(0));
        let forever = bears("a", Value::Null);
        assert_eq!(stays(json!([forever]), json!([taint("a")])), None);
        assert_eq!(
            stays(
                json!([forever, bears("b", json!(30))]),
                json!([taint("a"), taint("b")])
            ),
            Some(30)
        );
        assert_eq!(
            stays(json!([forever]), json!([taint("a"), taint("b")])),
            Some(0)
        );
        assert_eq!(
            stays(json!([bears("a", json!(-5))]), json!([taint("a")])),
            Some(0)
        );
        // The first toleration that fits decides, whatever follows.
        let twice = json!([bears("a", json!(60)), bears("a", json!(5))]);
        assert_eq!(stays(twice, json!([taint("a")])), Some(60));
    }
}
