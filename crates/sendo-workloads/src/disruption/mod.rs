//! Counts for each PodDisruptionBudget how many of its pods may be evicted now.
//!
//! The eviction subresource of pods takes disruptions off the status and notes the pods; this
//! controller counts anew when pods come, go, or become ready. `expected` says how many pods there
//! should be. A pod that was to be disrupted and is still there after a while loses the condition
//! that says so.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/disruption/disruption.go`: `trySync`, `failSafe`, `buildDisruptedPodMap`,
//!   `countHealthyPods`, `updatePdbStatus`, `syncStalePodDisruption`
//! - `staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go`:
//!   `UpdateDisruptionAllowedCondition`

mod expected;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::conditions::{self, State, condition};
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, EventSeverity::*, ObjectExt, ObjectKey, Patch, Reader, Result,
    Selector,
};
use serde_json::json;

use crate::go_print;
use crate::pods::{self, Pod};

const ALLOWED: &str = "DisruptionAllowed";
const TARGET: &str = "DisruptionTarget";

/// How long a pod whose eviction was allowed may take until it is deleted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Budget(ObjectKey),
    /// A pod that is to be disrupted.
    Pod(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Budget(key) => write!(f, "budget {key}"),
            Key::Pod(key) => write!(f, "pod {key}"),
        }
    }
}

/// The controller of PodDisruptionBudgets.
pub fn controller() -> Controller {
    let budget = |budget: &PodDisruptionBudget, _: &_| [Key::Budget(budget.key())];
    Controller::keyed::<Key>("disruption-controller")
        .events_as("controllermanager")
        .watches(kind::<PodDisruptionBudget>(), map_object(budget))
        .watches(kind::<Pod>(), map_object(keys_of_pod))
        .watches(kind::<ReplicationController>(), map_object(budgets_beside))
        .watches(kind::<ReplicaSet>(), map_object(budgets_beside))
        .watches(kind::<Deployment>(), map_object(budgets_beside))
        .watches(kind::<StatefulSet>(), map_object(budgets_beside))
        .reconcile(sync)
}

/// The budgets that select the pod, and the pod itself if it is to be disrupted.
fn keys_of_pod(pod: &Pod, cx: &Reader) -> Vec<Key> {
    let namespace = pod.namespace().unwrap_or_default();
    let budgets = cx.list::<PodDisruptionBudget>().in_namespace(namespace);
    let selecting = budgets.filter(|budget| {
        selector(budget).is_some_and(|selector| selector.matches(pod.metadata.labels.as_ref()))
    });
    let mut keys: Vec<Key> = selecting.keys().into_iter().map(Key::Budget).collect();
    if pods::condition(pod, TARGET).is_some_and(|target| target.status == "True") {
        keys.push(Key::Pod(pod.key()));
    }
    keys
}

/// The budgets in the namespace of an object that says how many pods there should be.
fn budgets_beside<K: ObjectExt>(object: &K, cx: &Reader) -> Vec<Key> {
    let namespace = object.namespace().unwrap_or_default();
    let budgets = cx.list::<PodDisruptionBudget>().in_namespace(namespace);
    budgets.keys().into_iter().map(Key::Budget).collect()
}

/// The budget's selector; `None` if it is absent or invalid, which matches nothing.
fn selector(budget: &PodDisruptionBudget) -> Option<Selector> {
    let spec = budget.spec.as_ref()?;
    Selector::try_from(spec.selector.as_ref()?).ok()
}

async fn sync(key: Key, cx: Context) -> Result<Action> {
    let again = match key {
        Key::Budget(key) => match cx.get::<PodDisruptionBudget>(key) {
            Some(budget) => sync_budget(&budget, &cx).await?,
            None => None,
        },
        Key::Pod(key) => match cx.get::<Pod>(key) {
            Some(pod) => sync_pod(&pod, &cx).await?,
            None => None,
        },
    };
    Ok(match again {
        Some(delay) => Action::after(delay),
        None => Action::done(),
    })
}

/// Counts, and returns when to count again because a pod should have been deleted by then.
async fn sync_budget(budget: &Arc<PodDisruptionBudget>, cx: &Context) -> Result<Option<Duration>> {
    let pods: Vec<Arc<Pod>> = match selector(budget) {
        Some(selector) => {
            let namespace = budget.namespace().unwrap_or_default();
            let pods = cx.list::<Pod>().in_namespace(namespace);
            pods.labels(&selector).iter().collect()
        }
        None => Vec::new(),
    };
    if pods.is_empty() {
        cx.event_on(&**budget, Normal, "NoPods", "No matching pods found");
    }
    let expected = match expected::count(budget, &pods, cx).await {
        Ok(expected) => expected,
        Err(error) => {
            let message = format!("Failed to calculate the number of expected pods: {error}");
            cx.event_on(
                &**budget,
                Warning,
                "CalculateExpectedPodCountFailed",
                message,
            );
            refuse_all(budget, &error.to_string(), cx).await?;
            return Err(error);
        }
    };
    if expected.has_unmanaged {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let message = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
            go_print::label_selector(selector)
        );
        cx.event_on(&**budget, Warning, "UnmanagedPods", message);
    }
    let (disrupted, again) = disrupted(budget, &pods, cx);
    let healthy = pods.iter().filter(|pod| {
        !pod.is_being_deleted() && !disrupted.contains_key(pod.name()) && pods::is_ready(pod)
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let allowed = match expected.pods > 0 {
        true => (healthy - expected.healthy).max(0),
        false => 0,
    };
    let reason = match allowed > 0 {
        true => "SufficientPods",
        false => "InsufficientPods",
    };
    let state = State::from(allowed > 0);
    let condition = condition(&**budget, cx.now(), ALLOWED, state, reason, "");
    let generation = budget.metadata.generation;
    let written = cx.client().status(budget, |status| {
        let mut all = status.conditions.take().unwrap_or_default();
        conditions::set(&mut all, condition);
        *status = PodDisruptionBudgetStatus {
            current_healthy: healthy.into(),
            desired_healthy: expected.healthy.into(),
            expected_pods: expected.pods.into(),
            disruptions_allowed: allowed.into(),
            disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
            observed_generation: generation,
            conditions: Some(all),
        };
    });
    written.await?;
    Ok(again)
}

/// The pods that were allowed to be evicted and are not deleted yet, and when the first of them is
/// overdue.
fn disrupted(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    cx: &Context,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let known = budget
        .status
        .as_ref()
        .and_then(|status| status.disrupted_pods.as_ref());
    let mut disrupted = BTreeMap::new();
    let mut again: Option<Duration> = None;
    for pod in pods.iter().filter(|pod| !pod.is_being_deleted()) {
        let Some(time) = known.and_then(|known| known.get(pod.name())) else {
            continue;
        };
        let left = (time.0 + DELETION_TIMEOUT).duration_since(cx.now());
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => {
                again = Some(again.map_or(left, |known| known.min(left)));
                disrupted.insert(pod.name().to_owned(), time.clone());
            }
            _ => {
                let namespace = budget.namespace().unwrap_or_default();
                let message = format!(
                    "Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                );
                cx.event_on(&**pod, Warning, "NotDeleted", message);
            }
        }
    }
    (disrupted, again)
}

/// Allows nothing, because it is not known how many pods there should be.
async fn refuse_all(budget: &PodDisruptionBudget, why: &str, cx: &Context) -> Result<()> {
    let failed = condition(budget, cx.now(), ALLOWED, false, "SyncFailed", why);
    let written = cx.client().status(budget, |status| {
        status.disruptions_allowed = 0.into();
        conditions::set(status.conditions.get_or_insert_default(), failed);
    });
    written.await?;
    Ok(())
}

/// Takes back the condition of a pod that was to be disrupted, if that has not happened.
async fn sync_pod(pod: &Arc<Pod>, cx: &Context) -> Result<Option<Duration>> {
    let finished = matches!(pods::phase(pod), "Succeeded" | "Failed");
    let target = pods::condition(pod, TARGET).filter(|target| target.status == "True");
    let Some(target) = target.filter(|_| !pod.is_being_deleted() && !finished) else {
        return Ok(None);
    };
    let since = target
        .last_transition_time
        .as_ref()
        .map_or(cx.now(), |time| time.0);
    let left = (since + DELETION_TIMEOUT).duration_since(cx.now());
    if let Ok(left) = Duration::try_from(left)
        && !left.is_zero()
    {
        return Ok(Some(left));
    }
    let condition = json!({
        "type": TARGET,
        "status": "False",
        "reason": null,
        "message": null,
        "lastTransitionTime": Time(cx.now()),
        "observedGeneration": pod.metadata.generation,
    });
    let patch = Patch::Strategic(json!({"status": pods::condition_patch(pod, &condition)}));
    match cx.client().patch_status(&**pod, patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(None),
    }
}
