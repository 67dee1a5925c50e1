//! The part of [`Store`] that all stores with a [`Live`] state have in common.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::Live;
use crate::{At, Error, KeyRange, Lookup, Page, Revision, Store, Transaction, Watch};

/// A store whose state is in this process. Only the writes differ between back ends.
pub(crate) trait LiveStore: Send + Sync + 'static {
    fn live(&self) -> &Arc<Live>;

    /// See [`Store::health`].
    fn can_write(&self) -> Result<(), Error>;

    /// See [`Store::commit`].
    fn write(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>>;

    /// See [`Store::compact`]; `through` is not ahead of the newest revision.
    fn forget(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>>;
}

impl<S: LiveStore> Store for S {
    fn get<'a>(&'a self, key: &'a str, at: At) -> BoxFuture<'a, Result<Lookup, Error>> {
        Box::pin(async move { self.live().get(key, at) })
    }

    fn range(
        &self,
        range: KeyRange,
        at: At,
        limit: Option<usize>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(async move { self.live().snapshot().range(&range, at, limit) })
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        self.write(transaction)
    }

    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        self.live().watch(range, after)
    }

    fn revision(&self) -> Revision {
        self.live().newest()
    }

    fn health(&self) -> Result<(), Error> {
        self.can_write()
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.live().snapshot().check_happened(through)?;
            self.forget(through).await
        })
    }
}
