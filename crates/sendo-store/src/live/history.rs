//! The newest state, and the changes that led to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use sendo_world::Moment;

use crate::{
    At, Batch, Change, Entry, Error, Expect, Guard, Key, KeyRange, Lookup, Memo, Page, Retention,
    Revision, Transaction, Write,
};

/// The newest state, and the changes that led to it from the oldest one kept.
///
/// Both are persistent maps: a clone is a snapshot that costs the same at any
/// size. An older state is the newest with the changes since then undone.
#[derive(Clone, Default)]
pub(crate) struct History {
    current: OrdMap<Key, Arc<Entry>>,
    log: OrdMap<Revision, Logged>,
    newest: Revision,
    /// The log holds every change after this one.
    oldest: Revision,
    logged_changes: usize,
    logged_bytes: usize,
    /// The size of all values in `current`.
    current_bytes: usize,
}

#[derive(Clone)]
struct Logged {
    batch: Batch,
    at: Moment,
}

impl History {
    /// The history with the newest state `current` and with `batches`, which are all transactions
    /// after `oldest` up to `newest`. Their age is counted from `at`.
    pub(crate) fn restored(
        current: OrdMap<Key, Arc<Entry>>,
        batches: impl IntoIterator<Item = Batch>,
        (oldest, newest): (Revision, Revision),
        at: Moment,
    ) -> Self {
        let mut history = History {
            current_bytes: current.values().map(|entry| entry.value.len()).sum(),
            current,
            newest,
            oldest,
            ..History::default()
        };
        for batch in batches {
            history.log(Logged { batch, at });
        }
        history
    }

    fn log(&mut self, logged: Logged) {
        self.logged_changes += logged.batch.changes.len();
        self.logged_bytes += logged.batch.replaced_bytes();
        self.log.insert(logged.batch.revision, logged);
    }

    pub(crate) fn newest(&self) -> Revision {
        self.newest
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// How many entries there are now.
    pub(crate) fn entries(&self) -> usize {
        self.current.len()
    }

    /// The size of the values of all entries there are now.
    pub(crate) fn current_bytes(&self) -> usize {
        self.current_bytes
    }

    /// Fails unless every change after `revision` is kept.
    pub(crate) fn check_kept(&self, revision: Revision) -> Result<(), Error> {
        if revision < self.oldest {
            return Err(Error::Compacted {
                requested: revision,
                oldest: self.oldest,
            });
        }
        Ok(())
    }

    /// Fails if `revision` is ahead of the newest one.
    pub(crate) fn check_happened(&self, revision: Revision) -> Result<(), Error> {
        if revision > self.newest {
            return Err(Error::Future {
                requested: revision,
                newest: self.newest,
            });
        }
        Ok(())
    }

    /// The transactions after `revision`, in order.
    pub(crate) fn after(
        &self,
        revision: Revision,
    ) -> impl DoubleEndedIterator<Item = &Batch> + use<'_> {
        let span = (Bound::Excluded(revision), Bound::Unbounded);
        self.log.range(span).map(|(_, logged)| &logged.batch)
    }

    /// The transaction `back` revisions before `revision`, if it is kept.
    pub(crate) fn earlier(&self, revision: Revision, back: u64) -> Option<Batch> {
        let then = Revision(revision.0.checked_sub(back)?);
        self.log.get(&then).map(|logged| logged.batch.clone())
    }

    /// The newest entry of a key.
    pub(crate) fn latest(&self, key: &str) -> Lookup {
        Lookup {
            entry: self.current.get(key).cloned(),
            revision: self.newest,
        }
    }

    pub(crate) fn get(&self, key: &str, at: At) -> Result<Lookup, Error> {
        let revision = self.resolve(at)?;
        let mut since = self.after(revision).flat_map(|batch| batch.changes.iter());
        let entry = match since.find(|change| *change.key == *key) {
            Some(change) => change.before.clone(),
            None => self.current.get(key).cloned(),
        };
        Ok(Lookup { entry, revision })
    }

    pub(crate) fn range(
        &self,
        range: &KeyRange,
        at: At,
        limit: Option<usize>,
    ) -> Result<Page, Error> {
        let revision = self.resolve(at)?;
        let state = self.undone_to(revision, range);
        let bounds = range.bounds().into_iter();
        let mut rest = bounds.flat_map(|bounds| state.range::<_, str>(bounds));
        let wanted = rest.by_ref().take(limit.unwrap_or(usize::MAX));
        let entries = wanted.map(|(_, entry)| Arc::clone(entry)).collect();
        Ok(Page {
            entries,
            remaining: rest.count() as u64,
            revision,
        })
    }

    fn resolve(&self, at: At) -> Result<Revision, Error> {
        let At::Revision(revision) = at else {
            return Ok(self.newest);
        };
        self.check_happened(revision)?;
        self.check_kept(revision)?;
        Ok(revision)
    }

    /// The state at `revision`; correct for the keys in `range` only.
    fn undone_to(&self, revision: Revision, range: &KeyRange) -> OrdMap<Key, Arc<Entry>> {
        if revision == self.newest {
            return self.current.clone();
        }
        // The first change of a key after `revision` has replaced its entry at `revision`.
        let mut then = BTreeMap::new();
        for change in self.after(revision).flat_map(|batch| batch.changes.iter()) {
            if range.contains(&change.key) {
                then.entry(&change.key).or_insert(&change.before);
            }
        }
        let mut state = self.current.clone();
        for (key, entry) in then {
            match entry {
                Some(entry) => state.insert(Key::clone(key), Arc::clone(entry)),
                None => state.remove(key),
            };
        }
        state
    }

    /// Makes a transaction and what follows it, or nothing. Gives what each of them
    /// that changed something did.
    pub(crate) fn commit(
        &mut self,
        mut transaction: Transaction,
        at: Moment,
    ) -> Result<Vec<Batch>, Error> {
        let Some(mut next) = transaction.then.take() else {
            return Ok(self.commit_one(transaction, at)?.into_iter().collect());
        };
        let mut after = self.clone();
        let mut batches = Vec::from_iter(after.commit_one(transaction, at)?);
        loop {
            let following = next.then.take();
            batches.extend(after.commit_one(*next, at)?);
            match following {
                Some(following) => next = following,
                None => break,
            }
        }
        *self = after;
        Ok(batches)
    }

    /// Makes the writes, if the guards hold. `None` if that changes nothing.
    fn commit_one(&mut self, transaction: Transaction, at: Moment) -> Result<Option<Batch>, Error> {
        check_distinct(&transaction.writes)?;
        for guard in &transaction.guards {
            self.check_guard(guard)?;
        }
        let revision = Revision(self.newest.0 + 1);
        let writes = transaction.writes.into_iter();
        let changes: Arc<[_]> = writes
            .filter_map(|write| self.write(write, revision))
            .collect();
        if changes.is_empty() {
            return Ok(None);
        }
        let batch = Batch { revision, changes };
        self.newest = revision;
        self.log(Logged {
            batch: batch.clone(),
            at,
        });
        Ok(Some(batch))
    }

    fn check_guard(&self, guard: &Guard) -> Result<(), Error> {
        let found = self.current.get(&guard.key);
        let holds = match guard.expect {
            Expect::Absent => found.is_none(),
            Expect::Unchanged(revision) => found.is_some_and(|entry| entry.modified == revision),
        };
        if holds {
            return Ok(());
        }
        Err(Error::Conflict {
            key: Key::clone(&guard.key),
            found: found.cloned(),
        })
    }

    fn write(&mut self, write: Write, revision: Revision) -> Option<Arc<Change>> {
        let (key, now, before) = match write {
            Write::Put(key, value) => {
                let before = self.current.get(&key).cloned();
                self.current_bytes += value.len();
                let entry = Arc::new(Entry {
                    key: Key::clone(&key),
                    value,
                    created: before.as_ref().map_or(revision, |entry| entry.created),
                    modified: revision,
                    memo: Memo::default(),
                });
                self.current.insert(Key::clone(&key), Arc::clone(&entry));
                (key, Some(entry), before)
            }
            Write::Delete(key) => {
                let before = self.current.remove(&key)?;
                (key, None, Some(before))
            }
        };
        self.current_bytes -= before.as_ref().map_or(0, |entry| entry.value.len());
        Some(Arc::new(Change {
            key,
            now,
            before,
            revision,
            memo: Memo::default(),
        }))
    }

    /// Forgets the transactions that exceed `retention`, at most `at_most`, and returns them.
    pub(crate) fn trim(
        &mut self,
        retention: &Retention,
        now: Moment,
        at_most: usize,
    ) -> Vec<Batch> {
        self.forget_while(at_most, |history, first| {
            history.log.len() > 1
                && (history.logged_changes > retention.keep_changes
                    || history.logged_bytes > retention.keep_bytes
                    || now.since(first.at) > retention.keep_for)
        })
    }

    /// Forgets the transactions up to `through`, at most `at_most`, and returns them.
    pub(crate) fn compact(&mut self, through: Revision, at_most: usize) -> Vec<Batch> {
        self.forget_while(at_most, |_, first| first.batch.revision <= through)
    }

    fn forget_while(
        &mut self,
        at_most: usize,
        is_expired: impl Fn(&History, &Logged) -> bool,
    ) -> Vec<Batch> {
        let mut forgotten = Vec::new();
        while forgotten.len() < at_most
            && let Some((revision, first)) = self.log.get_min().cloned()
            && is_expired(self, &first)
        {
            self.log.remove(&revision);
            self.logged_changes -= first.batch.changes.len();
            self.logged_bytes -= first.batch.replaced_bytes();
            self.oldest = revision;
            forgotten.push(first.batch);
        }
        forgotten
    }
}

fn check_distinct(writes: &[Write]) -> Result<(), Error> {
    if writes.len() < 2 {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    match writes.iter().find(|write| !seen.insert(write.key())) {
        Some(twice) => Err(Error::DuplicateKey {
            key: Key::clone(twice.key()),
        }),
        None => Ok(()),
    }
}
