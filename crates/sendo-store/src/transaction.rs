//! Transactions: guards and writes.

use bytes::Bytes;

use crate::{Key, Revision};

/// Writes that are made together, at one revision, if every guard holds.
///
/// A key changes once at a revision. What has to be seen to change twice, marked
/// and then deleted for example, is two transactions of which one
/// [follows](Transaction::then) the other: two revisions, and still all or nothing.
///
/// ```
/// use sendo_store::{Revision, Transaction};
///
/// let update = Transaction::new()
///     .unchanged("/pods/a", Revision(7))
///     .put("/pods/a", "new")
///     .delete("/pods/b");
/// assert_eq!(update.writes.len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// All of these must hold. They are checked against the state before the writes.
    pub guards: Vec<Guard>,
    /// At most one per key.
    pub writes: Vec<Write>,
    /// What takes place right after, at the next revision.
    pub then: Option<Box<Transaction>>,
}

impl Transaction {
    /// An empty transaction.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// Adds the guard that `key` does not exist.
    #[must_use]
    pub fn absent(mut self, key: impl Into<Key>) -> Self {
        self.guards.push(Guard {
            key: key.into(),
            expect: Expect::Absent,
        });
        self
    }

    /// Adds the guard that `key` exists and was last changed at `revision`.
    #[must_use]
    pub fn unchanged(mut self, key: impl Into<Key>, revision: Revision) -> Self {
        self.guards.push(Guard {
            key: key.into(),
            expect: Expect::Unchanged(revision),
        });
        self
    }

    /// Adds a write of `value` to `key`.
    #[must_use]
    pub fn put(mut self, key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        self.writes.push(Write::Put(key.into(), value.into()));
        self
    }

    /// Also makes `next` right after, at the revision that follows.
    ///
    /// Both take place or neither does, on disk too, and nobody else's write comes
    /// between them. The guards of `next` see what this transaction leaves. Called
    /// again, it adds to the end.
    #[must_use]
    pub fn then(mut self, next: Transaction) -> Self {
        self.then = Some(match self.then.take() {
            Some(earlier) => Box::new(earlier.then(next)),
            None => Box::new(next),
        });
        self
    }

    /// Adds the deletion of `key`.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.writes.push(Write::Delete(key.into()));
        self
    }
}

/// A condition for the writes of a transaction.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The key.
    pub key: Key,
    /// The condition.
    pub expect: Expect,
}

/// A condition on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last changed at this revision.
    Unchanged(Revision),
}

/// A write of one key.
#[derive(Clone, Debug)]
pub enum Write {
    /// Put a value. Counts as a change even if the value is the same.
    Put(Key, Bytes),
    /// Delete the key. Deleting an absent one changes nothing.
    Delete(Key),
}

impl Write {
    /// The key written.
    pub fn key(&self) -> &Key {
        match self {
            Write::Put(key, _) | Write::Delete(key) => key,
        }
    }
}
