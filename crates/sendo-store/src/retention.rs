//! How much history a store keeps.

use std::time::Duration;

/// How much history a store keeps for readers and watchers.
///
/// Changes that exceed any of these limits are forgotten at the next commit, oldest first; the
/// newest transaction is always kept. A watch that has not read a forgotten change ends, so these
/// also limit how far a watch may fall behind.
#[derive(Clone, Debug)]
pub struct Retention {
    /// The maximum number of changes; 100,000 by default.
    pub keep_changes: usize,
    /// The maximum number of bytes of replaced values; 256 MiB by default.
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
