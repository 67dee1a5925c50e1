//! Claims keys, and frees them, in the transaction of the object that is written.

use bytes::Bytes;
use sendo_apimachinery::Status;
use sendo_store::{Key, Revision, Transaction};

use crate::state::call::Call;

/// What a write takes and gives back beside the object it writes, in the same transaction.
///
/// Allocation claims addresses and ports, the last step of admission what is in use of quotas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    taken: Vec<(Key, Bytes)>,
    freed: Vec<Key>,
    replaced: Vec<Replacement>,
}

/// Another value for a key that must still be as it was read.
#[derive(Clone, Debug)]
struct Replacement {
    key: Key,
    read_at: Revision,
    value: Bytes,
}

impl Claims {
    /// Makes these claims a part of the transaction that they are for.
    pub(crate) fn join(self, mut transaction: Transaction) -> Transaction {
        for (key, value) in self.taken {
            transaction = transaction.absent(key.clone()).put(key, value);
        }
        for key in self.freed {
            transaction = transaction.delete(key);
        }
        for Replacement {
            key,
            read_at,
            value,
        } in self.replaced
        {
            transaction = transaction.unchanged(key.clone(), read_at).put(key, value);
        }
        transaction
    }

    /// Takes a key that no other object may hold.
    pub(crate) fn take(&mut self, key: Key, value: impl Into<Bytes>) {
        self.taken.push((key, value.into()));
    }

    pub(crate) fn free(&mut self, key: Key) {
        if !self.freed.contains(&key) {
            self.freed.push(key);
        }
    }

    /// Puts a value in place of the one that was read at a revision.
    pub(crate) fn replace(&mut self, key: Key, read_at: Revision, value: impl Into<Bytes>) {
        self.replaced.push(Replacement {
            key,
            read_at,
            value: value.into(),
        });
    }

    /// Whether the value of `key` is replaced.
    pub(crate) fn replaces(&self, key: &Key) -> bool {
        self.replaced.iter().any(|replaced| replaced.key == *key)
    }

    /// Replaces nothing any more.
    pub(crate) fn withdraw_replacements(&mut self) {
        self.replaced.clear();
    }

    /// Whether no object holds `key`, as of before the write.
    pub(crate) async fn is_free(&self, call: &Call<'_>, key: &Key) -> Result<bool, Status> {
        if self.taken.iter().any(|(taken, _)| taken == key) {
            return Ok(false);
        }
        Ok(call.stored(key).await?.is_none())
    }
}
