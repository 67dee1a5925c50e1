//! The conditions of a Job.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/job/job_controller.go`: `newCondition`, `ensureJobConditionStatus`
//! - `pkg/controller/job/util/utils.go`: `FinishedCondition`

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::Timestamp;

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const SUSPENDED: &str = "Suspended";

/// The condition with which the Job has finished, `Complete` or `Failed`, if it has.
pub(crate) fn finished_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.iter().flatten();
    let mut finished = conditions.filter(|c| matches!(c.type_.as_str(), COMPLETE | FAILED));
    finished.find(|condition| condition.status == "True")
}

/// When the Job finished, if it has.
pub(crate) fn finished_at(job: &Job) -> Option<Timestamp> {
    let condition = finished_condition(job)?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has succeeded.
    Success(Cause),
    /// It has failed.
    Failure(Cause),
}

/// Why a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) reason: String,
    pub(super) message: String,
}

impl Cause {
    pub(super) fn new(reason: &str, message: impl Into<String>) -> Self {
        Cause {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

impl Outcome {
    /// The outcome that the status of a Job records already.
    pub(super) fn recorded(conditions: &[JobCondition]) -> Option<Self> {
        let cause = |condition: &JobCondition| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            Cause::new(&text(&condition.reason), text(&condition.message))
        };
        let find = |type_: &str| {
            let mut found = conditions.iter().filter(|c| c.type_ == type_);
            found.find(|condition| condition.status == "True")
        };
        let success = find(SUCCESS_CRITERIA_MET).map(|c| Outcome::Success(cause(c)));
        success.or_else(|| find(FAILURE_TARGET).map(|c| Outcome::Failure(cause(c))))
    }

    pub(super) fn cause(&self) -> &Cause {
        match self {
            Outcome::Success(cause) | Outcome::Failure(cause) => cause,
        }
    }

    /// The type of the condition that says how the Job will end, while pods are still terminating.
    pub(super) fn interim(&self) -> &'static str {
        match self {
            Outcome::Success(_) => SUCCESS_CRITERIA_MET,
            Outcome::Failure(_) => FAILURE_TARGET,
        }
    }

    /// The type of the condition that says that the Job has ended.
    pub(super) fn terminal(&self) -> &'static str {
        match self {
            Outcome::Success(_) => COMPLETE,
            Outcome::Failure(_) => FAILED,
        }
    }
}

/// Sets a condition. One that is `False` and was never set is not added. Returns whether anything
/// changed.
pub(super) fn set(
    conditions: &mut Option<Vec<JobCondition>>,
    type_: &str,
    status: &str,
    cause: &Cause,
    now: Timestamp,
) -> bool {
    let new = JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(cause.reason.clone()),
        message: Some(cause.message.clone()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let known = conditions.iter_mut().flatten().find(|c| c.type_ == type_);
    match known {
        Some(known) => {
            let words = |c: &JobCondition| (c.status.clone(), c.reason.clone(), c.message.clone());
            let changed = words(known) != words(&new);
            if changed {
                *known = new;
            }
            changed
        }
        None if status == "False" => false,
        None => {
            conditions.get_or_insert_default().push(new);
            true
        }
    }
}
