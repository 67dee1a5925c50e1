//! How long a watch waits after a failure.

use std::time::Duration;

use sendo_world::Random;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);

/// Waits that double from 0.8 s to 30 s, each cut by up to a half by chance, so
/// that many watches that failed together do not come back together.
pub(super) struct Backoff {
    random: Random,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(random: Random) -> Self {
        Backoff {
            random,
            failures: 0,
        }
    }

    /// How many failures there were since the last success.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes a failure and says how long to wait.
    pub(super) fn fail(&mut self) -> Duration {
        let doublings = self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
        wait.mul_f64(1.0 - self.random.fraction() / 2.0)
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_thirty_seconds_and_start_anew_after_a_success() {
        let mut backoff = Backoff::new(Random::from_seed(1));
        let mut nominal = FIRST;
        for _ in 0..12 {
            let (wait, full) = (backoff.fail(), nominal.min(LONGEST));
            assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
            nominal *= 2;
        }
        backoff.reset();
        assert!(backoff.fail() <= FIRST);
    }
}
