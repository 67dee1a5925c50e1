//! Where the database lies, and the space that is held ready for a full disk.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use redb::{Database, DatabaseError};

use super::folder;

/// How much space is held ready: 4 MiB.
///
/// The database writes new pages before it gives old ones back, so on a disk with
/// no space at all nothing can be deleted either. When the disk is full this much
/// is given back to it, which what makes the store smaller then uses.
pub(super) const RESERVE: u64 = 4 << 20;

/// Where the database of a store lies.
pub(super) trait Medium: Send + 'static {
    /// Opens the database, which is there.
    fn open(&self) -> Result<Database, DatabaseError>;

    /// How many bytes the database's file has.
    fn size(&self) -> io::Result<u64>;

    /// Takes the reserve from the free space, unless it is held already. Fails if
    /// that leaves less than `spare` bytes free.
    fn hold_reserve(&self, spare: u64) -> io::Result<()>;

    /// Gives the reserve back to the free space.
    fn release_reserve(&self) -> io::Result<()>;
}

/// Whether there is no space left.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// The folder of a store.
pub(super) struct InFolder(pub(super) PathBuf);

impl InFolder {
    fn reserve(&self) -> PathBuf {
        self.0.join("reserve")
    }
}

impl Medium for InFolder {
    fn open(&self) -> Result<Database, DatabaseError> {
        folder::builder().open(folder::database_in(&self.0))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(folder::database_in(&self.0).metadata()?.len())
    }

    fn hold_reserve(&self, spare: u64) -> io::Result<()> {
        let path = self.reserve();
        match path.metadata() {
            Ok(found) if found.len() == RESERVE => return Ok(()),
            // A process may have ended while it wrote it.
            Ok(_) => fs::remove_file(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Written, not only made long: a file with holes holds nothing.
        let zeros = [0; 64 << 10];
        let written = folder::private_file(&path).and_then(|mut file| {
            for _ in 0..(RESERVE + spare) / zeros.len() as u64 {
                file.write_all(&zeros)?;
            }
            file.set_len(RESERVE)?;
            file.sync_all()
        });
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written
    }

    fn release_reserve(&self) -> io::Result<()> {
        match fs::remove_file(self.reserve()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}
