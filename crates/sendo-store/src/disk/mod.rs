//! The store on disk, for clusters that are kept when their process ends.
//!
//! All data is in memory too: reads and watches are those of [`Memory`](crate::Memory).
//! A commit returns, and readers see it, when it is on disk. [`file`] is the database;
//! [`writer`] is the thread that writes to it, many commits at once.

mod file;
mod folder;
mod medium;
mod shortage;
mod tail;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use sendo_world::Clock;

use crate::live::{Live, LiveStore};
use crate::{Error, Retention, Revision, Transaction};
use file::File;
pub use folder::OpenError;
use writer::Writer;

/// A [`Store`](crate::Store) whose commits are on disk before they return.
///
/// When it is opened again on the same folder it has the same entries and revision,
/// and the newest part of the history, so that watches can be resumed too. The history
/// on disk is limited by its [`Retention`] and by the size of the current entries
/// (or 1000 changes, or 4 MiB of values, if that is less), so that the time of a start
/// and the size of the file depend on the current entries. A file that is far larger
/// than its content, because much was deleted, is compacted when it is opened. If the
/// process is killed, or the machine loses its power, no commit that returned is lost,
/// and no commit that did not return is kept in part.
///
/// Commits that arrive while others are being written are written together: the
/// more clients write, the fewer syncs each of them waits for. All entries are
/// held in memory as well; a read never touches the disk.
///
/// When the disk is full, a transaction that creates a key, or makes values larger by
/// more than 1 KiB, fails with [`Error::Full`]. Deletions are possible, and so are changes
/// that need no space, such as setting a deletion timestamp: for them the file `reserve` of
/// 4 MiB is kept in the folder, and removed when the disk is full. Once twice that much
/// space is free, all transactions are possible again. The beginning is logged as an
/// error, and the end too.
///
/// When a write fails for another reason, the commit fails, and so does every later one,
/// because the state of the file is not known any more. Reads and watches still work; when
/// it is opened again, the store has its state before the failed commit.
///
/// The folder and its files can be read by their owner only.
///
/// A thread does the writes, so do not use this store in virtual time. Dropping the
/// store finishes the commits that were started, then ends the thread and the watches.
pub struct Disk {
    live: Arc<Live>,
    writer: Writer,
}

impl Disk {
    /// Opens the store in `folder`, or creates one if the folder is absent or empty.
    ///
    /// `clock` measures the age of changes. Reads all data and checks it.
    ///
    /// # Errors
    /// If another process has it open, or the folder has other files, a store of another version, or
    /// a damaged one. Nothing is changed then.
    pub fn open(folder: &Path, clock: Clock, retention: Retention) -> Result<Self, OpenError> {
        let file = folder::open(folder)?;
        Disk::with_file(file, clock, retention)
            .map_err(|cause| OpenError::from_fault(folder, cause))
    }

    fn with_file(mut file: File, clock: Clock, retention: Retention) -> Result<Self, file::Fault> {
        let restored = file.read(clock.now(), file::seconds(&clock), &retention)?;
        match file.tighten(&restored, &clock) {
            Err(cause) if cause.is_full() => file.reopen()?,
            other => other?,
        }
        let live = Arc::new(Live::new(restored.history.clone()));
        let writer = Writer::start(file, restored, Arc::clone(&live), clock, retention)?;
        Ok(Disk { live, writer })
    }

    /// The oldest revision that can be read, or watched after.
    pub fn oldest(&self) -> Revision {
        self.live.oldest()
    }
}

impl LiveStore for Disk {
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
