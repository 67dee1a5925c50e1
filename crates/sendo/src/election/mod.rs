//! Leader election by a Lease, and a gate for what only the leader may do.
//!
//! Candidates compete for one `coordination.k8s.io/v1` Lease by the protocol of
//! client-go, so that programs in Go and in Rust can compete for the same one.
//! A candidate takes a lease that nobody holds, or whose record it has seen
//! unchanged for the lease's duration on its own monotonic clock: the times in
//! the record are for people to read, and wall clocks need not agree.
//!
//! # What is guaranteed
//!
//! The [`Gate`] of a leader is open until `renew_deadline` after the *start* of
//! its last successful renewal; another takes the lease no earlier than
//! `lease_duration` after it *saw* that renewal. With the defaults, 10 s and
//! 15 s, **two gates are never open at once as long as no clock runs more than
//! 1.5 times as fast as another**, whatever happens to requests, and however
//! long processes stand still. A leader's writes stay inside its gate if no
//! request takes effect after its time-out, which the client clips to
//! [`Remaining`]; and a lease is not given back while a write that nobody waits
//! for any more may still be on its way. A thousand simulated elections, with
//! pauses, cut connections and clocks at these bounds, are part of the tests.
//!
//! Beyond these bounds two leaders may overlap: with clocks whose rates differ
//! more; if a whole machine is suspended together with its monotonic clock; if a
//! request is delivered by the network after the one who sent it has given up;
//! or if the Lease object is deleted or its holder edited by hand while somebody
//! leads. The API server's own checks (`resourceVersion`, preconditions) remain.
//!
//! # How long a hand-over takes
//!
//! After a clean exit, up to one retry of a candidate: 2 to 4.4 s. After a crash
//! the lease duration more.

mod gate;
mod machine;
mod options;
mod run;

#[cfg(test)]
mod journal;
#[cfg(test)]
mod lease_service;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod tests;

pub use gate::{Gate, NotLeader, Remaining};
pub use options::{ElectionOptions, InvalidOptions};
pub use run::{Election, Leadership, Lost, Status};
