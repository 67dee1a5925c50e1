//! The work queue between events and workers.
//!
//! One entry per key, however often it is added; a key that is being worked on
//! is never handed out a second time, and what is added meanwhile waits until
//! the work is done. Entries wait for a delay or a backoff, are ordered by
//! priority, and inside a priority come out in the order they became ready.
//!
//! A key that waits for its backoff is handed out at once if something else adds
//! it, as that may be what it waited for. If it fails again before the backoff was
//! over, it waits for the rest of it, and not for a longer one.
//!
//! ```
//! use sendo::queue::{Add, Options, Priority, Queue, Reason};
//! use sendo::World;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let world = World::seeded(1);
//! let queue = Queue::new(&world, Options::default());
//! queue.add("a", Add::because(Reason::INITIAL).priority(Priority::LOW));
//! queue.add("b", Reason::EVENT);
//! queue.add("b", Reason::EVENT);
//!
//! let b = queue.next().await.unwrap();
//! assert_eq!((*b.key(), b.reasons().adds()), ("b", 2));
//! let delay = b.retry(); // comes back after the backoff
//! # assert_eq!(delay, Some(std::time::Duration::from_millis(5)));
//! drop(b);
//!
//! assert_eq!(*queue.next().await.unwrap().key(), "a");
//! assert_eq!(queue.next().await.unwrap().attempts(), 1);
//! # }
//! ```

mod add;
mod at;
mod core;
mod limiter;
mod list;
mod reason;
mod shell;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

pub use self::core::Added;
#[doc(hidden)]
pub use self::core::{Core, Pick, Ticket};
pub use add::{Add, Priority};
pub use limiter::{Backoff, Limiter, MaxOfLimiter, TokenBucket};
pub use reason::{Reason, Reasons};
pub use shell::{Picked, Queue};

/// How a queue behaves.
pub struct Options {
    /// How long a retry waits. By default [`Backoff`]: 5 ms, doubling up to 1000 s, per key.
    pub limiter: Box<dyn Limiter>,
    /// Of this many picks in a row, at least one is the entry that has been ready longest,
    /// whatever its priority. 8 by default; 1 ignores priorities.
    ///
    /// So an entry before which `n` others were ready is picked after at most
    /// `fairness * (n + 1)` picks, however many urgent ones arrive.
    pub fairness: NonZeroU32,
    /// Receives how long entries wait and are worked on. None by default.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limiter: Box::new(Backoff::default()),
            fairness: const { NonZeroU32::new(8).unwrap() },
            observer: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("limiter", &self.limiter)
            .field("fairness", &self.fairness)
            .finish_non_exhaustive()
    }
}

/// Receives each entry's times. Called on the path of every entry: it should be quick.
pub trait Observer: Send + Sync {
    /// An entry was handed out, `waited` after it became ready.
    fn picked(&self, waited: Duration);
    /// The work on an entry ended and had taken `worked`.
    fn done(&self, worked: Duration);
}

/// What is in a queue at one moment, and what went through it since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries ready to be picked, by priority, the lowest first. A priority with none is left out.
    pub ready: Vec<(Priority, usize)>,
    /// Entries that are not due yet.
    pub waiting: usize,
    /// Entries handed out.
    pub working: usize,
    /// How long the longest of those has been worked on.
    pub longest_running: Duration,
    /// How long all of those have been worked on, added up.
    pub unfinished: Duration,
    /// How many times a key was to be picked that was not before; merged additions do not count.
    pub adds: u64,
    /// How many times a key was retried, or added with a delay.
    pub retries: u64,
}
