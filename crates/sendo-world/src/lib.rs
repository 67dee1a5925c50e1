//! The world a program lives in: a clock, a source of randomness and ids, and
//! tasks with owners.
//!
//! A program takes its [`World`] as a value and asks nothing else for the time,
//! for a random number or for a new task. On a single-threaded tokio runtime
//! with paused time, a program in a [`World::seeded`] world is deterministic:
//! the same seed gives the same run, and a day passes in a second.
//!
//! ```
//! use std::time::Duration;
//! use sendo_world::World;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let world = World::seeded(7);
//! let before = world.clock().now();
//! world.clock().sleep(Duration::from_secs(3600)).await; // an instant, in paused time
//! assert_eq!(world.clock().now() - before, Duration::from_secs(3600));
//! # }
//! ```

mod clock;
pub mod process;
mod random;
mod tasks;

pub use clock::{Clock, Interval, Moment};
pub use jiff::Timestamp;
pub use random::Random;
pub use tasks::{Stop, Task, Tasks};

/// Clock, randomness and tasks of a program.
///
/// Cloning is cheap and gives the same world: the same clock, the same random
/// source, the same task owner. [`World::child`] gives a part of the program
/// its own random source and its own tasks, so that what one part does never
/// changes the random numbers of another.
#[derive(Clone, Debug)]
pub struct World {
    clock: Clock,
    random: Random,
    tasks: Tasks,
}

impl World {
    /// The real world: the machine's wall clock, read each time, and randomness of
    /// the operating system.
    ///
    /// Must be called inside a tokio runtime, on whose clock it runs.
    pub fn real() -> Self {
        World {
            clock: Clock::real(),
            random: Random::from_system(),
            tasks: Tasks::new("world"),
        }
    }

    /// A reproducible world: every random number follows from `seed`, and the
    /// wall clock starts at 2026-01-01T00:00:00Z.
    ///
    /// Must be called inside a tokio runtime, on whose clock it runs.
    pub fn seeded(seed: u64) -> Self {
        let start = Timestamp::from_second(1_767_225_600).expect("a second of the year 2026");
        World {
            clock: Clock::anchored_at(start),
            random: Random::from_seed(seed),
            tasks: Tasks::new("world"),
        }
    }

    /// A part of this world: the same clock, a random source of its own that
    /// follows from this one and `name`, and a task owner that stops with this one's.
    pub fn child(&self, name: &str) -> Self {
        World {
            clock: self.clock.clone(),
            random: self.random.child(name),
            tasks: self.tasks.child(name),
        }
    }

    /// This world with a clock that runs `rate` times as fast as tokio's.
    ///
    /// A test gives each manager its own rate to simulate clock drift.
    pub fn with_clock_rate(&self, rate: f64) -> Self {
        World {
            clock: self.clock.at_rate(rate),
            ..self.clone()
        }
    }

    /// This world with wall time asked of `read` each time; monotonic time stays.
    ///
    /// A test sets the wall clock of a program, as an administrator or a time
    /// service would.
    pub fn with_wall(&self, read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        World {
            clock: self.clock.with_wall(read),
            ..self.clone()
        }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The source of randomness and ids.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// The owner of the tasks of this part of the program.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }
}
