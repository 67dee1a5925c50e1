//! From a tick to a check: which buckets are due, and what is done about one.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use sendo::handler::map;
use sendo::predicate::generation_changed;
use sendo::{
    Action, Context, Controller, EventType, Manager, ObjectExt, ObjectKey, Reconcile, Result,
    on_leader, source,
};

use crate::Options;
use crate::api::{StorageBucket, StorageBucketStatus};
use crate::store::{Credentials, Health, Problem, Reason, Store};

/// Time has passed: some buckets may be due.
struct Tick;

pub(crate) fn manager(options: Options) -> Manager {
    let (ticks, source) = source::channel(1);
    Manager::new("storage-bucket")
        .runnable(on_leader("ticker", move |cx| async move {
            let mut interval = cx.interval(options.tick_every);
            while cx.still_running(interval.tick()).await {
                ticks.send(Tick).await?;
            }
            Ok(())
        }))
        .controller(
            Controller::new::<StorageBucket>()
                // Not on what a check itself writes.
                .when(generation_changed())
                .watches(
                    source,
                    map(|_: Tick, cx| {
                        let now = cx.now();
                        let buckets = cx.list::<StorageBucket>();
                        buckets.filter(|bucket| bucket.is_due(now)).keys()
                    }),
                )
                .workers(options.checks_at_once)
                .reconcile(Checker {
                    store: Store::new(options.http, options.timeout),
                }),
        )
}

struct Checker {
    store: Store,
}

impl Reconcile<StorageBucket> for Checker {
    async fn reconcile(&self, bucket: Arc<StorageBucket>, cx: Context) -> Result<Action> {
        let now = cx.now();
        // Events come when they like, such as one for each bucket at the start.
        if !bucket.is_due(now) {
            return Ok(Action::done());
        }
        let health = match credentials(&bucket, &cx).await? {
            Ok(keys) => {
                self.store
                    .check(&bucket.spec, keys.as_ref(), cx.clock())
                    .await
            }
            Err(problem) => Health::Unhealthy(problem),
        };

        let generation = bucket.metadata.generation;
        let mut turned = false;
        let record = |status: &mut StorageBucketStatus| {
            turned = status.record(&health, generation, now);
        };
        cx.client().status(&*bucket, record).await?;
        if turned {
            let kind = match health.problem() {
                None => EventType::Normal,
                Some(_) => EventType::Warning,
            };
            cx.event(kind, &health.reason(), health.message());
        }
        Ok(Action::done())
    }
}

/// What to sign requests with: nothing, what the bucket's Secret says, or the
/// problem with that.
async fn credentials(
    bucket: &StorageBucket,
    cx: &Context,
) -> Result<Result<Option<Credentials>, Problem>> {
    let Some(reference) = &bucket.spec.credentials_secret_ref else {
        return Ok(Ok(None));
    };
    let namespace = bucket.namespace().unwrap_or_default();
    let key = ObjectKey::namespaced(namespace, &reference.name);
    // Read for each check rather than watched: a watch would keep every Secret
    // of the cluster in memory, and need the right to see them all.
    let secret = cx.client().live().get::<Secret>(&key).await?;
    let credentials = match &secret {
        Some(secret) => from_secret(secret),
        None => Err("it does not exist".to_owned()),
    };
    Ok(credentials.map(Some).map_err(|cause| {
        Reason::BadCredentials.because(format!("the Secret {key} cannot be used: {cause}"))
    }))
}

fn from_secret(secret: &Secret) -> Result<Credentials, String> {
    let value = |name: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        let value = data.and_then(|value| String::from_utf8(value.0.clone()).ok());
        value.ok_or_else(|| format!("it has no text under the key {name:?}"))
    };
    Ok(Credentials::new(
        value("accessKeyID")?,
        value("secretAccessKey")?,
    ))
}
