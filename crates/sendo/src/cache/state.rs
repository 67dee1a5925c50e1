//! How the watches are doing, for readiness, logs and errors.

use std::fmt;
use std::time::Duration;

use sendo_world::{Moment, Timestamp};

use super::selection::Selection;
use crate::error::with_causes;
use crate::object::{Kind, ObjectKey};
use crate::transport;

/// How the watch of a kind is doing.
///
/// Written out, it is a sentence that says what is wrong and since when.
#[derive(Clone, Debug)]
pub struct WatchState {
    /// The kind.
    pub kind: Kind,
    /// The part of it that is watched.
    pub selection: Selection,
    /// Whether the kind was discovered on the API server rather than declared by the program, as for
    /// [`source::every_kind`](crate::source::every_kind).
    pub discovered: bool,
    /// Whether all that was there has been listed once. Stays true.
    pub synced: bool,
    /// How many objects the cache shows.
    pub objects: usize,
    /// What fails now, if anything does; one for each namespace watched on its own.
    pub failures: Vec<WatchFailure>,
    /// The objects that could not be decoded and are left out.
    pub unreadable: Vec<Unreadable>,
    /// How often everything was listed, the first time included.
    pub lists: u64,
    /// How many changes the watch has shown.
    pub changes: u64,
    /// How often a watch was opened: once, and once more each time one ended. For metadata that
    /// come with another watch, counted from the first use of them.
    pub watches: u64,
    /// When the last object, bookmark or list arrived from the API server.
    pub heard: Option<Timestamp>,
}

impl WatchState {
    /// Whether the initial list has been delivered and nothing fails now.
    pub fn is_healthy(&self) -> bool {
        self.synced && self.failures.is_empty()
    }

    /// Whether nobody waits any more for what was there to be listed: the program
    /// does not name the kind, and it could not be listed for half a minute, as
    /// long as kube-controller-manager waits for all kinds
    /// (garbagecollector.go: `initialSyncTimeout`).
    pub(crate) fn is_given_up(&self, now: Moment) -> bool {
        let mut failures = self.failures.iter();
        self.discovered
            && !self.synced
            && failures.any(|failure| now.since(failure.began) >= Duration::from_secs(30))
    }
}

impl fmt::Display for WatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.failures.is_empty() {
            let failures: Vec<_> = self.failures.iter().map(ToString::to_string).collect();
            return f.write_str(&failures.join("; "));
        }
        match self.synced {
            true => write!(f, "{}: watching {} objects", self.kind, self.objects),
            false => write!(f, "{}: waiting for the first list", self.kind),
        }
    }
}

/// A list or watch that does not succeed, and goes on being tried.
#[derive(Clone, Debug)]
pub struct WatchFailure {
    /// The kind.
    pub kind: Kind,
    /// The namespace, if it is watched on its own.
    pub namespace: Option<String>,
    /// The verb of the request, which a role must allow.
    pub verb: Verb,
    /// Why it failed last.
    pub cause: WatchError,
    /// Since when nothing has succeeded.
    pub since: Timestamp,
    /// How often it was tried since then.
    pub attempts: u32,
    /// Since when nothing has succeeded, whatever is done to the machine's time.
    pub(crate) began: Moment,
}

impl fmt::Display for WatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.verb, self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace}")?;
        }
        write!(f, ": {} (since {}", self.cause, self.since)?;
        match self.attempts {
            0 | 1 => f.write_str(")"),
            attempts => write!(f, ", {attempts} attempts)"),
        }
    }
}

/// The verb of an informer's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// All objects at once.
    List,
    /// The changes as they happen.
    Watch,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::List => "list",
            Verb::Watch => "watch",
        })
    }
}

/// Why a list or a watch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The API server has no such resource.
    #[error(
        "the API server does not serve this resource: is its CustomResourceDefinition installed? `--install-kinds` installs those that the program defines"
    )]
    NotServed,
    /// The API server refuses; its words say who may not do what.
    #[error("{0}")]
    Forbidden(String),
    /// The API server no longer knows the version to go on from; everything is listed again.
    #[error("the version to go on from is too old: {0}")]
    Expired(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<transport::Error> for WatchError {
    fn from(error: transport::Error) -> Self {
        let message = with_causes(&error);
        match error.code() {
            403 => WatchError::Forbidden(message),
            404 => WatchError::NotServed,
            410 => WatchError::Expired(message),
            _ => WatchError::Other(message),
        }
    }
}

/// An object that could not be decoded. Its content is not shown: it may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its key.
    pub key: ObjectKey,
    /// What is wrong with it.
    pub cause: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.cause)
    }
}
