//! An ordered, versioned key-value store with watches: what the API server keeps its objects in.
//!
//! One [`Store`] has one [`Revision`] counter for everything. Every transaction
//! that changes something raises it by one and gives all its changes the same
//! revision, so a watch delivers a transaction whole or not at all.
//!
//! Values are opaque bytes. Back ends stand behind the trait: [`Memory`] keeps
//! everything in this process; the suite in [`contract`] states what each back
//! end must do and runs over any of them.

use std::fmt;
use std::ops::Bound;

use bytes::Bytes;
use futures::future::BoxFuture;

pub mod contract;
mod memory;

pub use memory::Memory;

/// A point in the store's history. `Revision(0)` is before the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key: any text, ordered by bytes. Cheap to clone.
pub type Key = std::sync::Arc<str>;

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value, as it was put.
    pub value: Bytes,
    /// When the key came to be; a key that was deleted and put again is a new one.
    pub created: Revision,
    /// The last change.
    pub modified: Revision,
}

/// A span of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key, or the one before it.
    pub from: Bound<Key>,
    /// The end.
    pub to: Bound<Key>,
}

/// When a read looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest state.
    Latest,
    /// The state as it was right after this revision.
    Revision(Revision),
}

/// The answer to a range read.
#[derive(Clone, Debug)]
pub struct Page {
    /// Entries in key order, at most the limit.
    pub entries: Vec<Entry>,
    /// How many entries the range has beyond these.
    pub remaining: u64,
    /// The state that was read: the newest revision for [`At::Latest`], else the one asked for.
    pub revision: Revision,
}

/// What must hold for a transaction to take place.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The key looked at.
    pub key: Key,
    /// What it must be.
    pub expect: Expect,
}

/// A condition on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last changed at this revision.
    Unchanged(Revision),
}

/// A change of one key.
#[derive(Clone, Debug)]
pub enum Write {
    /// Put a value.
    Put(Key, Bytes),
    /// Delete the key. Deleting an absent one changes nothing.
    Delete(Key),
}

/// Writes that take place together, at one revision, if every guard holds.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// All of these must hold.
    pub guards: Vec<Guard>,
    /// At most one per key.
    pub writes: Vec<Write>,
}

/// A change, as watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What the key became; its `modified` is [`Change::revision`]. `None`: deleted.
    pub now: Option<Entry>,
    /// What the key was before. `None`: it is new.
    pub before: Option<Entry>,
    /// The transaction's revision.
    pub revision: Revision,
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A guard did not hold; nothing was written.
    #[error("{key} is not what the transaction expected")]
    Conflict {
        /// The guard's key.
        key: Key,
        /// What is stored there now.
        found: Option<Entry>,
    },
    /// The revision asked for is older than what is kept.
    #[error("revision {asked} has been compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The oldest revision that can still be read, or watched from.
        oldest: Revision,
    },
    /// The revision asked for has not happened yet.
    #[error("revision {asked} lies ahead of the newest, {newest}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The back end failed; nothing is known to have been written.
    #[error("the store's back end failed: {0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An ordered, versioned key-value store.
///
/// Reads never block writes. All methods are cancel safe: a dropped `commit`
/// has either taken place whole or not at all.
pub trait Store: Send + Sync + 'static {
    /// The entry under `key`, and the revision that was read.
    fn get<'a>(&'a self, key: &'a str, at: At) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>>;

    /// The first `limit` entries of `range` in key order; `None` for all.
    fn range(&self, range: KeyRange, at: At, limit: Option<usize>) -> BoxFuture<'_, Result<Page, Error>>;

    /// Makes all writes, or none: [`Error::Conflict`] names the first guard that does not hold.
    ///
    /// Returns the transaction's revision, or the newest one if it changes nothing.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>>;

    /// Every change in `range` after `after`, in order, then those to come.
    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error>;

    /// The newest revision.
    fn revision(&self) -> Revision;

    /// Forgets the history up to and including `through`; states after it stay readable.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>>;
}
