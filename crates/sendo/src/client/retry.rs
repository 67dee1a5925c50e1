//! Which requests are sent again, and when.

use std::time::Duration;

use sendo_world::Random;

use super::error::Error;
use super::request::Request;

/// How often a server may say "later" before it is believed that it means "no".
const TOLD_TO_WAIT: u32 = 10;

/// How often a read is tried that gets no answer.
const READS: u32 = 4;

/// How long to wait before a read is tried again; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Sends requests again where that can do no harm:
///
/// - any request that the server answered with "try again in so many seconds",
///   because then it did nothing;
/// - reads that got no answer, or one from a proxy that could not pass them on.
///
/// A write without an answer may have taken place: whoever sent it decides.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    random: Random,
}

impl Retries {
    pub(crate) fn new(random: Random) -> Self {
        Retries { random }
    }

    /// How long to wait before sending `request` again, which has failed
    /// `failed` times; `None` to give up.
    pub(super) fn wait(&self, request: &Request, error: &Error, failed: u32) -> Option<Duration> {
        let code = error.code();
        if let Some(wait) = error.retry_after()
            && (code == 429 || code >= 500)
        {
            return (failed < TOLD_TO_WAIT).then_some(wait);
        }
        let unanswered = matches!(error, Error::Transport { .. });
        let passing = unanswered || matches!(code, 429 | 502..=504);
        if request.is_write() || !passing || failed >= READS {
            return None;
        }
        let wait = FIRST_WAIT * (1 << (failed - 1));
        Some(wait.mul_f64(1.0 + self.random.fraction()))
    }
}
