//! The database file: the newest entries, and the entry that each change replaced.
//!
//! The entry that a change made is the current one, or the one that the key's next change replaced.
//! So the replaced entries are enough to restore the history, and each value is written once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use sendo_world::{Clock, Moment};

use super::medium::{self, Medium};
use super::tail::{Limits, Tail};
use crate::live::History;
use crate::{Batch, Change, Entry, Key, Memo, Retention, Revision};

/// An entry without its key: when it was created and modified, and its value.
type Row = (u64, u64, &'static [u8]);

/// The newest entry of each key.
const ENTRIES: TableDefinition<'static, &str, Row> = TableDefinition::new("entries");
/// By revision and position in its transaction: a key, and the entry that was replaced.
const REPLACED: TableDefinition<'static, (u64, u32), (&str, Option<Row>)> =
    TableDefinition::new("replaced");
/// Numbers about the store.
const NUMBERS: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");

const FORMAT: &str = "format";
const NEWEST: &str = "newest";
const OLDEST: &str = "oldest";
/// When something was written last, in seconds since 1970.
const WRITTEN: &str = "written";

/// The version of the file format that this program writes.
pub(super) const KNOWN_FORMAT: u64 = 1;

/// Why the file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Database(#[from] redb::Error),
    #[error("{0}")]
    Inconsistent(String),
    #[error("cannot start the thread that writes: {0}")]
    Thread(std::io::Error),
}

impl Fault {
    /// Whether there was no space left.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Fault::Database(redb::Error::Io(cause)) if medium::is_full(cause))
    }
}

/// Converts the error types of the database.
fn fault(error: impl Into<redb::Error>) -> Fault {
    Fault::Database(error.into())
}

/// A file is made smaller if it is larger than so many times what is in it, …
const LOOSE: u64 = 4;
/// … and this much.
const LOOSE_BYTES: u64 = 8 << 20;

/// A database with the tables of a store.
pub(super) struct File {
    /// `None` only while it is opened again.
    database: Option<Database>,
    medium: Box<dyn Medium>,
}

/// What a file held.
pub(super) struct Restored {
    pub(super) history: History,
    /// What of the history the file is to keep.
    pub(super) tail: Tail,
}

impl File {
    /// Creates the tables in an empty database.
    pub(super) fn create(database: &Database) -> Result<(), Fault> {
        let transaction = database.begin_write().map_err(fault)?;
        {
            transaction.open_table(ENTRIES).map_err(fault)?;
            transaction.open_table(REPLACED).map_err(fault)?;
            let mut numbers = transaction.open_table(NUMBERS).map_err(fault)?;
            for (name, number) in [(FORMAT, KNOWN_FORMAT), (NEWEST, 0), (OLDEST, 0)] {
                numbers.insert(name, number).map_err(fault)?;
            }
        }
        transaction.commit().map_err(fault)
    }

    /// A database that has the tables, and where it lies.
    pub(super) fn new(database: Database, medium: impl Medium) -> Self {
        File {
            database: Some(database),
            medium: Box::new(medium),
        }
    }

    fn database(&self) -> &Database {
        let database = self.database.as_ref();
        database.expect("a database that could not be opened again is not used")
    }

    /// Opens the database again, which refuses everything after a failed write.
    pub(super) fn reopen(&mut self) -> Result<(), Fault> {
        // The old one keeps others out, this one too.
        self.database = None;
        self.database = Some(self.medium.open().map_err(fault)?);
        Ok(())
    }

    /// Holds space ready for a full disk; whether there is that much, and as much as
    /// `spare` besides.
    pub(super) fn hold_reserve(&self, spare: u64) -> Result<bool, Fault> {
        match self.medium.hold_reserve(spare) {
            Ok(()) => Ok(true),
            Err(error) if medium::is_full(&error) => Ok(false),
            Err(error) => Err(Fault::Database(redb::Error::Io(error))),
        }
    }

    /// Gives the space back that is held ready.
    pub(super) fn release_reserve(&self) -> Result<(), Fault> {
        let released = self.medium.release_reserve();
        released.map_err(|error| Fault::Database(redb::Error::Io(error)))
    }

    /// The version of the file format.
    pub(super) fn format(&self) -> Result<u64, Fault> {
        let transaction = self.database().begin_read().map_err(fault)?;
        let numbers = transaction.open_table(NUMBERS).map_err(fault)?;
        number(&numbers, FORMAT)
    }

    /// The newest revision that is on disk.
    pub(super) fn newest(&self) -> Result<Revision, Fault> {
        let transaction = self.database().begin_read().map_err(fault)?;
        let numbers = transaction.open_table(NUMBERS).map_err(fault)?;
        number(&numbers, NEWEST).map(Revision)
    }

    /// All entries, and as much of the past as is still to be kept `now`, in seconds
    /// since 1970. It counts as made `at` this moment.
    pub(super) fn read(
        &self,
        at: Moment,
        now: u64,
        retention: &Retention,
    ) -> Result<Restored, Fault> {
        let transaction = self.database().begin_read().map_err(fault)?;
        let numbers = transaction.open_table(NUMBERS).map_err(fault)?;
        let newest = Revision(number(&numbers, NEWEST)?);
        let mut oldest = Revision(number(&numbers, OLDEST)?);
        let written = numbers.get(WRITTEN).map_err(fault)?.map(|row| row.value());
        let is_expired = written
            .is_some_and(|written| now.saturating_sub(written) > retention.keep_for.as_secs());

        let entries = transaction.open_table(ENTRIES).map_err(fault)?;
        let mut current = OrdMap::new();
        let mut size = 0;
        for row in entries.iter().map_err(fault)? {
            let (key, entry) = row.map_err(fault)?;
            let key = Key::from(key.value());
            size += entry.value().2.len();
            current.insert(Key::clone(&key), entry_of(key, entry.value()));
        }

        // From the newest change backwards: the entry of a key before each step is the one that the
        // change made.
        let limits = Limits::for_entries(current.len(), size);
        let replaced = transaction.open_table(REPLACED).map_err(fault)?;
        let mut then = current.clone();
        let mut tail = Tail::empty(oldest);
        let mut batches = Vec::new();
        let mut changes: Vec<Arc<Change>> = Vec::new();
        let mut rows = replaced.iter().map_err(fault)?.rev();
        loop {
            let row = rows.next().transpose().map_err(fault)?;
            let revision = row.as_ref().map(|(place, _)| Revision(place.value().0));
            if let Some(last) = changes.first().map(|change| change.revision)
                && revision != Some(last)
            {
                changes.reverse();
                let batch = Batch {
                    revision: last,
                    changes: std::mem::take(&mut changes).into(),
                };
                let mut longer = tail;
                longer.add(&batch);
                if is_expired || (longer.exceeds(limits) && !batches.is_empty()) {
                    oldest = last;
                    break;
                }
                tail = longer;
                batches.push(batch);
            }
            let (Some((_, change)), Some(revision)) = (row, revision) else {
                break;
            };
            if revision <= oldest {
                break;
            }
            let (key, before) = change.value();
            let key = Key::from(key);
            let before = before.map(|before| entry_of(Key::clone(&key), before));
            let now = match &before {
                Some(before) => then.insert(Key::clone(&key), Arc::clone(before)),
                None => then.remove(&key),
            };
            if now.as_ref().is_some_and(|now| now.modified != revision) {
                let text = format!("{key} has no value of revision {revision}");
                return Err(Fault::Inconsistent(text));
            }
            changes.push(Arc::new(Change {
                key,
                now,
                before,
                revision,
                memo: Memo::default(),
            }));
        }
        tail.oldest = oldest;
        let batches = batches.into_iter().rev();
        let history = History::restored(current, batches, (oldest, newest), at);
        Ok(Restored { history, tail })
    }

    /// Makes the file as small as what is in it needs, if it is much larger.
    pub(super) fn tighten(&mut self, restored: &Restored, clock: &Clock) -> Result<(), Fault> {
        let needed = restored.history.current_bytes() + restored.tail.bytes();
        let size = self.medium.size().map_err(redb::Error::Io)?;
        if size <= needed as u64 * LOOSE + LOOSE_BYTES {
            return Ok(());
        }
        self.shrink(restored.tail.oldest, restored.history.newest(), clock)
    }

    /// Makes the file as small as what is in it needs, which is all but the changes
    /// through `oldest`.
    pub(super) fn shrink(
        &mut self,
        oldest: Revision,
        newest: Revision,
        clock: &Clock,
    ) -> Result<(), Fault> {
        self.write(&[], (oldest, newest), clock)?;
        let database = self.database.as_mut();
        let compacted = database.map(Database::compact).transpose();
        compacted.map(drop).map_err(fault)
    }

    /// Adds transactions and takes off the changes through `oldest`, all or nothing;
    /// on disk when this returns.
    pub(super) fn write(
        &self,
        batches: &[Batch],
        (oldest, newest): (Revision, Revision),
        clock: &Clock,
    ) -> Result<(), Fault> {
        let transaction = self.database().begin_write().map_err(fault)?;
        {
            let mut entries = transaction.open_table(ENTRIES).map_err(fault)?;
            let mut replaced = transaction.open_table(REPLACED).map_err(fault)?;
            for batch in batches.iter().filter(|batch| batch.revision > oldest) {
                for (place, change) in (0..).zip(batch.changes.iter()) {
                    let before = change.before.as_deref().map(row_of);
                    let at = (batch.revision.0, place);
                    replaced.insert(at, (&*change.key, before)).map_err(fault)?;
                }
            }
            // If several of these transactions change a key, only its last value is written.
            let changes = batches.iter().flat_map(|batch| batch.changes.iter());
            let last: BTreeMap<_, _> = changes.map(|c| (&*c.key, c.now.as_deref())).collect();
            for (key, now) in last {
                match now {
                    Some(entry) => entries.insert(key, row_of(entry)).map_err(fault)?,
                    None => entries.remove(key).map_err(fault)?,
                };
            }
            let mut numbers = transaction.open_table(NUMBERS).map_err(fault)?;
            let had = number(&numbers, OLDEST)?;
            if had < oldest.0 {
                let removed = (had, 0)..(oldest.0 + 1, 0);
                replaced.retain_in(removed, |_, _| false).map_err(fault)?;
            }
            numbers.insert(NEWEST, newest.0).map_err(fault)?;
            numbers.insert(OLDEST, oldest.0).map_err(fault)?;
            let now = seconds(clock);
            numbers.insert(WRITTEN, now).map_err(fault)?;
        }
        transaction.commit().map_err(fault)
    }
}

/// Now, in seconds since 1970.
pub(super) fn seconds(clock: &Clock) -> u64 {
    clock.wall().as_second().max(0).unsigned_abs()
}

fn number(numbers: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64, Fault> {
    let found = numbers.get(name).map_err(fault)?;
    let missing = || Fault::Inconsistent(format!("the number `{name}` is missing"));
    Ok(found.ok_or_else(missing)?.value())
}

fn row_of(entry: &Entry) -> (u64, u64, &[u8]) {
    (entry.created.0, entry.modified.0, &entry.value)
}

fn entry_of(key: Key, (created, modified, value): (u64, u64, &[u8])) -> Arc<Entry> {
    Arc::new(Entry {
        key,
        value: Bytes::copy_from_slice(value),
        created: Revision(created),
        modified: Revision(modified),
        memo: Memo::default(),
    })
}
