//! An ordered, versioned key-value store with watches, in which the API server stores its objects.
//!
//! Keys are text, values opaque bytes. Back ends implement the trait [`Store`]: [`Memory`] keeps
//! everything in this process, [`Disk`] in a folder too, so that no committed transaction is lost.
//! The test suite in `contract`, behind the cargo feature of that name, states what each back end
//! must do, and runs with any of them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::StreamExt;
//! use sendo_store::{At, KeyRange, Memory, Retention, Store, Transaction};
//! use sendo_world::World;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), sendo_store::Error> {
//! let world = World::real();
//! let store: Arc<dyn Store> =
//!     Arc::new(Memory::new(world.clock().clone(), Retention::default()));
//!
//! // Create, unless someone else has.
//! let create = Transaction::new().absent("/pods/a").put("/pods/a", "pending");
//! let created = store.commit(create).await?;
//!
//! // Read everything, then watch changes from that revision on: none is missed.
//! let page = store.range(KeyRange::prefix("/pods/"), At::Latest, None).await?;
//! let mut watch = store.watch(KeyRange::prefix("/pods/"), page.revision)?;
//!
//! // Update what was read, unless it has changed since.
//! let update = Transaction::new().unchanged("/pods/a", created).put("/pods/a", "running");
//! store.commit(update).await?;
//!
//! let batch = watch.next().await.expect("the store is there")?;
//! let change = &batch.changes[0];
//! assert_eq!(change.before.as_ref().unwrap().value, "pending");
//! assert_eq!(change.now.as_ref().unwrap().value, "running");
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees of every store
//!
//! - **One counter.** Every transaction that changes something takes the next
//!   [`Revision`], whichever keys it writes, and gives it to all its changes. What
//!   changes nothing takes none. Transactions that [follow](Transaction::then) each
//!   other take one each, and none of them takes place without the others.
//! - **All or nothing.** A transaction's guards and writes are one step: no reader
//!   and no watcher sees a part of it.
//! - **Snapshots.** A read returns its revision, and a later read at that revision sees the
//!   same state, until it is compacted. So a long list can be read in pages.
//! - **Watches miss nothing.** A watch returns every transaction after its revision
//!   in order, once and whole, restricted to its range; or it ends with an error.
//!   An interrupted watch can be resumed from its last revision or its
//!   [progress](Watch::progress), as long as that is kept.
//! - **Changes before responses.** A change is in every watch before its commit returns:
//!   a caller whose write has returned finds it in each watch without waiting. The
//!   access control of the API server depends on that.
//! - **History is bounded.** A compaction, or the limits of the back end, remove
//!   the oldest changes. A reader or watcher that still needs them gets
//!   [`Error::Compacted`], and starts again with a read of the newest state.
//! - **Watchers do not block writers.** A slow watcher falls behind within those bounds,
//!   then its watch ends with an error.
//! - **Bytes are shared.** An [`Entry`] and a [`Change`] are shared behind an
//!   [`Arc`], with a [`Memo`] for a value that is derived from them, so that it is
//!   computed once for all watchers.

#[cfg(any(test, feature = "contract"))]
pub mod contract;

mod change;
mod disk;
mod error;
mod live;
mod memo;
mod memory;
mod range;
mod retention;
mod transaction;
mod watch;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

pub use change::{Batch, Change, Entry};
pub use disk::{Disk, OpenError};
pub use error::Error;
pub use memo::Memo;
pub use memory::Memory;
pub use range::{Key, KeyRange};
pub use retention::Retention;
pub use transaction::{Expect, Guard, Transaction, Write};
pub use watch::{Watch, WatchSource};

/// An ordered, versioned key-value store.
///
/// Reads never block writes. All methods are cancel safe: a dropped `commit`
/// has either taken place whole or not at all.
pub trait Store: Send + Sync + 'static {
    /// The entry of `key`, and the revision that was read.
    ///
    /// # Errors
    /// [`Error::Compacted`] or [`Error::Future`] for a revision that cannot be read.
    fn get<'a>(&'a self, key: &'a str, at: At) -> BoxFuture<'a, Result<Lookup, Error>>;

    /// The first `limit` entries of `range` in key order; `None` for all,
    /// `Some(0)` to count them.
    ///
    /// To page, read again at the same revision with [`KeyRange::after`] the last key.
    ///
    /// # Errors
    /// [`Error::Compacted`] or [`Error::Future`] for a revision that cannot be read.
    fn range(
        &self,
        range: KeyRange,
        at: At,
        limit: Option<usize>,
    ) -> BoxFuture<'_, Result<Page, Error>>;

    /// Makes all writes, or none.
    ///
    /// Returns the revision of its last change, or the newest one if it changes nothing.
    /// By then every watch has the changes: polled next, it gives them.
    ///
    /// # Errors
    /// [`Error::Conflict`] names the first guard that does not hold;
    /// [`Error::DuplicateKey`] a key that is written twice at one revision;
    /// [`Error::Full`] says that there is no room for it.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>>;

    /// Every change in `range` after `after`, in order, then those to come.
    ///
    /// To miss nothing, watch after the revision of the read that came before.
    /// `after` may be ahead of the newest revision: the watch then returns nothing up to that
    /// revision.
    ///
    /// # Errors
    /// [`Error::Compacted`] if changes after `after` are no longer kept. A back
    /// end that does not know at once returns the error as the watch's first item.
    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error>;

    /// The newest revision: at least that of every commit that has returned.
    fn revision(&self) -> Revision;

    /// Whether commits can still take place, as far as it is known without trying.
    ///
    /// Reads and watches go on either way.
    ///
    /// # Errors
    /// [`Error::Backend`] with what every commit is answered from now on;
    /// [`Error::Full`] as long as there is no room for more than there is.
    fn health(&self) -> Result<(), Error>;

    /// Forgets the changes up to and including `through`.
    ///
    /// `through` becomes the oldest revision that can be read or watched after.
    /// Watches that have read those changes continue; one that has not read them yet ends with
    /// [`Error::Compacted`]. Does nothing if those changes are forgotten already.
    ///
    /// # Errors
    /// [`Error::Future`] if `through` is ahead of the newest revision.
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>>;
}

/// A point in the store's history. `Revision(0)` is before the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The revision that a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest state.
    Latest,
    /// The state right after this revision.
    Revision(Revision),
}

/// The result of reading one key.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The entry; `None` if the key does not exist.
    pub entry: Option<Arc<Entry>>,
    /// The revision that was read: the newest one for [`At::Latest`], else the requested one.
    pub revision: Revision,
}

/// The result of reading a range.
#[derive(Clone, Debug)]
pub struct Page {
    /// Entries in key order, at most the limit.
    pub entries: Vec<Arc<Entry>>,
    /// How many entries the range has beyond these.
    pub remaining: u64,
    /// The revision that was read: the newest one for [`At::Latest`], else the requested one.
    pub revision: Revision,
}
