//! Keeps a view of a range of the store that is never older than the store.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use parking_lot::{Mutex, RwLock};
use sendo_apimachinery::Status;
use sendo_store::{At, Change, Entry, KeyRange, Store, Watch};

use crate::catalog::storage::backend;

/// What is derived from a range of keys, one change at a time.
pub(crate) trait View: Default + Send + Sync {
    /// Applies what a key holds now.
    fn put(&mut self, entry: &Entry);
    /// Applies the removal of a key.
    fn remove(&mut self, key: &str);
}

/// A [`View`] of some ranges of the store.
///
/// It is read from the store at the first use, and then follows the store's changes.
/// Each use first applies what has been committed until then: stores hand out a
/// change before they answer its commit (part of the store's contract:
/// `a_change_is_handed_out_before_its_commit_is_answered`), so a client whose
/// write was answered finds it here. No task runs in between; a view that is not used costs
/// what the store keeps of the past, and is read again if that was not enough.
pub(crate) struct Follow<V> {
    store: Arc<dyn Store>,
    prefixes: &'static [&'static str],
    watches: Mutex<Vec<Watch>>,
    view: RwLock<V>,
}

impl<V: View> Follow<V> {
    /// Follows the keys below `prefixes`.
    pub(crate) fn new(store: Arc<dyn Store>, prefixes: &'static [&'static str]) -> Self {
        Follow {
            store,
            prefixes,
            watches: Mutex::default(),
            view: RwLock::default(),
        }
    }

    /// Reads the view as it is now.
    pub(crate) async fn read<R>(&self, read: impl FnOnce(&V) -> R) -> Result<R, Status> {
        while !self.catch_up() {
            self.read_store().await?;
        }
        let view = self.view.read();
        Ok(read(&view))
    }

    /// Applies what has changed; false if the store no longer has these changes.
    fn catch_up(&self) -> bool {
        let mut watches = self.watches.lock();
        if watches.is_empty() {
            return false;
        }
        for watch in watches.iter_mut() {
            while let Some(next) = watch.next().now_or_never() {
                let Some(Ok(batch)) = next else {
                    watches.clear();
                    return false;
                };
                let mut view = self.view.write();
                for change in batch.changes.iter() {
                    apply(&mut *view, change);
                }
            }
        }
        true
    }

    async fn read_store(&self) -> Result<(), Status> {
        let mut view = V::default();
        let mut opened = Vec::new();
        for prefix in self.prefixes {
            let range = KeyRange::prefix(prefix);
            let page = self.store.range(range.clone(), At::Latest, None).await;
            let page = page.map_err(backend)?;
            page.entries.iter().for_each(|entry| view.put(entry));
            opened.push(self.store.watch(range, page.revision).map_err(backend)?);
        }
        let mut watches = self.watches.lock();
        // Another request may have read the store meanwhile: its view is as new.
        if watches.is_empty() {
            *watches = opened;
            *self.view.write() = view;
        }
        Ok(())
    }
}

fn apply(view: &mut impl View, change: &Change) {
    match &change.now {
        Some(entry) => view.put(entry),
        None => view.remove(&change.key),
    }
}

impl<V> std::fmt::Debug for Follow<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow")
            .field("prefixes", &self.prefixes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sendo_store::{Memory, Retention, Transaction};
    use sendo_world::World;

    use super::*;

    #[derive(Default)]
    struct Keys(BTreeSet<String>);

    impl View for Keys {
        fn put(&mut self, entry: &Entry) {
            self.0.insert(entry.key.to_string());
        }

        fn remove(&mut self, key: &str) {
            self.0.remove(key);
        }
    }

    fn store(keep_changes: usize) -> Arc<dyn Store> {
        let options = Retention {
            keep_changes,
            ..Retention::default()
        };
        Arc::new(Memory::new(World::seeded(1).clock().clone(), options))
    }

    async fn put(store: &Arc<dyn Store>, key: &str) {
        let put = Transaction::new().put(key, "x");
        store.commit(put).await.unwrap();
    }

    #[tokio::test]
    async fn a_committed_write_is_seen_by_the_next_look() {
        let store = store(100);
        put(&store, "/a/1").await;
        let follow: Follow<Keys> = Follow::new(Arc::clone(&store), &["/a/", "/b/"]);
        assert_eq!(follow.read(|keys| keys.0.len()).await.unwrap(), 1);
        put(&store, "/b/1").await;
        put(&store, "/c/1").await;
        let gone = Transaction::new().delete("/a/1");
        store.commit(gone).await.unwrap();
        let keys = follow.read(|keys| keys.0.clone()).await.unwrap();
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["/b/1"]);
    }

    #[tokio::test]
    async fn a_view_left_behind_by_compaction_is_read_anew() {
        let store = store(2);
        let follow: Follow<Keys> = Follow::new(Arc::clone(&store), &["/a/"]);
        assert_eq!(follow.read(|keys| keys.0.len()).await.unwrap(), 0);
        for i in 0..10 {
            put(&store, &format!("/a/{i}")).await;
        }
        assert_eq!(follow.read(|keys| keys.0.len()).await.unwrap(), 10);
    }
}
