//! The election protocol as a state machine: it returns the next request for each response and
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::Resource;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use sendo_world::{Moment, Timestamp};

use super::ElectionOptions;

/// One candidate's view of one lease.
///
/// An attempt to take, renew or give back the lease starts with
/// [`Machine::begin`] and goes on with [`Machine::answered`] until that says
/// anything but [`Step::Send`].
#[derive(Debug)]
pub(super) struct Machine {
    name: String,
    labels: BTreeMap<String, String>,
    identity: String,
    lease_duration: Duration,
    renew_deadline: Duration,
    role: Role,
    observed: Option<Observed>,
    /// Whether the response to an acquisition is missing: this candidate may hold the lease without
    /// knowing it.
    uncertain: bool,
    /// Why the last attempt failed.
    error: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Candidate,
    /// Holds the lease: the start of the last request that was seen to succeed.
    Leader {
        renewed: Moment,
    },
    Releasing,
}

#[derive(Debug)]
struct Observed {
    lease: Lease,
    /// When this state of the record was first seen.
    since: Moment,
}

/// The time on both clocks: the monotonic one for decisions, the wall clock for the Lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) moment: Moment,
    pub(super) wall: Timestamp,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Get,
    Create(Box<Lease>),
    /// With the resourceVersion of the state it is based on.
    Update(Box<Lease>),
}

/// The response of the API server.
#[derive(Clone, Debug)]
pub(super) enum Response {
    Lease(Box<Lease>),
    /// The lease does not exist.
    Missing,
    /// Another candidate has changed the lease first.
    Conflict,
    /// No response, or an error. It is not known whether a write took effect.
    Failed(String),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Send(Request),
    /// Wait for the next attempt.
    Rest,
    /// Leadership has ended, for this reason.
    Lost(String),
    /// The lease is free, or held by another candidate.
    Released,
}

impl Machine {
    pub(super) fn new(options: &ElectionOptions, identity: &str) -> Self {
        Machine {
            name: options.name.clone(),
            labels: options.labels.clone(),
            identity: identity.to_owned(),
            lease_duration: options.lease_duration,
            renew_deadline: options.renew_deadline,
            role: Role::Candidate,
            observed: None,
            uncertain: false,
            error: String::new(),
        }
    }

    /// Up to when this candidate leads, if it does.
    pub(super) fn leads_until(&self) -> Option<Moment> {
        match self.role {
            Role::Leader { renewed } => Some(renewed + self.renew_deadline),
            _ => None,
        }
    }

    /// The Lease, as the object of an Event.
    pub(super) fn lease(&self) -> Option<ObjectReference> {
        let meta = &self.observed.as_ref()?.lease.metadata;
        Some(ObjectReference {
            api_version: Some(Lease::API_VERSION.to_owned()),
            kind: Some(Lease::KIND.to_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        })
    }

    /// Who holds the lease, as far as is known.
    pub(super) fn holder(&self) -> Option<&str> {
        let spec = self.observed.as_ref()?.lease.spec.as_ref()?;
        spec.holder_identity.as_deref().filter(|id| !id.is_empty())
    }

    /// Starts an attempt.
    pub(super) fn begin(&mut self, now: Now) -> Step {
        if let Some(lost) = self.overdue(now) {
            return lost;
        }
        match (self.role, &self.observed) {
            // Nobody else changes the lease of a leader: one request is enough.
            (Role::Leader { .. }, Some(observed)) => Step::Send(self.renewal(observed, now)),
            _ => Step::Send(Request::Get),
        }
    }

    /// Starts to give the lease back. Nothing may be done as the leader any more.
    pub(super) fn release(&mut self) -> Step {
        if self.role == Role::Candidate && !self.uncertain {
            return Step::Released;
        }
        self.role = Role::Releasing;
        Step::Send(Request::Get)
    }

    /// Goes on after `request`, which was sent at `sent`, was answered.
    pub(super) fn answered(
        &mut self,
        request: &Request,
        sent: Moment,
        response: Response,
        now: Now,
    ) -> Step {
        match (request, response) {
            (Request::Get, Response::Lease(lease)) => {
                self.observe(*lease, now);
                self.decide(now)
            }
            (_, Response::Lease(lease)) => {
                self.observe(*lease, now);
                self.uncertain = false;
                if self.role == Role::Releasing {
                    return Step::Released;
                }
                self.role = Role::Leader { renewed: sent };
                Step::Rest
            }
            (_, Response::Missing) => {
                self.observed = None;
                match self.role {
                    Role::Releasing => Step::Released,
                    _ => self.overdue(now).unwrap_or_else(|| self.creation(now)),
                }
            }
            (_, Response::Conflict) => match self.role {
                Role::Candidate => Step::Rest,
                // It may have been this one's own write, whose answer was lost.
                _ => self.overdue(now).unwrap_or(Step::Send(Request::Get)),
            },
            (_, Response::Failed(error)) => {
                self.error = error;
                self.uncertain |= *request != Request::Get;
                self.overdue(now).unwrap_or(Step::Rest)
            }
        }
    }

    /// With the record as it is now.
    fn decide(&mut self, now: Now) -> Step {
        if let Some(lost) = self.overdue(now) {
            return lost;
        }
        let Some(observed) = &self.observed else {
            return Step::Rest;
        };
        let ours = self.holder() == Some(self.identity.as_str());
        match self.role {
            Role::Releasing if ours => Step::Send(self.surrender(observed, now)),
            Role::Releasing => Step::Released,
            Role::Leader { .. } | Role::Candidate if ours => {
                Step::Send(self.renewal(observed, now))
            }
            Role::Leader { .. } => {
                let holder = self.holder().unwrap_or("nobody");
                Step::Lost(format!("{holder} holds the lease now"))
            }
            Role::Candidate if self.is_free(observed, now) => {
                Step::Send(self.takeover(observed, now))
            }
            Role::Candidate => Step::Rest,
        }
    }

    fn overdue(&self, now: Now) -> Option<Step> {
        let until = self.leads_until().filter(|until| *until <= now.moment)?;
        let last = now.moment.since(until) + self.renew_deadline;
        let error = match self.error.as_str() {
            "" => "the process stood still",
            error => error,
        };
        Some(Step::Lost(format!(
            "the lease was last renewed {:.1} s ago: {error}",
            last.as_secs_f64()
        )))
    }

    /// A record is new when what the holder writes into it is: labels and the
    /// like, changed by others, are no sign of life.
    fn observe(&mut self, lease: Lease, now: Now) {
        let known = self.observed.as_ref();
        let same = known.filter(|known| known.lease.spec == lease.spec);
        let since = same.map_or(now.moment, |known| known.since);
        self.observed = Some(Observed { lease, since });
    }

    fn is_free(&self, observed: &Observed, now: Now) -> bool {
        if self.holder().is_none() {
            return true;
        }
        let spec = observed.lease.spec.as_ref();
        let specified = spec.and_then(|spec| spec.lease_duration_seconds);
        let specified = specified.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = specified.filter(|seconds| *seconds > 0);
        let duration = duration.map_or(self.lease_duration, Duration::from_secs);
        now.moment.since(observed.since) > duration
    }

    fn creation(&self, now: Now) -> Step {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.name.clone());
        let spec = LeaseSpec {
            acquire_time: Some(MicroTime(now.wall)),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        Step::Send(Request::Create(self.signed(lease, spec, now)))
    }

    fn renewal(&self, observed: &Observed, now: Now) -> Request {
        let spec = observed.lease.spec.clone().unwrap_or_default();
        Request::Update(self.signed(observed.lease.clone(), spec, now))
    }

    fn takeover(&self, observed: &Observed, now: Now) -> Request {
        let mut spec = observed.lease.spec.clone().unwrap_or_default();
        spec.acquire_time = Some(MicroTime(now.wall));
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
        Request::Update(self.signed(observed.lease.clone(), spec, now))
    }

    /// The lease, held by this candidate from now on.
    fn signed(&self, mut lease: Lease, mut spec: LeaseSpec, now: Now) -> Box<Lease> {
        spec.holder_identity = Some(self.identity.clone());
        let seconds = i32::try_from(self.lease_duration.as_secs());
        spec.lease_duration_seconds = Some(seconds.unwrap_or(i32::MAX));
        spec.renew_time = Some(MicroTime(now.wall));
        lease.spec = Some(spec);
        if !self.labels.is_empty() {
            let labels = lease.metadata.labels.get_or_insert_default();
            labels.extend(self.labels.clone());
        }
        Box::new(lease)
    }

    /// The lease, held by nobody, in the words that client-go uses for it.
    fn surrender(&self, observed: &Observed, now: Now) -> Request {
        let mut lease = observed.lease.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(MicroTime(now.wall));
        spec.renew_time = Some(MicroTime(now.wall));
        Request::Update(Box::new(lease))
    }
}

#[cfg(test)]
mod tests;
