//! What lies on disk: the newest entries, and what each change replaced.
//!
//! A change's new value is the current one, or what the key's next change
//! replaced; so keeping what was replaced keeps all of the past, and no value
//! is written that is not needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use sendo_world::Moment;

use crate::live::History;
use crate::{Batch, Change, Entry, Key, Memo, Revision};

/// An entry without its key: when it was created and modified, and its value.
type Row = (u64, u64, &'static [u8]);

/// The newest entry of each key.
const ENTRIES: TableDefinition<'static, &str, Row> = TableDefinition::new("entries");
/// By revision and place in its transaction: a key, and what it was before.
const REPLACED: TableDefinition<'static, (u64, u32), (&str, Option<Row>)> =
    TableDefinition::new("replaced");
/// Numbers about the whole.
const NUMBERS: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");

const FORMAT: &str = "format";
const NEWEST: &str = "newest";
const OLDEST: &str = "oldest";

/// The form in which this version writes.
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

/// What the many error types of the database become.
fn fault(error: impl Into<redb::Error>) -> Fault {
    Fault::Database(error.into())
}

/// A database with the tables of a store.
pub(super) struct File {
    database: Database,
}

impl File {
    /// Makes the tables in a database that has none.
    pub(super) fn create(database: Database) -> Result<Self, Fault> {
        let transaction = database.begin_write().map_err(fault)?;
        {
            transaction.open_table(ENTRIES).map_err(fault)?;
            transaction.open_table(REPLACED).map_err(fault)?;
            let mut numbers = transaction.open_table(NUMBERS).map_err(fault)?;
            for (name, number) in [(FORMAT, KNOWN_FORMAT), (NEWEST, 0), (OLDEST, 0)] {
                numbers.insert(name, number).map_err(fault)?;
            }
        }
        transaction.commit().map_err(fault)?;
        Ok(File { database })
    }

    /// A database that has the tables.
    pub(super) fn new(database: Database) -> Self {
        File { database }
    }

    /// In which form the tables are.
    pub(super) fn format(&self) -> Result<u64, Fault> {
        let transaction = self.database.begin_read().map_err(fault)?;
        let numbers = transaction.open_table(NUMBERS).map_err(fault)?;
        number(&numbers, FORMAT)
    }

    /// Everything, in memory. What is kept of the past counts as made `at` this moment.
    pub(super) fn read(&self, at: Moment) -> Result<History, Fault> {
        let transaction = self.database.begin_read().map_err(fault)?;
        let numbers = transaction.open_table(NUMBERS).map_err(fault)?;
        let newest = Revision(number(&numbers, NEWEST)?);
        let oldest = Revision(number(&numbers, OLDEST)?);

        let entries = transaction.open_table(ENTRIES).map_err(fault)?;
        let mut current = OrdMap::new();
        for row in entries.iter().map_err(fault)? {
            let (key, entry) = row.map_err(fault)?;
            let key = Key::from(key.value());
            current.insert(Key::clone(&key), entry_of(key, entry.value()));
        }

        // From the newest back: what a key is at each step is what its change made of it.
        let replaced = transaction.open_table(REPLACED).map_err(fault)?;
        let mut then = current.clone();
        let mut batches: BTreeMap<Revision, Vec<Arc<Change>>> = BTreeMap::new();
        for row in replaced.iter().map_err(fault)?.rev() {
            let (place, change) = row.map_err(fault)?;
            let revision = Revision(place.value().0);
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
            batches.entry(revision).or_default().push(Arc::new(Change {
                key,
                now,
                before,
                revision,
                memo: Memo::default(),
            }));
        }
        let batches = batches.into_iter().map(|(revision, mut changes)| {
            changes.reverse();
            Batch {
                revision,
                changes: changes.into(),
            }
        });
        Ok(History::restored(current, batches, (oldest, newest), at))
    }

    /// Adds transactions and takes those off that are forgotten, all or nothing;
    /// on disk when this returns.
    pub(super) fn write(
        &self,
        batches: &[Batch],
        forgotten: &[Batch],
        (oldest, newest): (Revision, Revision),
    ) -> Result<(), Fault> {
        let transaction = self.database.begin_write().map_err(fault)?;
        {
            let mut entries = transaction.open_table(ENTRIES).map_err(fault)?;
            let mut replaced = transaction.open_table(REPLACED).map_err(fault)?;
            for batch in batches {
                for (place, change) in (0..).zip(batch.changes.iter()) {
                    let before = change.before.as_deref().map(row_of);
                    let at = (batch.revision.0, place);
                    replaced.insert(at, (&*change.key, before)).map_err(fault)?;
                }
            }
            // Of a key that several of these transactions change, only the last value stays.
            let changes = batches.iter().flat_map(|batch| batch.changes.iter());
            let last: BTreeMap<_, _> = changes.map(|c| (&*c.key, c.now.as_deref())).collect();
            for (key, now) in last {
                match now {
                    Some(entry) => entries.insert(key, row_of(entry)).map_err(fault)?,
                    None => entries.remove(key).map_err(fault)?,
                };
            }
            if let (Some(first), Some(last)) = (forgotten.first(), forgotten.last()) {
                let gone = (first.revision.0, 0)..(last.revision.0 + 1, 0);
                replaced.retain_in(gone, |_, _| false).map_err(fault)?;
            }
            let mut numbers = transaction.open_table(NUMBERS).map_err(fault)?;
            numbers.insert(NEWEST, newest.0).map_err(fault)?;
            numbers.insert(OLDEST, oldest.0).map_err(fault)?;
        }
        transaction.commit().map_err(fault)
    }
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
