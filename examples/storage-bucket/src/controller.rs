//! From a tick to a check: which buckets are due, and what is done about one.

use std::sync::Arc;
use std::time::Duration;

use sendo::handler::map;
use sendo::predicate::{annotations_changed, generation_changed};
use sendo::{
    Action, Context, Controller, EventType::*, Manager, ObjectExt, Reader, Reconcile, Result,
    on_leader, source,
};

use crate::Options;
use crate::api::{ManagementPolicy, StorageBucket};
use crate::credentials::{self, Keys};
use crate::lanes::Lanes;
use crate::manage::{self, Found, Synced};
use crate::metrics::Metrics;
use crate::store::{Health, Store};

/// Keeps a resource until its bucket is seen to.
const FINALIZER: &str = "storage.example.dev/bucket";

/// How soon to look again at a bucket whose endpoint is busy with others.
const BUSY: Duration = Duration::from_secs(1);

/// Time has passed: some buckets may be due.
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
    let counted = metrics.clone();
    metrics.of(program).controller(
        Controller::new::<StorageBucket>()
            // Not on what a check itself writes.
            .when(generation_changed() | annotations_changed())
            .watches(
                source,
                map(move |_: Tick, cx: &Reader| {
                    counted.keep(|bucket| cx.get::<StorageBucket>(bucket).is_some());
                    let now = cx.now();
                    let buckets = cx.list::<StorageBucket>();
                    buckets.filter(|bucket| bucket.is_due(now)).keys()
                }),
            )
            .workers(options.checks_at_once)
            .reconcile(Keeper {
                store: Store::new(options.http, options.timeout),
                lanes: Lanes::new(options.checks_per_endpoint),
                metrics,
            }),
    )
}

struct Keeper {
    store: Store,
    lanes: Lanes,
    metrics: Metrics,
}

impl Reconcile<StorageBucket> for Keeper {
    async fn reconcile(&self, bucket: Arc<StorageBucket>, cx: Context) -> Result<Action> {
        if bucket.is_being_deleted() {
            return self.let_go(&bucket, &cx).await;
        }
        let now = cx.now();
        if bucket.spec.paused {
            let pause = cx.client().status(&*bucket, |status| {
                status.record_synced(&bucket, &Synced::Paused, now);
            });
            pause.await?;
            return Ok(Action::done());
        }
        // Events come when they like, such as one for each bucket at the start.
        if !bucket.is_due(now) {
            return Ok(Action::done());
        }
        let Some(_lane) = self.lanes.enter(&bucket.spec.endpoint) else {
            return Ok(Action::after(BUSY));
        };
        let manages = bucket.spec.management_policy == ManagementPolicy::Manage;
        if manages && !bears_finalizer(&bucket) {
            let add = |b: &mut StorageBucket| b.finalizers_mut().push(FINALIZER.to_owned());
            cx.client().modify(&bucket, add).await?;
        }
        let found = match credentials::of(&bucket, &cx).await? {
            Keys::Usable(keys) => {
                let access = self.store.bucket(&bucket.spec, keys.as_ref(), cx.clock());
                manage::see_to(&bucket, access, &probe_object(&bucket), &cx).await?
            }
            Keys::Missing(problem) | Keys::Unusable(problem) => Found {
                health: Health::Unhealthy(problem.clone()),
                synced: Synced::Unknown(problem),
                creation: bucket.status.as_ref().and_then(|status| status.creation),
            },
        };
        self.metrics.observe(&bucket.key(), &found.health);
        let mut turned = false;
        let record = cx.client().status(&*bucket, |status| {
            status.creation = found.creation;
            turned = status.record(&bucket, &found.health, &found.synced, now);
        });
        record.await?;
        if turned {
            let kind = match found.health.problem() {
                None => Normal,
                Some(_) => Warning,
            };
            cx.event(kind, &found.health.reason(), found.health.message());
        }
        Ok(Action::done())
    }
}

impl Keeper {
    /// Deletes the bucket if it goes with its resource, then lets that go.
    async fn let_go(&self, bucket: &StorageBucket, cx: &Context) -> Result<Action> {
        if !bears_finalizer(bucket) {
            return Ok(Action::done());
        }
        let name = &bucket.spec.bucket;
        if manage::goes_with(bucket) {
            let deleted = match credentials::of(bucket, cx).await? {
                Keys::Usable(keys) => {
                    let access = self.store.bucket(&bucket.spec, keys.as_ref(), cx.clock());
                    let told = format!("the bucket {name} is deleted");
                    access.delete().await.map(|()| (Normal, "Deleted", told))
                }
                // Without its Secret, which a deleted namespace takes along,
                // nobody could ever let the resource go.
                Keys::Missing(problem) => {
                    let told = format!("the bucket {name} stays: {}", problem.message);
                    Ok((Warning, "Orphaned", told))
                }
                Keys::Unusable(problem) => Err(problem),
            };
            match deleted {
                Ok((kind, reason, told)) => cx.event(kind, reason, told),
                Err(problem) => {
                    let synced = Synced::Failed(problem);
                    return self.wait_to_delete(bucket, synced, cx).await;
                }
            }
        }
        let take_away = |b: &mut StorageBucket| b.finalizers_mut().retain(|f| f != FINALIZER);
        match cx.client().modify(bucket, take_away).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Action::done()),
        }
    }

    async fn wait_to_delete(
        &self,
        bucket: &StorageBucket,
        synced: Synced,
        cx: &Context,
    ) -> Result<Action> {
        let mut turned = false;
        let record = cx.client().status(bucket, |status| {
            turned = status.record_synced(bucket, &synced, cx.now());
        });
        record.await?;
        if turned {
            cx.event(Warning, "DeleteFailed", synced.message());
        }
        Ok(Action::after(bucket.spec.check_every()))
    }
}

/// The object that a probe writes: one for each resource, so that two probes of
/// one bucket are not in each other's way.
fn probe_object(bucket: &StorageBucket) -> String {
    format!(".storage-bucket-probe-{}", bucket.uid())
}

fn bears_finalizer(bucket: &StorageBucket) -> bool {
    let mut finalizers = bucket.metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == FINALIZER)
}

impl StorageBucket {
    fn finalizers_mut(&mut self) -> &mut Vec<String> {
        self.metadata.finalizers.get_or_insert_default()
    }
}
