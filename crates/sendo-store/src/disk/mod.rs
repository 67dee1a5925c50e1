//! A store in a folder, for clusters that outlive their process.
//!
//! All of it is in memory too: reads and watches are those of [`Memory`](crate::Memory).
//! A commit is answered, and seen by others, when it is on disk. [`file`] is what
//! lies there; [`writer`] is the thread that writes it, many commits at once.

mod file;
mod folder;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use sendo_world::Clock;

use crate::live::{Live, OnLive};
use crate::{Error, Retention, Revision, Transaction};
use file::File;
pub use folder::OpenError;
use writer::Writer;

/// A [`Store`](crate::Store) whose commits are on disk before they are answered.
///
/// Opened again on the same folder it goes on where it was: entries, revisions,
/// and as much of the past as its [`Retention`] keeps, so watches can be resumed
/// too. A process that is killed, or a machine that loses its power, loses no
/// commit that was answered and keeps no part of one that was not.
///
/// Commits that arrive while others are being written are written together: the
/// more clients write, the fewer syncs each of them waits for. All entries are
/// held in memory as well; a read never touches the disk.
///
/// When the disk refuses a write, because it is full for example, the commit
/// fails, and so does every later one: what lies there is not known any more.
/// Reads and watches go on; opened again, the store is what it was before.
///
/// A thread of its own writes, so this store belongs in the real world, not in
/// virtual time. Dropping the store writes what is under way, then ends the
/// thread and the watches.
pub struct Disk {
    live: Arc<Live>,
    writer: Writer,
}

impl Disk {
    /// Opens the store in `folder`, or makes one there if the folder is absent or empty.
    ///
    /// `clock` tells the age of changes. Reads everything, and checks it.
    ///
    /// # Errors
    /// If another process has it open, or the folder holds something else, a
    /// store of another version, or a damaged one. Nothing is changed then.
    pub fn open(folder: &Path, clock: Clock, retention: Retention) -> Result<Self, OpenError> {
        let file = folder::open(folder)?;
        Disk::with_file(file, clock, retention).map_err(|cause| OpenError::of_fault(folder, cause))
    }

    fn with_file(file: File, clock: Clock, retention: Retention) -> Result<Self, file::Fault> {
        let history = file.read(clock.now())?;
        let live = Arc::new(Live::new(history.clone()));
        let writer = Writer::start(file, history, Arc::clone(&live), clock, retention)?;
        Ok(Disk { live, writer })
    }

    /// The oldest revision that can be read, or watched after.
    pub fn oldest(&self) -> Revision {
        self.live.oldest()
    }
}

impl OnLive for Disk {
    fn live(&self) -> &Arc<Live> {
        &self.live
    }

    fn can_write(&self) -> Result<(), Error> {
        self.writer.health()
    }

    fn write(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(self.writer.commit(transaction))
    }

    fn forget(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.writer.compact(through))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.writer.stop();
        self.live.close();
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("newest", &self.live.newest())
            .field("oldest", &self.live.oldest())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
