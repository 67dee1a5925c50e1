//! What every store on a [`Live`] state does in the same way.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::Live;
use crate::{At, Error, KeyRange, Lookup, Page, Revision, Store, Transaction, Watch};

/// A store whose state is in this process: all but the writes is alike.
pub(crate) trait OnLive: Send + Sync + 'static {
    fn live(&self) -> &Arc<Live>;

    /// See [`Store::health`].
    fn can_write(&self) -> Result<(), Error>;

    /// See [`Store::commit`].
    fn write(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>>;

    /// See [`Store::compact`]; `through` has happened.
    fn forget(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>>;
}

impl<S: OnLive> Store for S {
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
