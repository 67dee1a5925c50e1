//! Opens the folder of a store, or creates it; errors say what to do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError, StorageError};

use super::file::{Fault, File, KNOWN_FORMAT};
use super::medium::InFolder;

const NAME: &str = "objects.redb";
/// The name until the tables are created. A folder with this file alone has a store that was never
/// opened.
const DRAFT: &str = "objects.redb.new";

/// The page cache, for inner pages during writes: all entries are in memory anyway.
const CACHE: usize = 16 << 20;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another process: stop that one, or choose another folder", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds files, but no store.
    #[error("{} holds other files and no store: choose an empty folder", folder.display())]
    NotAStore {
        /// The folder.
        folder: PathBuf,
    },
    /// The store has a format that this program cannot read.
    #[error("{} was written by another version (its format is {found}, this program's {KNOWN_FORMAT}): open it with that version, or choose another folder", folder.display())]
    Version {
        /// The folder.
        folder: PathBuf,
        /// The format found.
        found: u64,
    },
    /// The file is damaged.
    #[error("the store in {} is damaged ({cause}): put back a copy of the folder, or choose another", folder.display())]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The operating system returned an error.
    #[error("cannot open the store in {}: {cause}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The error.
        cause: io::Error,
    },
}

impl OpenError {
    pub(super) fn from_fault(folder: &Path, fault: Fault) -> Self {
        let folder = folder.to_owned();
        match fault {
            Fault::Database(redb::Error::Io(cause)) if !is_damage(&cause) => {
                OpenError::Io { folder, cause }
            }
            other => OpenError::Damaged {
                folder,
                cause: other.to_string(),
            },
        }
    }

    fn from_database(folder: &Path, error: DatabaseError) -> Self {
        let folder = folder.to_owned();
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { folder },
            DatabaseError::UpgradeRequired(found) => OpenError::Version {
                folder,
                found: found.into(),
            },
            DatabaseError::Storage(StorageError::Io(cause)) if !is_damage(&cause) => {
                OpenError::Io { folder, cause }
            }
            other => OpenError::Damaged {
                folder,
                cause: other.to_string(),
            },
        }
    }
}

/// Whether an I/O error means that the file is damaged.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    matches!(error.kind(), InvalidData | UnexpectedEof)
}

/// Opens the store in `folder`, or creates one.
pub(super) fn open(folder: &Path) -> Result<File, OpenError> {
    let io = |cause| OpenError::Io {
        folder: folder.to_owned(),
        cause,
    };
    let path = folder.join(NAME);
    if !path.try_exists().map_err(io)? {
        create(folder)?;
    }
    keep_private(folder, 0o700).map_err(io)?;
    keep_private(&path, 0o600).map_err(io)?;
    // The database panics on some damaged files.
    let opened = std::panic::catch_unwind(|| -> Result<Database, DatabaseError> {
        let mut database = builder().open(&path)?;
        database.check_integrity()?;
        Ok(database)
    });
    let database = opened
        .unwrap_or_else(|_| Err(StorageError::Corrupted("it cannot be read".to_owned()).into()))
        .map_err(|error| OpenError::from_database(folder, error))?;
    let file = File::new(database, InFolder(folder.to_owned()));
    match file.format() {
        Ok(KNOWN_FORMAT) => Ok(file),
        Ok(found) => Err(OpenError::Version {
            folder: folder.to_owned(),
            found,
        }),
        Err(cause) => Err(OpenError::from_fault(folder, cause)),
    }
}

/// Creates an empty store. The file gets its name after its tables are created.
fn create(folder: &Path) -> Result<(), OpenError> {
    let io = |cause| OpenError::Io {
        folder: folder.to_owned(),
        cause,
    };
    private_folder(folder).map_err(io)?;
    for found in fs::read_dir(folder).map_err(io)? {
        if found.map_err(io)?.file_name() != DRAFT {
            return Err(OpenError::NotAStore {
                folder: folder.to_owned(),
            });
        }
    }
    let draft = folder.join(DRAFT);
    if draft.try_exists().map_err(io)? {
        fs::remove_file(&draft).map_err(io)?;
    }
    let database = builder()
        .create_file(private_file(&draft).map_err(io)?)
        .map_err(|error| OpenError::from_database(folder, error))?;
    File::create(&database).map_err(|cause| OpenError::from_fault(folder, cause))?;
    drop(database);
    fs::rename(&draft, folder.join(NAME)).map_err(io)?;
    // Syncs the directory entry, so that the file survives a power cut.
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io)
}

/// A new file that only its owner can read, because objects include secrets.
pub(super) fn private_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes a folder, unless it is there, that only its owner can look into.
fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Gives what is there the mode it is made with, whatever the umask was then.
///
/// If another user owns it that fails, which is logged: the files are private all the same.
#[cfg(unix)]
fn keep_private(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let found = path.metadata()?.permissions().mode() & 0o777;
    if found == mode {
        return Ok(());
    }
    match fs::set_permissions(path, fs::Permissions::from_mode(mode)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                "{} has mode {found:o} and cannot be given {mode:o}: there are secrets in it",
                path.display()
            );
            Ok(())
        }
        other => other,
    }
}

#[cfg(not(unix))]
fn keep_private(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Where the database is in the folder of a store.
pub(super) fn database_in(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}
