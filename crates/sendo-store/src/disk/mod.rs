//! A store in a folder, for clusters that outlive their process.
//!
//! All of it is in memory too: reads and watches are those of [`Memory`](crate::Memory).
//! A commit is answered, and seen by others, when it is on disk. [`file`] is what
//! lies there; [`writer`] is the thread that writes it, many commits at once.

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

use crate::live::{Live, OnLive};
use crate::{Error, Retention, Revision, Transaction};
use file::File;
pub use folder::OpenError;
use writer::Writer;

/// A [`Store`](crate::Store) whose commits are on disk before they are answered.
///
/// Opened again on the same folder it goes on where it was: entries, revisions,
/// and the newest part of the past, so watches can be resumed too. No more of the
/// past lies on disk than its [`Retention`] keeps, and no more than there is of the
/// present (or 1000 changes, or 4 MiB of values, where that is less): how
/// long a start takes, and how large the file is, depends on what there is, not on
/// what there was. A file that is far larger than what is in it, because much was
/// deleted, is made smaller when it is opened. A process that is killed, or a machine that loses its power, loses no
/// commit that was answered and keeps no part of one that was not.
///
/// Commits that arrive while others are being written are written together: the
/// more clients write, the fewer syncs each of them waits for. All entries are
/// held in memory as well; a read never touches the disk.
///
/// When the disk is full, what creates a key, or makes values larger by more than
/// 1 KiB, is refused with [`Error::Full`]. Deletions go through, and so do changes that take no
/// room, such as the marks that come before a deletion: for them the file `reserve`
/// of 4 MiB is kept in the folder, and given back to the disk at that moment. Once
/// there is twice that much space again, everything is written as before. The log tells of
/// the beginning, as an error, and of the end.
///
/// When the disk refuses a write for another reason, the commit
/// fails, and so does every later one: what lies there is not known any more.
/// Reads and watches go on; opened again, the store is what it was before.
///
/// The folder and its files can be read by their owner only.
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
