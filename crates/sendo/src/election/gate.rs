//! The gate that a leader's writes pass.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sendo_world::{Clock, Moment};

use crate::client::WriteGate;

/// Says whether this process may act as the leader now. Clones are the same gate.
///
/// It closes by itself, at the moment up to which the lease is sure, whether or
/// not the election still runs: a process that stood still finds it closed.
#[derive(Clone)]
pub struct Gate(Kind);

#[derive(Clone)]
enum Kind {
    Open,
    Elected(Arc<Elected>),
}

struct Elected {
    lease: String,
    clock: Clock,
    /// Up to when this process leads; `None` if it does not.
    until: Mutex<Option<Moment>>,
    /// Up to when a write that was left without an answer may still take effect.
    unanswered: Mutex<Moment>,
}

/// For how long this process may go on as the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining(Option<Duration>);

impl Remaining {
    /// `timeout`, or what remains if that is less.
    pub fn clip(self, timeout: Duration) -> Duration {
        self.0.map_or(timeout, |left| left.min(timeout))
    }

    /// The time, `None` if there is no end to it.
    pub fn time(self) -> Option<Duration> {
        self.0
    }
}

/// This process is not the leader, so it may not do what only the leader does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold the lease {lease}, and only the leader may do this")]
pub struct NotLeader {
    /// The lease, as `namespace/name`.
    pub lease: String,
}

impl Gate {
    /// A gate that is always open: for programs without election.
    pub fn open() -> Self {
        Gate(Kind::Open)
    }

    pub(super) fn closed(lease: String, clock: Clock) -> Self {
        Gate(Kind::Elected(Arc::new(Elected {
            lease,
            clock,
            until: Mutex::new(None),
            unanswered: Mutex::new(Moment::START),
        })))
    }

    /// For how long this process may go on as the leader, if it is.
    pub fn check(&self) -> Result<Remaining, NotLeader> {
        let Kind::Elected(elected) = &self.0 else {
            return Ok(Remaining(None));
        };
        let until = *elected.until.lock();
        let left = until.map(|until| until - elected.clock.now());
        match left.filter(|left| !left.is_zero()) {
            Some(left) => Ok(Remaining(Some(left))),
            None => Err(NotLeader {
                lease: elected.lease.clone(),
            }),
        }
    }

    /// When the last write that was left without an answer cannot take effect any more.
    pub(super) fn settled_at(&self) -> Moment {
        let Kind::Elected(elected) = &self.0 else {
            return Moment::START;
        };
        *elected.unanswered.lock()
    }

    /// Opens the gate until the given moment, or closes it.
    pub(super) fn set(&self, until: Option<Moment>) {
        if let Kind::Elected(elected) = &self.0 {
            *elected.until.lock() = until;
        }
    }
}

impl WriteGate for Gate {
    fn open_for(&self) -> Option<Duration> {
        let remaining = self.check().ok()?;
        Some(remaining.clip(Duration::MAX))
    }

    fn left_unanswered(&self, within: Duration) {
        if let Kind::Elected(elected) = &self.0 {
            let mut unanswered = elected.unanswered.lock();
            *unanswered = (*unanswered).max(elected.clock.now() + within);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.check()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sendo_world::World;

    #[tokio::test(start_paused = true)]
    async fn it_closes_by_itself() {
        let clock = World::seeded(1).clock().clone();
        let gate = Gate::closed("a/b".into(), clock.clone());
        assert_eq!(
            gate.check(),
            Err(NotLeader {
                lease: "a/b".into()
            })
        );
        let ten = Duration::from_secs(10);
        gate.set(Some(clock.now() + ten));
        assert_eq!(gate.check().unwrap().time(), Some(ten));
        clock.sleep(ten - Duration::from_millis(1)).await;
        let left = gate.check().unwrap();
        assert_eq!(left.clip(ten), Duration::from_millis(1));
        clock.sleep(Duration::from_millis(1)).await;
        assert!(gate.check().is_err());
    }

    #[test]
    fn without_election_everything_may_be_done_for_ever() {
        let remaining = Gate::open().check().unwrap();
        assert_eq!(remaining.time(), None);
        assert_eq!(remaining.clip(Duration::MAX), Duration::MAX);
    }
}
