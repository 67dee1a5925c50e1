//! Time: tokio's monotonic clock, read at a rate of its own, with one wall-clock anchor.

use std::future::Future;
use std::ops::{Add, Sub};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A point on a [`Clock`]'s monotonic line.
///
/// Comparable only with moments of the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment at which its clock was made.
    pub const START: Moment = Moment(Duration::ZERO);

    /// Time passed since `earlier`, zero if that lies ahead.
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
/// Monotonic time comes from tokio, so paused time pauses it; wall time is the
/// anchor plus the time passed since. A rate other than 1 makes both run faster
/// or slower than tokio's clock, as a drifting machine's would.
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    wall: Timestamp,
    rate: f64,
}

impl Clock {
    pub(crate) fn real() -> Self {
        Clock::anchored_at(Timestamp::now())
    }

    /// A clock whose wall time is `wall` now.
    pub fn anchored_at(wall: Timestamp) -> Self {
        Clock {
            origin: Instant::now(),
            wall,
            rate: 1.0,
        }
    }

    /// A clock that agrees with this one now and runs at `rate` from here on.
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
            wall: self.wall(),
            rate,
        }
    }

    /// Now, on the monotonic line.
    pub fn now(&self) -> Moment {
        Moment(self.passed())
    }

    /// Now, on the wall. Never runs backwards.
    pub fn wall(&self) -> Timestamp {
        self.wall + self.passed()
    }

    /// The wall time at `moment`.
    pub fn wall_at(&self, moment: Moment) -> Timestamp {
        self.wall + moment.0
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

    /// Ticks every `period`, the first time at once. Ticks that were missed are left out.
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

/// A steady beat; see [`Clock::interval`].
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
    async fn a_timeout_drops_what_is_late() {
        let clock = Clock::anchored_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.timeout(HOUR, clock.sleep(HOUR * 2)).await, None);
        assert_eq!(clock.timeout(HOUR, async { 3 }).await, Some(3));
    }
}
