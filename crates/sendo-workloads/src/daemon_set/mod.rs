//! Runs one pod of a DaemonSet on each node that it fits.
//!
//! `placement` says on which nodes, `manage` creates and deletes pods, `update` replaces those of an
//! old template, `history` keeps the templates, `status` reports.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/daemon/daemon_controller.go`: `NewDaemonSetsController`, `syncDaemonSet`,
//!   `getNodesToDaemonPods`, `updateNode`

mod history;
mod manage;
mod placement;
mod status;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use sendo::claim::Claim;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, EventSeverity::Warning, Moment, ObjectExt, ObjectKey, Reader,
    Reconcile, Result, Selector, Uid, predicate,
};

use self::placement::target_node;
use crate::pods::{self, BY_CONTROLLER, ORPHANS, Pod};

/// The label of pods and revisions with the hash of their template.
const HASH_LABEL: &str = "controller-revision-hash";

/// The controller of DaemonSets.
pub fn controller() -> Controller {
    let placement_changed = predicate::changed(|old: &Node, new| {
        let spec = |node: &Node| {
            let spec = node.spec.clone().unwrap_or_default();
            (spec.taints, spec.unschedulable)
        };
        old.metadata.labels != new.metadata.labels || spec(old) != spec(new)
    });
    let all = |_: &Node, cx: &Reader| cx.list::<DaemonSet>().keys();
    Controller::new::<DaemonSet>()
        .named("daemonset-controller")
        .owns::<Pod>()
        .watches(kind::<Pod>(), map_object(sets_that_may_adopt))
        .watches(kind::<Node>().when(placement_changed), map_object(all))
        .reads::<ControllerRevision>()
        .index(&BY_CONTROLLER)
        .index(&ORPHANS)
        .index(&crate::revisions::BY_CONTROLLER)
        .index(&crate::revisions::ORPHANS)
        .workers(2)
        .reconcile(DaemonSets::default())
}

/// The DaemonSets that may adopt a pod: if it has no controller, those whose selector matches it.
fn sets_that_may_adopt(pod: &Pod, cx: &Reader) -> Vec<ObjectKey> {
    if pod.controller().is_some() {
        return Vec::new();
    }
    let sets = cx
        .list::<DaemonSet>()
        .in_namespace(pod.namespace().unwrap_or_default());
    sets.filter(|set| selector(set).is_some_and(|s| s.matches(pod.metadata.labels.as_ref())))
        .keys()
}

/// The DaemonSet's selector; `None` if it is absent or invalid, which matches nothing.
fn selector(set: &DaemonSet) -> Option<Selector> {
    let spec = set.spec.as_ref()?;
    Selector::try_from(&spec.selector).ok()
}

/// Reconciles DaemonSets, and remembers on which nodes their pods have failed.
#[derive(Default)]
struct DaemonSets {
    failures: Mutex<BTreeMap<FailureKey, Failure>>,
}

/// A DaemonSet of one generation, on a node.
type FailureKey = (Uid, i64, String);

/// When a failed pod was deleted last, and after what time the next one may be.
#[derive(Clone, Copy, Debug)]
struct Failure {
    at: Moment,
    delay: Duration,
}

/// One sync of a DaemonSet.
struct Sync<'a> {
    set: &'a DaemonSet,
    spec: DaemonSetSpec,
    cx: &'a Context,
    nodes: Vec<Arc<Node>>,
    /// The pods by the node that they run on, or are meant for.
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// The hash of the current template.
    hash: String,
    failures: &'a Mutex<BTreeMap<FailureKey, Failure>>,
    /// After what time to sync again.
    again: Option<Duration>,
}

impl Reconcile<DaemonSet> for DaemonSets {
    async fn reconcile(&self, set: Arc<DaemonSet>, cx: Context) -> Result<Action> {
        let Some(selector) = selector(&set) else {
            return Ok(Action::done());
        };
        if selector.is_everything() {
            let message =
                "This daemon set is selecting all pods. A non-empty selector is required.";
            cx.event(Warning, "SelectingAll", message);
            return Ok(Action::done());
        }
        if set.is_being_deleted() {
            return Ok(Action::done());
        }
        let Some(history) = history::find(&set, &selector, &cx).await? else {
            return Ok(Action::done());
        };
        let mut sync = Sync {
            spec: set.spec.clone().unwrap_or_default(),
            nodes: cx.list::<Node>().iter().collect(),
            pods: BTreeMap::new(),
            hash: history.hash().to_owned(),
            failures: &self.failures,
            again: None,
            set: &set,
            cx: &cx,
        };
        // A failure is reported in the status before the sync is tried again.
        let result = sync.advance(&selector, &history).await;
        let status = sync.write_status(&selector).await;
        result?;
        status?;
        Ok(match sync.again {
            Some(delay) => Action::after(delay),
            None => Action::done(),
        })
    }

    async fn gone(&self, _: ObjectKey, cx: Context) -> Result<()> {
        let known: Vec<Uid> = cx.list::<DaemonSet>().iter().map(|set| set.uid()).collect();
        self.failures
            .lock()
            .retain(|(uid, ..), _| known.contains(uid));
        Ok(())
    }
}

impl Sync<'_> {
    async fn advance(&mut self, selector: &Selector, history: &history::History) -> Result<()> {
        self.find_pods(selector).await?;
        self.manage().await?;
        // What has just been created or deleted is taken into account.
        self.find_pods(selector).await?;
        if self.is_rolling() {
            self.roll().await?;
        }
        history.prune(self).await
    }

    /// Finds the pods of the DaemonSet, without those that have finished and are being deleted.
    async fn find_pods(&mut self, selector: &Selector) -> Result<()> {
        let claim = Claim::new(self.set, selector, &BY_CONTROLLER, &ORPHANS);
        let claimed = claim.claim(pods::is_active, self.cx).await?;
        self.pods.clear();
        for pod in claimed {
            let finished = matches!(pods::phase(&pod), "Succeeded" | "Failed");
            if finished && pod.is_being_deleted() {
                continue;
            }
            if let Some(node) = target_node(&pod) {
                let node = node.to_owned();
                self.pods.entry(node).or_default().push(pod);
            }
        }
        Ok(())
    }

    fn is_rolling(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    /// Whether the pod is of the current template.
    fn is_updated(&self, pod: &Pod) -> bool {
        let generation = self.set.annotation(placement::GENERATION);
        let of_generation = pod.label(placement::GENERATION_LABEL);
        pod.label(HASH_LABEL) == Some(&self.hash)
            || (generation.is_some() && of_generation == generation)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0).max(0);
        let min_ready = Duration::from_secs(u64::from(min_ready.unsigned_abs()));
        let wait = pods::available_in(pod, min_ready, self.cx.now());
        wait.is_some_and(|wait| wait.is_zero())
    }

    /// Syncs again after that time at the latest.
    fn sync_again_in(&mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |known| known.min(delay)));
    }
}
