//! Claims keys, and frees them, in the transaction of the object that is written.

use bytes::Bytes;
use sendo_apimachinery::Status;
use sendo_store::{Key, Transaction};

use crate::state::call::Call;

/// What a write takes and gives back beside the object it writes, in the same transaction.
///
/// Allocation claims addresses and ports; a step of validating admission may claim too.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    taken: Vec<(Key, Bytes)>,
    freed: Vec<Key>,
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

    /// Whether no object holds `key`, as of before the write.
    pub(crate) async fn is_free(&self, call: &Call<'_>, key: &Key) -> Result<bool, Status> {
        if self.taken.iter().any(|(taken, _)| taken == key) {
            return Ok(false);
        }
        Ok(call.stored(key).await?.is_none())
    }
}
