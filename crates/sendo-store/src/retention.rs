//! How much of the past is kept.

use std::time::Duration;

/// How much of the past a store keeps for readers and watchers.
///
/// What exceeds any of these is forgotten at the next commit, oldest first; the
/// newest transaction is always kept. A watch that has not read what is
/// forgotten ends, so these also bound how far a watch may fall behind.
#[derive(Clone, Debug)]
pub struct Retention {
    /// How many changes at most; 100,000 by default.
    pub keep_changes: usize,
    /// How many bytes of values at most that are no longer current; 256 MiB by default.
    pub keep_bytes: usize,
    /// How long; 5 minutes by default. A store that was opened again counts
    /// from then, and has no past if nothing was written for so long.
    pub keep_for: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            keep_changes: 100_000,
            keep_bytes: 256 << 20,
            keep_for: Duration::from_secs(5 * 60),
        }
    }
}
