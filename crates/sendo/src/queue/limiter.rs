//! How long a failed key waits before its next attempt.

use std::fmt::Debug;
use std::time::Duration;

use sendo_world::Moment;

/// Decides how long a retry waits.
///
/// A limiter is called once per retry that counts, under the queue's lock: it must not block. The
/// queue counts each key's attempts, so a limiter that uses nothing else needs no state of its own.
/// An attempt that an event caused before the last delay was over does not count: if it fails, the
/// key waits for the rest of that delay.
pub trait Limiter: Debug + Send {
    /// How long the key waits that was retried `attempts` times before, since
    /// it was last forgotten.
    fn delay(&mut self, attempts: u32, now: Moment) -> Duration;
}

/// Exponential backoff per key: `first`, then `factor` times longer each time, up to `max`.
///
/// By default from 5 ms to 1000 s, doubling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay of the first retry.
    pub first: Duration,
    /// The longest delay.
    pub max: Duration,
    /// How many times longer each delay is than the one before; at least 1.
    pub factor: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            factor: 2.0,
        }
    }
}

impl Backoff {
    /// The delay after `attempts` earlier ones.
    pub fn after(&self, attempts: u32) -> Duration {
        let exponent = i32::try_from(attempts).unwrap_or(i32::MAX);
        let seconds = self.first.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        // Whatever does not fit a duration, infinity included, is beyond `max`.
        Duration::try_from_secs_f64(seconds).map_or(self.max, |delay| delay.min(self.max))
    }
}

impl Limiter for Backoff {
    fn delay(&mut self, attempts: u32, _now: Moment) -> Duration {
        self.after(attempts)
    }
}

/// A limit on all retries of a queue together: `burst` at once, then `per_second`.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    /// Below zero, retries are waiting for tokens that are yet to come.
    tokens: f64,
    filled: Moment,
}

impl TokenBucket {
    /// A full bucket.
    ///
    /// # Panics
    /// If `per_second` is not a positive, finite number.
    pub fn new(per_second: f64, burst: u32) -> Self {
        assert!(
            per_second.is_finite() && per_second > 0.0,
            "a token bucket refills at a positive rate, not {per_second}"
        );
        TokenBucket {
            per_second,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            filled: Moment::START,
        }
    }
}

impl Limiter for TokenBucket {
    fn delay(&mut self, _attempts: u32, now: Moment) -> Duration {
        let gained = now.since(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst) - 1.0;
        self.filled = now;
        Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or_default()
    }
}

/// The longest delay of several limiters, each of which counts the retry.
#[derive(Debug, Default)]
pub struct MaxOfLimiter(Vec<Box<dyn Limiter>>);

impl MaxOfLimiter {
    /// No limiter yet: no delay.
    pub fn new() -> Self {
        MaxOfLimiter::default()
    }

    /// With one more.
    #[must_use]
    pub fn and(mut self, limiter: impl Limiter + 'static) -> Self {
        self.0.push(Box::new(limiter));
        self
    }
}

impl Limiter for MaxOfLimiter {
    fn delay(&mut self, attempts: u32, now: Moment) -> Duration {
        let delays = self.0.iter_mut().map(|one| one.delay(attempts, now));
        delays.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    #[test]
    fn backoff_doubles_from_five_milliseconds_to_a_thousand_seconds() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(0), Duration::from_millis(5));
        assert_eq!(backoff.after(1), Duration::from_millis(10));
        assert_eq!(backoff.after(10), Duration::from_millis(5120));
        assert_eq!(backoff.after(18), Duration::from_secs(1000));
        assert_eq!(backoff.after(u32::MAX), Duration::from_secs(1000));
    }

    #[test]
    fn backoff_never_shrinks() {
        let backoff = Backoff {
            factor: 0.5,
            ..Backoff::default()
        };
        assert_eq!(backoff.after(9), backoff.first);
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(2.0, 3);
        let delays: Vec<u64> = (0..6)
            .map(|_| bucket.delay(0, at(100)).as_millis() as u64)
            .collect();
        assert_eq!(delays, [0, 0, 0, 500, 1000, 1500]);
        assert_eq!(bucket.delay(0, at(200)), Duration::ZERO);
    }

    #[test]
    fn the_longest_of_several_is_taken_and_all_of_them_count() {
        let mut both = MaxOfLimiter::new()
            .and(Backoff::default())
            .and(TokenBucket::new(1.0, 1));
        assert_eq!(both.delay(0, at(0)), Duration::from_millis(5));
        assert_eq!(both.delay(1, at(0)), Duration::from_secs(1));
        assert_eq!(both.delay(20, at(0)), Duration::from_secs(1000));
    }
}
