//! The errors of stores.

use std::sync::Arc;

use crate::{Entry, Key, Revision};

/// Why an operation of a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A guard of a transaction failed; nothing was written. Read again and retry.
    #[error("{key} is not what the transaction expected")]
    Conflict {
        /// The guard's key.
        key: Key,
        /// The entry that the key has; `None` if it has none.
        found: Option<Arc<Entry>>,
    },
    /// A transaction writes a key twice; nothing was written.
    #[error("the transaction writes {key} more than once")]
    DuplicateKey {
        /// The key.
        key: Key,
    },
    /// The requested revision has been compacted, or a watch was too slow to read it before. Read
    /// the newest state and watch from there.
    #[error("revision {requested} has been compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The requested revision, or the one up to which the watch had read.
        requested: Revision,
        /// The oldest revision that can still be read, or watched after.
        oldest: Revision,
    },
    /// The requested revision is ahead of the newest one.
    #[error("revision {requested} lies ahead of the newest, {newest}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// There is no room for more than is stored already; nothing was written. What
    /// takes room away is refused, what gives some back goes through.
    #[error("the disk is full: delete what is not needed, or give the store more room")]
    Full,
    /// The back end failed. A commit may or may not have taken place: read to find out.
    #[error("the store's back end failed: {0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}
