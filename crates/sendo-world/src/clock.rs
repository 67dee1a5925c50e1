//! Time: tokio's monotonic clock at a configurable rate, for waiting, and wall time, for timestamps.

use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A point in a [`Clock`]'s monotonic time.
///
/// Comparable only with moments of the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment at which the clock was created.
    pub const START: Moment = Moment(Duration::ZERO);

    /// The time passed since `earlier`, zero if that is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, by: Duration) -> Moment {
        Moment(self.0.saturating_add(by))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Moment) -> Duration {
        self.since(earlier)
    }
}

/// The time a program sees.
///
/// Monotonic time comes from tokio, so paused time pauses it. All waits and all
/// intervals on which a decision depends are measured with it. A rate other than 1
/// makes it run faster or slower than tokio's clock, like the clock of a machine that
/// drifts.
///
/// Wall time is for timestamps that are stored or sent. That of a real world is read
/// from the machine each time, so it follows when the machine's clock is set or the
/// machine was suspended, and may run backwards. That of a virtual world is an anchor
/// plus the monotonic time passed since.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    wall: Wall,
    rate: f64,
}

/// Where wall time comes from.
#[derive(Clone)]
enum Wall {
    /// What it was at the clock's origin; the monotonic time passed since is added.
    Anchored(Timestamp),
    /// Asked each time.
    Read(Arc<dyn Fn() -> Timestamp + Send + Sync>),
}

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wall::Anchored(at) => f.debug_tuple("Anchored").field(at).finish(),
            Wall::Read(_) => f.write_str("Read"),
        }
    }
}

impl Clock {
    pub(crate) fn real() -> Self {
        Clock::reading(Timestamp::now)
    }

    /// A clock whose wall time is `wall` now, and moves with its monotonic time.
    pub fn anchored_at(wall: Timestamp) -> Self {
        Clock {
            origin: Instant::now(),
            wall: Wall::Anchored(wall),
            rate: 1.0,
        }
    }

    /// A clock whose wall time is read with `read` each time.
    pub fn reading(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock {
            origin: Instant::now(),
            wall: Wall::Read(Arc::new(read)),
            rate: 1.0,
        }
    }

    /// This clock, with the same monotonic time, whose wall time is read with `read` each time.
    pub(crate) fn with_wall(&self, read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock {
            wall: Wall::Read(Arc::new(read)),
            ..self.clone()
        }
    }

    /// A clock with the time of this one now, which runs at `rate` from now on. Its wall
    /// time is anchored now, also if that of this one is read.
    ///
    /// # Panics
    /// If `rate` is not a positive, finite number.
    pub(crate) fn at_rate(&self, rate: f64) -> Self {
        assert!(
            rate.is_finite() && rate > 0.0,
            "a clock rate is a positive number, not {rate}"
        );
        Clock {
            origin: Instant::now(),
            wall: Wall::Anchored(self.wall()),
            rate,
        }
    }

    /// The current monotonic time.
    pub fn now(&self) -> Moment {
        Moment(self.passed())
    }

    /// The current wall time. In a real world it may run backwards, and jump ahead:
    /// measure intervals with [`Clock::now`].
    pub fn wall(&self) -> Timestamp {
        match &self.wall {
            Wall::Anchored(wall) => *wall + self.passed(),
            Wall::Read(read) => read(),
        }
    }

    /// The wall time at `moment`, as far as the wall clock shows now: one that
    /// was set since is taken to have been right all along.
    pub fn wall_at(&self, moment: Moment) -> Timestamp {
        match &self.wall {
            Wall::Anchored(wall) => *wall + moment.0,
            Wall::Read(read) => {
                let (now, wall) = (self.now(), read());
                wall - now.since(moment) + moment.since(now)
            }
        }
    }

    /// Waits for `duration` of this clock's time.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(self.real_span(duration)).await;
    }

    /// Waits until `moment`; returns at once if it has passed.
    pub async fn sleep_until(&self, moment: Moment) {
        self.sleep(moment.since(self.now())).await;
    }

    /// `future`'s output, or `None` if it takes longer than `limit`. The future is then dropped.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(self.real_span(limit), future)
            .await
            .ok()
    }

    /// Ticks every `period`, the first time at once. Missed ticks are skipped.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn interval(&self, period: Duration) -> Interval {
        let mut inner = tokio::time::interval(self.real_span(period));
        inner.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        Interval { inner }
    }

    fn passed(&self) -> Duration {
        let real = self.origin.elapsed();
        if self.rate == 1.0 {
            real
        } else {
            real.mul_f64(self.rate)
        }
    }

    fn real_span(&self, duration: Duration) -> Duration {
        if self.rate == 1.0 {
            duration
        } else {
            duration.div_f64(self.rate)
        }
    }
}

/// A sequence of ticks; see [`Clock::interval`].
#[derive(Debug)]
pub struct Interval {
    inner: tokio::time::Interval,
}

impl Interval {
    /// Waits for the next tick. Dropping the future loses no tick.
    pub async fn tick(&mut self) {
        self.inner.tick().await;
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn wall_time_moves_with_the_monotonic_clock() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::anchored_at(start);
        clock.sleep(HOUR).await;
        assert_eq!(clock.wall(), start + HOUR);
        assert_eq!(clock.wall_at(clock.now()), clock.wall());
    }

    /// A wall clock that a test sets.
    #[derive(Clone)]
    struct Machine(Arc<Mutex<Timestamp>>);

    impl Machine {
        fn new(now: &str) -> Self {
            Machine(Arc::new(Mutex::new(now.parse().unwrap())))
        }

        fn set(&self, now: Timestamp) {
            *self.0.lock() = now;
        }

        fn clock(&self) -> Clock {
            let machine = self.clone();
            Clock::reading(move || *machine.0.lock())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_follows_the_machine_when_its_clock_is_set() {
        let machine = Machine::new("2026-01-01T12:00:00Z");
        let clock = machine.clock();
        let noon = clock.wall();
        machine.set(noon + HOUR);
        assert_eq!(clock.wall(), noon + HOUR);
        machine.set(noon - HOUR);
        assert_eq!(clock.wall(), noon - HOUR);
        assert_eq!(clock.wall_at(clock.now() + HOUR), noon);
        assert_eq!(clock.wall_at(clock.now()), noon - HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_do_not_follow_a_machine_whose_clock_is_set() {
        let machine = Machine::new("2026-01-01T12:00:00Z");
        let clock = machine.clock();
        let (before, noon) = (clock.now(), clock.wall());
        machine.set(noon + 24 * HOUR);
        assert_eq!(clock.now(), before);
        clock.sleep(HOUR).await;
        machine.set(noon - 24 * HOUR);
        assert_eq!(clock.now() - before, HOUR);
        assert_eq!(clock.timeout(HOUR, clock.sleep(HOUR * 2)).await, None);
        assert_eq!(clock.now() - before, HOUR * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_real_clock_shows_the_time_of_the_machine_and_not_of_the_runtime() {
        let clock = Clock::real();
        clock.sleep(HOUR).await; // paused: the machine's clock stands nearly still
        let off = clock.wall().duration_since(Timestamp::now());
        assert!(off.unsigned_abs() < HOUR / 2, "off by {off:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_sees_more_time_and_sleeps_less() {
        let clock = Clock::anchored_at(Timestamp::UNIX_EPOCH);
        let fast = clock.at_rate(1.5);
        tokio::time::sleep(HOUR).await;
        assert_eq!(fast.now() - Moment::START, HOUR.mul_f64(1.5));

        let before = clock.now();
        fast.sleep(HOUR).await;
        let slept = clock.now() - before;
        assert!(slept.abs_diff(HOUR.div_f64(1.5)) <= Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_drops_a_future_that_is_late() {
        let clock = Clock::anchored_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.timeout(HOUR, clock.sleep(HOUR * 2)).await, None);
        assert_eq!(clock.timeout(HOUR, async { 3 }).await, Some(3));
    }
}
