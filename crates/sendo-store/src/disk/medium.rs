//! The storage of the database file, and the space that is reserved for a full disk.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use redb::{Database, DatabaseError};

use super::folder;

/// How much space is reserved: 4 MiB.
///
/// The database writes new pages before it frees old ones, so on a disk without any free space
/// nothing can be deleted either. When the disk is full the reserve is released, and deletions use
/// it.
pub(super) const RESERVE: u64 = 4 << 20;

/// The storage of a database.
pub(super) trait Medium: Send + 'static {
    /// Opens the existing database.
    fn open(&self) -> Result<Database, DatabaseError>;

    /// The size of the database file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Allocates the reserve, unless it is allocated already. Fails if that leaves less than `spare`
    /// bytes free.
    fn hold_reserve(&self, spare: u64) -> io::Result<()>;

    /// Frees the reserve.
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
            // A process may have ended while it wrote the file.
            Ok(_) => fs::remove_file(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Written, because a sparse file allocates no space.
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
