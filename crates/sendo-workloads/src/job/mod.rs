//! Runs the pods of a Job until enough of them have succeeded.
//!
//! Every pod has a finalizer until the status of the Job counts it: first its uid is
//! added to the uncounted pods of the status, then the finalizer is removed, then the
//! uid moves into the counters. No pod is so counted twice or lost, whenever the
//! controller stops in between, or somebody deletes pods.
//!
//! `sync` decides what the Job has come to, `manage` creates and deletes pods, `tracking`
//! counts those that have finished; `policy`, `backoff` and `indexes` are the rules they use.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/job_controller.go`: `newControllerWithClock`, `getPodsForJob`,
//!   `resolveControllerRef`, `syncOrphanPod`, `managedByExternalController`

mod backoff;
mod conditions;
mod indexes;
mod manage;
mod metrics;
mod policy;
mod sync;
mod tracking;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use parking_lot::Mutex;
use sendo::handler::map_object;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, Index, Kind, ObjectExt, ObjectKey, Reader, Reconcile, Result,
    Selector, Uid,
};

use self::backoff::Failures;
use self::metrics::JobMetrics;
use self::sync::Sync;
use crate::pods::{BY_CONTROLLER, ORPHANS, Pod};

pub(crate) use self::conditions::{finished_at, finished_condition};

/// The finalizer of pods that the status of their Job does not count yet.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The labels of a Job's pods with its name: today's, and the one before it.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// Who manages a Job, if this controller does.
const THIS_CONTROLLER: &str = "kubernetes.io/job-controller";

/// Pods with the finalizer, by the key of the Job that they belong to, or belonged to.
static TRACKED: Index<Pod, ObjectKey> = Index::new("pods-tracked-by-job", |pod| {
    is_tracked(pod).then(|| job_of(pod)).flatten()
});

fn is_tracked(pod: &Pod) -> bool {
    let finalizers = pod.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|name| name == FINALIZER)
}

/// The key of the Job that a pod belongs to by its controller or, without one, by its labels.
fn job_of(pod: &Pod) -> Option<ObjectKey> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => {
            let kind = Kind::of::<Job>();
            let is_job = owner.kind == kind.kind && owner.api_version == kind.api_version();
            is_job.then(|| pod.key_beside(&owner.name))
        }
        None => {
            let name = NAME_LABELS.iter().find_map(|label| pod.label(label))?;
            Some(pod.key_beside(name))
        }
    }
}

/// The controller of Jobs.
pub fn controller() -> Controller {
    let reconciler = JobReconciler::default();
    let controller = Controller::new::<Job>()
        .named("job-controller")
        .watches(kind::<Pod>(), map_object(jobs_of_pod))
        .index(&BY_CONTROLLER)
        .index(&ORPHANS)
        .index(&TRACKED)
        .workers(5);
    let controller = reconciler.metrics.declare(controller);
    controller.reconcile(reconciler)
}

/// The Job that a pod belongs to, or those that may adopt it.
fn jobs_of_pod(pod: &Pod, cx: &Reader) -> Vec<ObjectKey> {
    let mut keys: Vec<ObjectKey> = job_of(pod).into_iter().collect();
    if pod.controller().is_none() {
        let namespace = pod.namespace().unwrap_or_default();
        let jobs = cx.list::<Job>().in_namespace(namespace);
        let adopting = jobs
            .filter(|job| selector(job).is_some_and(|s| s.matches(pod.metadata.labels.as_ref())));
        keys.extend(adopting.keys());
    }
    keys
}

/// The Job's selector; `None` if it is absent or invalid, which matches nothing.
fn selector(job: &Job) -> Option<Selector> {
    let spec = job.spec.as_ref()?;
    Selector::try_from(spec.selector.as_ref()?).ok()
}

/// Who else manages the Job, if it names another controller.
fn other_manager(job: &Job) -> Option<&str> {
    let manager = job.spec.as_ref()?.managed_by.as_deref()?;
    (manager != THIS_CONTROLLER).then_some(manager)
}

/// Reconciles Jobs, and remembers their failures.
#[derive(Default)]
struct JobReconciler {
    failures: Mutex<BTreeMap<ObjectKey, (Uid, Failures)>>,
    metrics: JobMetrics,
}

impl Reconcile<Job> for JobReconciler {
    async fn reconcile(&self, job: Arc<Job>, cx: Context) -> Result<Action> {
        if let Some(manager) = other_manager(&job) {
            self.metrics.managed_externally(manager, &job);
            return Ok(Action::done());
        }
        self.release_orphans(&job.key(), Some(&job), &cx).await?;
        if finished_condition(&job).is_some() {
            self.failures.lock().remove(&job.key());
            return Ok(Action::done());
        }
        let Some(selector) = selector(&job) else {
            return Ok(Action::done());
        };
        let (begun, known) = (cx.clock().now(), self.failures(&job));
        let mut sync = Sync::begin(&job, &selector, known, &self.metrics, &cx).await?;
        let result = sync.advance().await;
        if let Some(failures) = sync.recorded_failures {
            let mut all = self.failures.lock();
            all.insert(job.key(), (job.uid(), failures));
        }
        let took = cx.clock().now() - begun;
        self.metrics
            .synced(sync.mode(), result.is_ok(), sync.action, took);
        Ok(match result? {
            Some(delay) => Action::after(delay),
            None => Action::done(),
        })
    }

    async fn gone(&self, key: ObjectKey, cx: Context) -> Result<()> {
        self.failures.lock().remove(&key);
        self.metrics.forget(&key);
        self.release_orphans(&key, None, &cx).await
    }
}

impl JobReconciler {
    fn failures(&self, job: &Job) -> Failures {
        let all = self.failures.lock();
        let known = all.get(&job.key()).filter(|(uid, _)| *uid == job.uid());
        known.map(|(_, failures)| *failures).unwrap_or_default()
    }

    /// Removes the finalizer from pods whose Job will not count them: it is gone or has finished,
    /// or they are not controlled by it any more.
    async fn release_orphans(
        &self,
        key: &ObjectKey,
        job: Option<&Job>,
        cx: &Context,
    ) -> Result<()> {
        let counting = job.filter(|job| finished_condition(job).is_none());
        for pod in cx.list::<Pod>().by(&TRACKED, key.clone()) {
            let will_be_counted = counting.is_some_and(|job| {
                let adoptable = pod.controller().is_none()
                    && selector(job).is_some_and(|s| s.matches(pod.metadata.labels.as_ref()));
                pod.is_controlled_by(job) || adoptable
            });
            if !will_be_counted {
                tracking::remove_finalizer(&pod, cx).await?;
            }
        }
        Ok(())
    }
}
