//! How many requests a program sends in a second.

use parking_lot::Mutex;
use sendo_world::Clock;

use crate::queue::{Limiter, TokenBucket};

/// A limit on a program's own requests: `burst` at once, then `per_second`.
///
/// Watches do not count. API servers share themselves out fairly, so that a
/// limit is only needed to be kind to what stands behind them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests a second, in the long run.
    pub per_second: f64,
    /// Requests at once.
    pub burst: u32,
}

/// The limit that all clients of a program share.
#[derive(Debug)]
pub struct RateLimit(Mutex<TokenBucket>);

impl RateLimit {
    /// A limit of which nothing is used yet.
    ///
    /// # Panics
    /// If `per_second` is not a positive, finite number.
    pub fn new(rate: Rate) -> Self {
        RateLimit(Mutex::new(TokenBucket::new(rate.per_second, rate.burst)))
    }

    /// Waits until one more request may be sent. A dropped future has used its turn.
    pub(super) async fn turn(&self, clock: &Clock) {
        let wait = {
            let mut bucket = self.0.lock();
            bucket.delay(0, clock.now())
        };
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }
}
