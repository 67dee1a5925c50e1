//! The health of a bucket, and the problems that a check may find.

use std::fmt;
use std::time::Duration;

use crate::api::Probe;

/// A message goes into the resource's status, whatever a store writes.
pub(crate) const LONGEST_MESSAGE: usize = 300;

/// The health of a bucket according to a check.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// The probe succeeded.
    Healthy {
        /// From the beginning of the check to the store's last answer.
        latency: Duration,
        /// What was tried.
        probe: Probe,
    },
    /// Something is wrong.
    Unhealthy(Problem),
}

impl Health {
    /// What is wrong, if something is.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Health::Healthy { .. } => None,
            Health::Unhealthy(problem) => Some(problem),
        }
    }

    /// What was found, in a word: `Healthy`, or the reason of the problem.
    pub fn reason(&self) -> String {
        match self.problem() {
            None => "Healthy".to_owned(),
            Some(problem) => problem.reason.to_string(),
        }
    }

    /// What was found, in a sentence.
    pub fn message(&self) -> &str {
        match self {
            Health::Unhealthy(problem) => &problem.message,
            Health::Healthy { probe, .. } => match probe {
                Probe::Reachable => "the store answers",
                Probe::List => "the bucket is there and can be listed",
                Probe::ReadWrite => "an object was written, read and deleted",
            },
        }
    }
}

/// What is wrong with a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// For programs.
    pub reason: Reason,
    /// For people, in a sentence.
    pub message: String,
}

impl Problem {
    /// Whether other credentials might help.
    pub fn is_about_credentials(&self) -> bool {
        matches!(self.reason, Reason::AccessDenied | Reason::BadCredentials)
    }
}

/// What kind of [`Problem`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No connection to the store could be made, or it broke.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The store has no bucket of that name.
    NoSuchBucket,
    /// The store does not let these credentials, or nobody without any, do what was tried.
    AccessDenied,
    /// The answer is not one that an S3 store gives, or tells of a failure of its own.
    BadAnswer,
    /// The credentials that the resource names cannot be used.
    BadCredentials,
    /// The endpoint of the resource is no URL.
    BadEndpoint,
    /// The endpoint leads to an address that must not be connected to.
    EndpointRefused,
    /// The name of the bucket belongs to somebody else in this store.
    NameTaken,
    /// The bucket is to be deleted and has something in it.
    NotEmpty,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Reason {
    /// A problem of this kind.
    pub(crate) fn because(self, message: impl Into<String>) -> Problem {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Problem {
            reason: self,
            message,
        }
    }
}
