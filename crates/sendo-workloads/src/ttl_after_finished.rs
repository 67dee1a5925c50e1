//! Deletes Jobs, with their pods, a time after they have finished.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`: `processJob`, `processTTL`
//! - `pkg/controller/ttlafterfinished/metrics/metrics.go`

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use sendo::client::Propagation;
use sendo::metrics::{Histogram, exponential_buckets};
use sendo::{Action, Context, Controller, ObjectExt, Reconcile, Result, Timestamp};

use crate::job::finished_at;

/// The controller that deletes finished Jobs.
pub fn controller() -> Controller {
    let reconciler = TtlReconciler {
        delay: Histogram::new(exponential_buckets(0.1, 2.0, 14)),
    };
    Controller::new::<Job>()
        .named("ttl-after-finished-controller")
        .workers(5)
        .metric(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "The time it took to delete the job since it became eligible for deletion",
            reconciler.delay.clone(),
        )
        .reconcile(reconciler)
}

/// When the Job is to be deleted, if it has finished and its spec says so.
fn expires_at(job: &Job) -> Option<Timestamp> {
    let ttl = job.spec.as_ref()?.ttl_seconds_after_finished?;
    Some(finished_at(job)? + Duration::from_secs(ttl.try_into().unwrap_or_default()))
}

struct TtlReconciler {
    /// How late Jobs are deleted.
    delay: Histogram,
}

impl Reconcile<Job> for TtlReconciler {
    async fn reconcile(&self, job: Arc<Job>, cx: Context) -> Result<Action> {
        let Some(expires) = expires_at(&job).filter(|_| !job.is_being_deleted()) else {
            return Ok(Action::done());
        };
        if let Some(left) = left(expires, cx.now()) {
            return Ok(Action::after(left));
        }
        // The time to live may have been changed a moment ago.
        let fresh = cx.live().get::<Job>(job.key()).await?;
        let expires = fresh.as_ref().and_then(expires_at);
        let Some((fresh, expires)) = fresh.zip(expires) else {
            return Ok(Action::done());
        };
        if let Some(left) = left(expires, cx.now()) {
            return Ok(Action::after(left));
        }
        match cx.delete(&fresh).propagation(Propagation::Foreground).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        let late = cx.now().duration_since(expires).as_secs_f64();
        self.delay.observe(late);
        Ok(Action::done())
    }
}

/// The time that is left, if any is.
fn left(expires: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(expires.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}
