//! How a container is stopped: its hook, the request to terminate, and the end by force.
//!
//! A pure state machine. A container has until its deadline for its hook and its end together, and
//! two seconds at least for its end.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kuberuntime/kuberuntime_container.go`: `killContainer`
//! - `pkg/kubelet/kuberuntime/kuberuntime_termination_order.go`: `terminationOrdering`

use std::time::Duration;

use sendo::Timestamp;

use crate::runtime::Signal;

/// What a container gets in any case between the request to terminate and its end by force.
const SHORTEST: Duration = Duration::from_secs(2);

/// How far a hook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// It is being carried out.
    Running,
    /// It sleeps until then.
    SleepsUntil(Timestamp),
    /// It has ended, or there is none.
    Done,
}

impl Hook {
    /// Until when it has something to do; `Ok` if it has not.
    pub(crate) fn pending(self, now: Timestamp) -> Result<(), Option<Timestamp>> {
        match self {
            Hook::Running => Err(None),
            Hook::SleepsUntil(end) if end > now => Err(Some(end)),
            Hook::SleepsUntil(_) | Hook::Done => Ok(()),
        }
    }
}

/// A container that is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopping {
    deadline: Timestamp,
    pub(crate) hook: Hook,
    /// When it is ended by force, once it was asked to terminate.
    kill_at: Option<Timestamp>,
    is_killed: bool,
}

/// What happens next to a container that is being stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) signal: Option<Signal>,
    /// When to look again.
    pub(crate) next: Option<Timestamp>,
}

impl Stopping {
    /// A container that has `grace` from `now` on.
    pub(crate) fn new(now: Timestamp, grace: Duration, hook: Hook) -> Self {
        Stopping {
            deadline: now + grace,
            hook: if grace.is_zero() { Hook::Done } else { hook },
            kill_at: None,
            is_killed: false,
        }
    }

    /// Takes an earlier deadline, as from a second request to delete the pod.
    pub(crate) fn shorten(&mut self, deadline: Timestamp, now: Timestamp) {
        if deadline >= self.deadline {
            return;
        }
        self.deadline = deadline;
        self.kill_at = self.kill_at.map(|at| at.min(deadline.max(now + SHORTEST)));
    }

    /// What to do at `now`. A container that waits for others to end gets its turn later, or at
    /// its deadline.
    pub(crate) fn step(&mut self, is_its_turn: bool, now: Timestamp) -> Step {
        if let Some(kill_at) = self.kill_at {
            if self.is_killed {
                return Step::default();
            }
            if now < kill_at {
                return Step::at(kill_at);
            }
            self.is_killed = true;
            return Step {
                signal: Some(Signal::Kill),
                next: None,
            };
        }
        if now < self.deadline {
            match self.hook.pending(now) {
                Err(end) => {
                    return Step::at(end.map_or(self.deadline, |end| end.min(self.deadline)));
                }
                Ok(()) if !is_its_turn => return Step::at(self.deadline),
                Ok(()) => {}
            }
        }
        let kill_at = self.deadline.max(now + SHORTEST);
        self.kill_at = Some(kill_at);
        Step {
            signal: Some(Signal::Terminate),
            next: Some(kill_at),
        }
    }
}

impl Step {
    fn at(next: Timestamp) -> Self {
        Step {
            signal: None,
            next: Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn stopping(grace: u64, hook: Hook) -> Stopping {
        Stopping::new(at(0), Duration::from_secs(grace), hook)
    }

    fn signal(signal: Signal, next: Option<u64>) -> Step {
        Step {
            signal: Some(signal),
            next: next.map(at),
        }
    }

    #[test]
    fn a_container_is_asked_and_then_ended_by_force() {
        let mut container = stopping(30, Hook::Done);
        assert_eq!(
            container.step(true, at(0)),
            signal(Signal::Terminate, Some(30))
        );
        assert_eq!(container.step(true, at(29)), Step::at(at(30)));
        assert_eq!(container.step(true, at(30)), signal(Signal::Kill, None));
        assert_eq!(container.step(true, at(31)), Step::default());
    }

    #[test]
    fn the_hook_takes_part_of_the_time() {
        let mut container = stopping(30, Hook::SleepsUntil(at(10)));
        assert_eq!(container.step(true, at(0)), Step::at(at(10)));
        assert_eq!(
            container.step(true, at(10)),
            signal(Signal::Terminate, Some(30))
        );
        let mut long = stopping(30, Hook::Running);
        assert_eq!(long.step(true, at(0)), Step::at(at(30)));
        assert_eq!(long.step(true, at(30)), signal(Signal::Terminate, Some(32)));
        let mut none = stopping(0, Hook::Running);
        assert_eq!(none.step(true, at(0)), signal(Signal::Terminate, Some(2)));
    }

    #[test]
    fn a_container_waits_for_its_turn_until_its_deadline() {
        let mut container = stopping(30, Hook::Done);
        assert_eq!(container.step(false, at(5)), Step::at(at(30)));
        assert_eq!(
            container.step(true, at(6)),
            signal(Signal::Terminate, Some(30))
        );
        let mut late = stopping(30, Hook::Done);
        assert_eq!(
            late.step(false, at(30)),
            signal(Signal::Terminate, Some(32))
        );
    }

    #[test]
    fn a_second_request_shortens_the_time() {
        let mut container = stopping(30, Hook::Done);
        container.step(true, at(0));
        container.shorten(at(6), at(5));
        assert_eq!(container.step(true, at(5)), Step::at(at(7)));
        container.shorten(at(20), at(5));
        assert_eq!(container.step(true, at(7)), signal(Signal::Kill, None));
    }
}
