//! Creates a Job whenever the schedule of a CronJob says so.
//!
//! `schedule` computes times, `times` which run is due, `history` deletes finished Jobs.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/cronjob/cronjob_controllerv2.go`: `syncCronJob`, `getJobName`, `deleteJob`,
//!   `formatSchedule`
//! - `pkg/controller/cronjob/utils.go`: `getJobFromTemplate2`, `inActiveList`
//! - `pkg/controller/cronjob/metrics/metrics.go`

mod history;
mod schedule;
mod times;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use sendo::client::{Propagation, controller_reference};
use sendo::metrics::{Histogram, exponential_buckets};
use sendo::{
    Action, Context, Controller, EventSeverity::*, Index, ObjectExt, Reconcile, Result, Timestamp,
    Uid,
};

use self::schedule::Schedule;
use self::times::Since;
use crate::job::finished_condition;

/// The annotation of a Job with the time for which it was scheduled.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Jobs by the object that controls them.
static BY_CONTROLLER: Index<Job, Uid> = Index::new("jobs-by-controller", |job| job.controller());

/// The controller of CronJobs.
pub fn controller() -> Controller {
    let reconciler = CronJobReconciler {
        skew: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
    };
    Controller::new::<CronJob>()
        .named("cronjob-controller")
        .owns::<Job>()
        .index(&BY_CONTROLLER)
        .workers(5)
        .metric(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
            reconciler.skew.clone(),
        )
        .reconcile(reconciler)
}

struct CronJobReconciler {
    /// How late Jobs are created.
    skew: Histogram,
}

impl Reconcile<CronJob> for CronJobReconciler {
    async fn reconcile(&self, cron_job: Arc<CronJob>, cx: Context) -> Result<Action> {
        // It is optional in older releases.
        let Some(spec) = Option::<CronJobSpec>::from(cron_job.spec.clone()) else {
            return Ok(Action::done());
        };
        let jobs = cx.list::<Job>().by(&BY_CONTROLLER, cron_job.uid());
        let mut sync = Sync {
            spec,
            status: cron_job.status.clone().unwrap_or_default(),
            jobs: jobs.iter().collect(),
            cron_job: &cron_job,
            cx: &cx,
            skew: &self.skew,
        };
        // What was done is reported in the status before a failure is tried again.
        let next = sync.run().await;
        sync.delete_old_jobs().await;
        sync.write_status().await?;
        Ok(match next? {
            Some(delay) => Action::after(delay),
            None => Action::done(),
        })
    }
}

/// One sync of a CronJob.
struct Sync<'a> {
    cron_job: &'a CronJob,
    spec: CronJobSpec,
    /// The status to write.
    status: CronJobStatus,
    jobs: Vec<Arc<Job>>,
    cx: &'a Context,
    skew: &'a Histogram,
}

impl Sync<'_> {
    /// Follows the Jobs, and creates one if its time has come. Returns when to look again.
    async fn run(&mut self) -> Result<Option<Duration>> {
        self.follow_jobs();
        self.forget_missing_jobs().await?;
        if self.cron_job.is_being_deleted() || self.spec.suspend == Some(true) {
            return Ok(None);
        }
        let Some(schedule) = self.schedule() else {
            return Ok(None);
        };
        let now = self.cx.now();
        let since = Since {
            last: self.last_run(),
            deadline: self
                .spec
                .starting_deadline_seconds
                .map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or_default())),
        };
        if let Some(due) = times::due(&schedule, since, now) {
            if due.missed_many {
                let message = "too many missed start times. Set or decrease \
                               .spec.startingDeadlineSeconds or check clock skew";
                self.cx.event(Warning, "TooManyMissedTimes", message);
            }
            self.start(due.at, since, now).await?;
        }
        let since = Since {
            last: self.last_run(),
            ..since
        };
        Ok(times::next_in(&schedule, since, now))
    }

    fn last_run(&self) -> Timestamp {
        let created = self.cron_job.metadata.creation_timestamp.as_ref();
        let last = self.status.last_schedule_time.as_ref().or(created);
        last.map_or(self.cx.now(), |time| time.0)
    }

    /// The schedule; events say why there is none.
    fn schedule(&self) -> Option<Schedule> {
        let (cx, text) = (self.cx, &self.spec.schedule);
        let name = self.spec.time_zone.as_deref().unwrap_or_default();
        let zone = match schedule::zone(name) {
            Ok(zone) => zone,
            Err(error) => {
                let message = format!("invalid timeZone: {name:?}: {error}");
                cx.event(Warning, "UnknownTimeZone", message);
                return None;
            }
        };
        if text.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            cx.event(Warning, "UnsupportedSchedule", message);
        }
        match Schedule::parse(text, zone) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let message = format!("unparseable schedule: {text:?} : {error}");
                cx.event(Warning, "UnparseableSchedule", message);
                None
            }
        }
    }

    /// Reports Jobs that have finished, and those that nobody expected.
    fn follow_jobs(&mut self) {
        for job in self.jobs.clone() {
            let is_active = self
                .active()
                .any(|known| known.uid.as_deref() == Some(job.uid().as_str()));
            let Some(finished) = finished_condition(&job) else {
                if !is_active {
                    let message = format!(
                        "Saw a job that the controller did not create or forgot: {}",
                        job.name()
                    );
                    self.cx.event(Warning, "UnexpectedJob", message);
                }
                continue;
            };
            if is_active {
                self.forget(&job);
                let (name, condition) = (job.name(), &finished.type_);
                let message = format!("Saw completed job: {name}, condition: {condition}");
                self.cx.event(Normal, "SawCompletedJob", message);
            }
            let completed = job.status.as_ref().and_then(|s| s.completion_time.as_ref());
            let last = self.status.last_successful_time.as_ref().map(|time| time.0);
            if finished.type_ == "Complete" && completed.map(|time| time.0) > last {
                self.status.last_successful_time = completed.cloned();
            }
        }
    }

    /// Removes active Jobs from the status that do not exist.
    async fn forget_missing_jobs(&mut self) -> Result<()> {
        let known: Vec<Uid> = self.jobs.iter().map(|job| job.uid()).collect();
        let active: Vec<ObjectReference> = self.active().cloned().collect();
        for job in active {
            let uid = Uid::from(job.uid.as_deref().unwrap_or_default());
            if known.contains(&uid) {
                continue;
            }
            let name = job.name.as_deref().unwrap_or_default();
            let key = self.cron_job.key_beside(name);
            if self.cx.live().get::<Job>(key).await?.is_none() {
                let message = format!("Active job went missing: {name}");
                self.cx.event(Normal, "MissingJob", message);
                let active = self.status.active.iter_mut();
                active.for_each(|active| active.retain(|known| known.uid != job.uid));
            }
        }
        Ok(())
    }

    /// Creates the Job of a run, unless it is too late or an earlier run prevents it.
    async fn start(&mut self, at: Timestamp, since: Since, now: Timestamp) -> Result<()> {
        if since.deadline.is_some_and(|deadline| at + deadline < now) {
            let when = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {when}");
            self.cx.event(Warning, "MissSchedule", message);
            return Ok(());
        }
        let name = format!("{}-{}", self.cron_job.name(), at.as_second() / 60);
        let is_active = self.active().any(|job| job.name.as_ref() == Some(&name));
        let last = self.status.last_schedule_time.as_ref().map(|time| time.0);
        if is_active || last == Some(at) {
            return Ok(());
        }
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if self.active().next().is_some() => {
                let message = "Not starting job because prior execution is running and \
                               concurrency policy is Forbid";
                self.cx.event(Normal, "JobAlreadyActive", message);
                return Ok(());
            }
            Some("Replace") => self.delete_active_jobs().await?,
            _ => {}
        }
        self.create(name, at).await
    }

    async fn delete_active_jobs(&mut self) -> Result<()> {
        let active: Vec<ObjectReference> = self.active().cloned().collect();
        for reference in active {
            let key = self
                .cron_job
                .key_beside(reference.name.as_deref().unwrap_or_default());
            match self.cx.live().get::<Job>(key).await? {
                Some(job) => self.delete(&job).await?,
                None => {
                    let message = format!("Get job: {:?} not found", reference.name);
                    self.cx.event(Warning, "FailedGet", message);
                }
            }
        }
        Ok(())
    }

    /// Deletes a Job with its pods.
    async fn delete(&mut self, job: &Job) -> Result<()> {
        let delete = self.cx.delete(job).propagation(Propagation::Background);
        match delete.await {
            Err(error) if !error.is_not_found() => {
                let message = format!("Deleted job: {error}");
                self.cx.event(Warning, "FailedDelete", message);
                return Err(error.into());
            }
            _ => {}
        }
        self.forget(job);
        let message = format!("Deleted job {}", job.name());
        self.cx.event(Normal, "SuccessfulDelete", message);
        Ok(())
    }

    async fn create(&mut self, name: String, at: Timestamp) -> Result<()> {
        let job = self.job(name, at);
        let created = match self.cx.create(&job).await {
            Ok(created) => {
                let made = created.metadata.creation_timestamp.as_ref();
                let late = made.map_or(0, |time| time.0.as_second() - at.as_second());
                self.skew
                    .observe(f64::from(i32::try_from(late).unwrap_or(i32::MAX)));
                let message = format!("Created job {}", created.name());
                self.cx.event(Normal, "SuccessfulCreate", message);
                created
            }
            // An earlier sync created it, but could not report it.
            Err(error) if error.is_already_exists() => {
                let existing = self.cx.live().get::<Job>(job.key()).await?;
                let own = existing.filter(|job| job.is_controlled_by(self.cron_job));
                let Some(existing) = own else {
                    return Ok(());
                };
                existing
            }
            Err(error) if error.is_namespace_gone() => return Ok(()),
            Err(error) => {
                let message = format!("Error creating job: {error}");
                self.cx.event(Warning, "FailedCreate", message);
                return Err(error.into());
            }
        };
        let active = self.status.active.get_or_insert_default();
        active.push(created.object_ref(&()));
        self.status.last_schedule_time = Some(Time(at));
        Ok(())
    }

    fn job(&self, name: String, at: Timestamp) -> Job {
        let template = self.spec.job_template.clone();
        let wanted = template.metadata.unwrap_or_default();
        let mut annotations = wanted.annotations.unwrap_or_default();
        let zone = self
            .spec
            .time_zone
            .as_deref()
            .and_then(|name| schedule::zone(name).ok());
        let scheduled = match zone {
            Some(zone) if zone != jiff::tz::TimeZone::UTC => at
                .to_zoned(zone)
                .strftime("%Y-%m-%dT%H:%M:%S%:z")
                .to_string(),
            _ => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        };
        annotations.insert(SCHEDULED_AT.to_owned(), scheduled);
        Job {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.cron_job.metadata.namespace.clone(),
                labels: wanted.labels,
                annotations: Some(annotations),
                owner_references: Some(vec![controller_reference(self.cron_job)]),
                ..ObjectMeta::default()
            },
            spec: template.spec,
            status: None,
        }
    }

    fn active(&self) -> impl Iterator<Item = &ObjectReference> {
        self.status.active.iter().flatten()
    }

    /// Removes a Job from the active ones.
    fn forget(&mut self, job: &Job) {
        let active = self.status.active.iter_mut();
        active.for_each(|active| active.retain(|known| known.uid != job.metadata.uid));
    }

    /// Writes the status if it changed.
    async fn write_status(&mut self) -> Result<()> {
        self.status.active.take_if(|active| active.is_empty());
        if self.cron_job.status.clone().unwrap_or_default() == self.status {
            return Ok(());
        }
        let mut changed = self.cron_job.clone();
        changed.status = Some(self.status.clone());
        self.cx.client().replace_status(&changed).await?;
        Ok(())
    }
}
