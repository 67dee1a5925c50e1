//! Creates buckets, and decides whether they are deleted with their resource.
//!
//! A create cannot be undone, and its response may be lost. So the intention to create
//! is written to the status first: a later reconcile, also after a crash, then knows
//! that an existing bucket was created for the resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sendo::conditions::{self, State};
use sendo::{Context, EventSeverity::*, Result, Timestamp};

use crate::api::{Creation, DeletionPolicy, ManagementPolicy, StorageBucket};
use crate::store::{Access, Created, Health, Problem, Reason};

/// The condition whether the store has what the spec asks for.
const SYNCED: &str = "Synced";

/// Whether the store has what the spec asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Synced {
    /// The spec asks for nothing.
    Observed,
    /// The bucket exists.
    InPlace,
    /// Nothing is done.
    Paused,
    /// It is not known.
    Unknown(Problem),
    /// The store refuses it.
    Failed(Problem),
}

impl Synced {
    /// The condition of `bucket` for this.
    pub(crate) fn condition(&self, bucket: &StorageBucket, now: Timestamp) -> Condition {
        let of = |state, reason: &str, message: &str| {
            conditions::condition(bucket, now, SYNCED, state, reason, message)
        };
        let trouble =
            |state, problem: &Problem| of(state, &problem.reason.to_string(), &problem.message);
        match self {
            Synced::Observed => of(State::True, "Observed", "the bucket is only looked at"),
            Synced::InPlace => of(State::True, "InPlace", "the bucket is there"),
            Synced::Paused => of(State::False, "Paused", "spec.paused is set"),
            Synced::Unknown(problem) => trouble(State::Unknown, problem),
            Synced::Failed(problem) => trouble(State::False, problem),
        }
    }
}

/// The state of a bucket after it was checked and created if necessary.
pub(crate) struct BucketState {
    pub(crate) health: Health,
    pub(crate) synced: Synced,
    pub(crate) creation: Option<Creation>,
}

/// Checks the bucket, and creates it if it is managed and does not exist.
pub(crate) async fn check_and_create(
    bucket: &StorageBucket,
    access: Access<'_>,
    object: &str,
    cx: &Context,
) -> Result<BucketState> {
    let health = access.check(object).await;
    let before = bucket.status.as_ref().and_then(|status| status.creation);
    let found = |synced, creation| BucketState {
        health: health.clone(),
        synced,
        creation,
    };
    if bucket.spec.management_policy == ManagementPolicy::Observe {
        return Ok(found(Synced::Observed, before));
    }
    match health.problem() {
        // A bucket that exists after a create without a response was created by it.
        None => Ok(found(Synced::InPlace, before.map(|_| Creation::Succeeded))),
        Some(problem) if problem.reason == Reason::NoSuchBucket => {
            let (synced, creation) = create(bucket, access, before, cx).await?;
            let health = match synced {
                Synced::InPlace => access.check(object).await,
                _ => health,
            };
            Ok(BucketState {
                health,
                synced,
                creation,
            })
        }
        Some(problem) => Ok(found(Synced::Unknown(problem.clone()), before)),
    }
}

async fn create(
    bucket: &StorageBucket,
    access: Access<'_>,
    before: Option<Creation>,
    cx: &Context,
) -> Result<(Synced, Option<Creation>)> {
    let intend = cx.status(bucket, |status| {
        status.creation = Some(Creation::Pending);
    });
    intend.await?;
    Ok(match access.create().await {
        Ok(created) => {
            let is_ours = created == Created::New || before == Some(Creation::Pending);
            let creation = is_ours.then_some(Creation::Succeeded);
            if created == Created::New {
                let name = &bucket.spec.bucket;
                cx.event(Normal, "Created", format!("created the bucket {name}"));
            }
            (Synced::InPlace, creation)
        }
        // The next check finds out whether it was created.
        Err(problem) if matches!(problem.reason, Reason::TimedOut | Reason::Unreachable) => {
            (Synced::Unknown(problem), Some(Creation::Pending))
        }
        Err(problem) => (Synced::Failed(problem), None),
    })
}

/// Whether the bucket is to be deleted with its resource.
pub(crate) fn is_deleted_with(bucket: &StorageBucket) -> bool {
    let status = bucket.status.as_ref();
    bucket.spec.management_policy == ManagementPolicy::Manage
        && bucket.spec.deletion_policy == DeletionPolicy::Delete
        && status.is_some_and(|status| status.creation.is_some())
}
