//! The controller: selects the buckets that are due, and checks each of them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use sendo::client::{CleanUp, Finalizer};
use sendo::conditions::{self, News};
use sendo::handler::map;
use sendo::predicate::{annotations_changed, generation_changed};
use sendo::{
    Action, Context, Controller, EventSeverity::*, Manager, ObjectExt, ObjectKey, Reader,
    Reconcile, Result, Right, Verb, on_leader, source,
};

use crate::Options;
use crate::api::{ManagementPolicy, StorageBucket};
use crate::credentials::{CredentialStore, Keys};
use crate::lanes::Lanes;
use crate::manage::{self, BucketState, Synced};
use crate::metrics::Metrics;
use crate::status::Transitions;
use crate::store::{Health, Problem, Store};

/// Keeps a resource until its bucket is deleted, if it is to be deleted with it.
const FINALIZER: &str = "storage.example.dev/bucket";

/// After what time to retry a bucket whose endpoint has its maximum of concurrent checks.
const RETRY_BUSY: Duration = Duration::from_secs(1);

/// An event that time has passed: some buckets may be due.
struct Tick;

pub(crate) fn manager(options: Options) -> Manager {
    let (ticks, source) = source::channel(1);
    let metrics = Metrics::default();
    let program = Manager::new("storage-bucket")
        .defines::<StorageBucket>()
        .runnable(on_leader("ticker", move |cx| async move {
            let mut interval = cx.interval(options.tick_every);
            while cx.still_running(interval.tick()).await {
                ticks.send(Tick).await?;
            }
            Ok(())
        }));
    metrics.register(program).controller(
        Controller::new::<StorageBucket>()
            .with_finalizer()
            // The one Secret that a bucket names, when it is checked; none is watched.
            .needs(Right::of::<Secret>(Verb::Get))
            // Not for changes that a check itself writes.
            .when(generation_changed() | annotations_changed())
            .watches(
                source,
                map(|_: Tick, cx: &Reader| {
                    let (now, buckets) = (cx.now(), cx.list::<StorageBucket>());
                    buckets.filter(|bucket| bucket.is_due(now)).keys()
                }),
            )
            .workers(options.checks_at_once)
            .reconcile(BucketReconciler {
                store: Store::new(options.http, options.timeout),
                lanes: Lanes::new(options.checks_per_endpoint),
                credentials: CredentialStore::default(),
                metrics,
            }),
    )
}

struct BucketReconciler {
    store: Store,
    lanes: Lanes,
    credentials: CredentialStore,
    metrics: Metrics,
}

impl Reconcile<StorageBucket> for BucketReconciler {
    async fn reconcile(&self, bucket: Arc<StorageBucket>, cx: Context) -> Result<Action> {
        let manages = bucket.spec.management_policy == ManagementPolicy::Manage;
        if manages || bucket.is_being_deleted() {
            let finalizer = cx.finalizer(&bucket, FINALIZER, || self.clean_up(&bucket, &cx));
            if let Finalizer::Going(action) = finalizer.await? {
                return Ok(action);
            }
        }
        let now = cx.now();
        if bucket.spec.paused {
            let paused = Synced::Paused.condition(&bucket, now);
            cx.status(&bucket, |status| {
                conditions::set(&mut status.conditions, paused)
            })
            .await?;
            return Ok(Action::done());
        }
        // Other events also start a reconcile, such as one for each bucket at the start.
        if !bucket.is_due(now) {
            return Ok(Action::done());
        }
        let Some(_lane) = self.lanes.enter(&bucket.spec.endpoint) else {
            return Ok(Action::after(RETRY_BUSY));
        };
        let found = match self.credentials.read(&bucket, &cx).await? {
            Keys::Usable(keys) => {
                let access = self.store.bucket(&bucket.spec, keys.as_ref(), cx.clock());
                manage::check_and_create(&bucket, access, &probe_object(&bucket), &cx).await?
            }
            Keys::Missing(problem) | Keys::Unusable(problem) => BucketState {
                health: Health::Unhealthy(problem.clone()),
                synced: Synced::Unknown(problem),
                creation: bucket.status.as_ref().and_then(|status| status.creation),
            },
        };
        self.metrics.observe(&bucket.key(), &found.health);
        let BucketState { health, synced, .. } = &found;
        let written = cx.status(&bucket, |status| {
            status.creation = found.creation;
            status.record(&bucket, health, synced, now)
        });
        if let Some(turns) = written.await? {
            record_events(health, synced, turns, &cx);
        }
        Ok(Action::done())
    }

    async fn gone(&self, bucket: ObjectKey, _: Context) -> Result<()> {
        self.metrics.forget(&bucket);
        self.credentials.forget(&bucket);
        Ok(())
    }
}

impl BucketReconciler {
    /// Deletes the bucket if it is to be deleted with its resource.
    async fn clean_up(&self, bucket: &StorageBucket, cx: &Context) -> Result<CleanUp> {
        if !manage::is_deleted_with(bucket) {
            return Ok(CleanUp::Done);
        }
        let Some(_lane) = self.lanes.enter(&bucket.spec.endpoint) else {
            return Ok(CleanUp::Again(RETRY_BUSY));
        };
        let (keys, missing) = match self.credentials.read(bucket, cx).await? {
            Keys::Usable(keys) => (keys, None),
            Keys::Unusable(problem) => return keep(bucket, problem, cx).await,
            // In a deleted namespace the Secret may be deleted already: its last credentials are used.
            Keys::Missing(problem) => (self.credentials.last(&bucket.key()), Some(problem)),
        };
        let access = self.store.bucket(&bucket.spec, keys.as_ref(), cx.clock());
        match (access.delete(&probe_object(bucket)).await, missing) {
            (Ok(()), _) => {
                let message = format!("the bucket {} is deleted", bucket.spec.bucket);
                cx.event(Normal, "Deleted", message);
                Ok(CleanUp::Done)
            }
            // The deletion of the resource could never finish.
            (Err(problem), Some(missing)) if problem.is_about_credentials() => {
                let message = format!(
                    "the bucket {} stays: {}",
                    bucket.spec.bucket, missing.message
                );
                // The Event is refused in a namespace that is being deleted.
                tracing::warn!(bucket = %bucket.key(), "{message}");
                cx.event(Warning, "Orphaned", message);
                Ok(CleanUp::Done)
            }
            (Err(problem), _) => keep(bucket, problem, cx).await,
        }
    }
}

/// Reports why the bucket, and with it the resource, is not deleted.
async fn keep(bucket: &StorageBucket, problem: Problem, cx: &Context) -> Result<CleanUp> {
    let synced = Synced::Failed(problem).condition(bucket, cx.now());
    let message = synced.message.clone();
    let written = cx.status(bucket, |status| {
        conditions::set(&mut status.conditions, synced)
    });
    if written.await? >= Some(News::Reason) {
        cx.event(Warning, "DeleteFailed", message);
    }
    Ok(CleanUp::Again(bucket.spec.check_every()))
}

/// Records events for conditions that have changed.
fn record_events(health: &Health, synced: &Synced, turns: Transitions, cx: &Context) {
    if turns.ready == News::Status {
        let kind = match health.problem() {
            None => Normal,
            Some(_) => Warning,
        };
        cx.event(kind, &health.reason(), health.message());
    }
    match synced {
        Synced::Failed(problem) if turns.synced >= News::Reason => {
            cx.event(Warning, "CreateFailed", problem.message.as_str());
        }
        _ => {}
    }
}

/// The name of the object that a probe writes: one for each resource, so that probes of the same
/// bucket do not conflict.
fn probe_object(bucket: &StorageBucket) -> String {
    format!(".storage-bucket-probe-{}", bucket.uid())
}
