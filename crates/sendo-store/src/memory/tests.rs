//! Tests of the store in memory: the contract, retention, watches and their queues.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use sendo_world::World;

use super::*;
use crate::{At, KeyRange, Store, Watch};

async fn open(keep: Option<usize>) -> Memory {
    let defaults = Retention::default();
    memory(Retention {
        keep_changes: keep.unwrap_or(defaults.keep_changes),
        ..defaults
    })
}

crate::contract!(open);

mod with_a_notifier {
    use super::*;

    async fn open(keep: Option<usize>) -> Memory {
        let defaults = Retention::default();
        let retention = Retention {
            keep_changes: keep.unwrap_or(defaults.keep_changes),
            ..defaults
        };
        // The tasks of a world end when it is dropped, so it is leaked.
        let world: &World = Box::leak(Box::new(World::seeded(0)));
        Memory::in_world(world, retention)
    }

    crate::contract!(open);
}

#[tokio::test]
async fn watchers_are_woken_after_the_commit_and_when_the_world_has_stopped_with_it() {
    let world = World::seeded(0);
    let store = Arc::new(Memory::in_world(&world, Retention::default()));
    let mut watch = store.watch(KeyRange::all(), Revision(0)).unwrap();
    let counter = Counter::new(&store);
    counter.wait(&mut watch);
    put(&store, "a", "1").await;
    assert_eq!(counter.woken(), 0, "the commit returns first");
    tokio::task::yield_now().await;
    assert_eq!(counter.woken(), 1);

    watch.next().await.unwrap().unwrap();
    counter.wait(&mut watch);
    world.tasks().stop().await;
    put(&store, "a", "2").await;
    assert_eq!(
        counter.woken(),
        2,
        "the task has ended, so the commit wakes it"
    );
}

fn memory(options: Retention) -> Memory {
    Memory::new(World::seeded(0).clock().clone(), options)
}

async fn put(store: &Memory, key: &str, value: &str) -> Revision {
    let put = Transaction::new().put(key, value.to_owned());
    store.commit(put).await.unwrap()
}

async fn put_times(store: &Memory, times: usize) {
    for _ in 0..times {
        put(store, "a", "0123456789").await;
    }
}

/// The revisions a watch gives without waiting, and whether it was cut off.
fn drain(watch: &mut Watch) -> (Vec<u64>, bool) {
    let mut revisions = Vec::new();
    loop {
        match watch.next().now_or_never() {
            Some(Some(Ok(batch))) => revisions.push(batch.revision.0),
            Some(Some(Err(Error::Compacted { .. }))) => return (revisions, true),
            None => return (revisions, false),
            other => panic!("neither a change nor a cut: {other:?}"),
        }
    }
}

#[tokio::test]
async fn an_empty_store_is_at_revision_zero() {
    let store = memory(Retention::default());
    assert_eq!((store.revision(), store.oldest()), Default::default());
}

#[tokio::test]
async fn history_is_bounded_by_its_number_of_changes() {
    let store = open(Some(10)).await;
    put_times(&store, 25).await;
    assert_eq!(store.oldest(), Revision(15));
    let three = Transaction::new().put("a", "").put("b", "").put("c", "");
    store.commit(three).await.unwrap();
    assert_eq!(store.oldest(), Revision(18));
    // The transaction with three changes is forgotten as a whole, so three more are kept.
    put_times(&store, 20).await;
    assert_eq!(store.oldest(), Revision(36));
}

#[tokio::test]
async fn history_is_bounded_by_the_bytes_of_what_was_replaced() {
    let store = memory(Retention {
        keep_bytes: 45,
        ..Default::default()
    });
    // The first put replaces nothing, and what is current costs no history.
    put_times(&store, 5).await;
    assert_eq!(store.oldest(), Revision(0));
    put_times(&store, 1).await;
    assert_eq!(store.oldest(), Revision(2));
}

#[tokio::test(start_paused = true)]
async fn history_is_bounded_by_its_age() {
    let world = World::seeded(0);
    let store = Memory::new(world.clock().clone(), Retention::default());
    put_times(&store, 3).await;
    world.clock().sleep(Duration::from_secs(200)).await;
    put_times(&store, 1).await;
    world.clock().sleep(Duration::from_secs(101)).await;
    assert_eq!(store.oldest(), Revision(0), "only a commit forgets");
    put_times(&store, 1).await;
    assert_eq!(store.oldest(), Revision(3));
}

#[tokio::test]
async fn the_newest_transaction_is_kept_whatever_its_size() {
    let store = memory(Retention {
        keep_changes: 1,
        keep_bytes: 0,
        ..Default::default()
    });
    put_times(&store, 1).await;
    let mut watch = store.watch(KeyRange::all(), store.revision()).unwrap();
    let two = Transaction::new().put("a", "1").put("b", "2");
    store.commit(two).await.unwrap();
    assert_eq!(drain(&mut watch), (vec![2], false));
}

#[tokio::test]
async fn a_watch_is_cut_off_by_its_first_unread_change_that_is_forgotten() {
    let store = open(Some(10)).await;
    let mut watch = store.watch(KeyRange::all(), Revision(0)).unwrap();
    let mut quiet = store.watch(KeyRange::prefix("q"), Revision(0)).unwrap();
    put_times(&store, 10).await;
    assert_eq!(
        watch
            .next()
            .now_or_never()
            .unwrap()
            .unwrap()
            .unwrap()
            .revision,
        Revision(1)
    );
    put_times(&store, 1).await;
    let read: Vec<_> = (2..=11).collect();
    assert_eq!(drain(&mut watch), (read, false));

    put_times(&store, 11).await;
    assert_eq!(watch.progress(), Revision(11));
    assert_eq!(drain(&mut watch), (vec![], true));
    assert_eq!(drain(&mut quiet), (vec![], false));
    assert_eq!(quiet.progress(), Revision(22));
}

#[tokio::test]
async fn compaction_ends_a_watch_with_unread_changes() {
    // Whether it forgets less or more transactions than there are ranges watched.
    for ranges in [0, 20] {
        let store = memory(Retention::default());
        let open = |prefix: &str| store.watch(KeyRange::prefix(prefix), Revision(0)).unwrap();
        let _elsewhere: Vec<_> = (0..ranges).map(|n| open(&format!("c/{n}"))).collect();
        let (mut changed, mut quiet) = (open("a"), open("b"));
        put_times(&store, 3).await;
        store.compact(Revision(2)).await.unwrap();
        assert_eq!(drain(&mut changed), (vec![], true), "{ranges}");
        assert_eq!(drain(&mut quiet), (vec![], false), "{ranges}");
    }
}

#[tokio::test]
async fn all_watches_are_handed_the_same_change() {
    let store = memory(Retention::default());
    let open = |range| store.watch(range, Revision(0)).unwrap();
    let mut watches = [
        open(KeyRange::all()),
        open(KeyRange::all()),
        open(KeyRange::prefix("a")),
        open(KeyRange::after("A", "")),
    ];
    let both = Transaction::new().put("A", "1").put("a", "1");
    store.commit(both).await.unwrap();
    let mut changes = Vec::new();
    for watch in &mut watches {
        let batch = watch.next().await.unwrap().unwrap();
        changes.push(Arc::clone(batch.changes.last().unwrap()));
    }
    let encoded = changes[0].memo.get_or_init(|| "encoded once".to_owned());
    for change in &changes {
        assert!(Arc::ptr_eq(change, &changes[0]));
        assert!(Arc::ptr_eq(&encoded, &change.memo.get().unwrap()));
    }
    let found = store.get("a", At::Latest).await.unwrap().entry.unwrap();
    assert!(Arc::ptr_eq(&found, changes[0].now.as_ref().unwrap()));
}

#[tokio::test]
async fn what_watchers_derived_from_a_change_is_forgotten_after_a_while() {
    let store = memory(Retention::default());
    let mut watch = store.watch(KeyRange::all(), Revision(0)).unwrap();
    store
        .commit(Transaction::new().put("a", "0"))
        .await
        .unwrap();
    let change = Arc::clone(&watch.next().await.unwrap().unwrap().changes[0]);
    change.memo.get_or_init(|| "encoded");
    let mut is_kept = Vec::new();
    for number in 1..=1001 {
        is_kept.push(change.memo.get::<&str>().is_some());
        let next = Transaction::new().put("b", number.to_string());
        store.commit(next).await.unwrap();
    }
    let kept_until = is_kept.iter().position(|kept| !kept);
    assert_eq!(kept_until, Some(1000));
}

#[tokio::test]
async fn watches_of_one_range_begin_at_their_own_revisions() {
    let store = memory(Retention::default());
    put_times(&store, 40).await;
    let starts = [30, 10, 20, 10, 0, 0, 39];
    let open = |after| store.watch(KeyRange::all(), Revision(after)).unwrap();
    let mut watches = starts.map(open);
    for (watch, start) in watches.iter_mut().zip(starts) {
        assert_eq!(drain(watch), ((start + 1..=40).collect(), false));
    }
}

#[tokio::test]
async fn more_than_a_slice_is_forgotten_at_once() {
    let store = open(Some(2 * SLICE)).await;
    let mut watch = store.watch(KeyRange::all(), Revision(0)).unwrap();
    put_times(&store, 2 * SLICE).await;
    let many = (0..2 * SLICE).fold(Transaction::new(), |t, n| t.put(format!("{n}"), ""));
    let newest = store.commit(many).await.unwrap();
    assert_eq!(store.oldest(), Revision(newest.0 - 1));
    assert_eq!(drain(&mut watch), (vec![], true));

    put_times(&store, SLICE + 1).await;
    store.compact(store.revision()).await.unwrap();
    assert_eq!(store.oldest(), store.revision());
}

/// Counts how often it is woken, and reads the store then, which must not be locked.
struct Counter {
    woken: AtomicUsize,
    store: Weak<Memory>,
}

impl Counter {
    fn new(store: &Arc<Memory>) -> Arc<Self> {
        Arc::new(Counter {
            woken: AtomicUsize::new(0),
            store: Arc::downgrade(store),
        })
    }

    fn wait(self: &Arc<Self>, watch: &mut Watch) {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        assert!(watch.next().poll_unpin(&mut cx).is_pending());
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::Relaxed)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        if let Some(store) = self.store.upgrade() {
            assert!(store.revision() > Revision(0));
        }
    }
}

#[tokio::test]
async fn a_watch_ends_with_its_store_once_it_has_read_all() {
    let store = Arc::new(memory(Retention::default()));
    let mut waiting = store.watch(KeyRange::prefix("b"), Revision(0)).unwrap();
    let mut unread = store.watch(KeyRange::all(), Revision(0)).unwrap();
    put(&store, "a", "1").await;
    let counter = Counter::new(&store);
    counter.wait(&mut waiting);
    drop(store);
    assert_eq!(counter.woken(), 1);
    assert!(waiting.next().await.is_none());
    assert_eq!(unread.next().await.unwrap().unwrap().revision, Revision(1));
    assert!(unread.next().await.is_none());
}

#[tokio::test]
async fn a_commit_wakes_the_watches_of_its_keys_alone_and_holds_no_lock() {
    let store = Arc::new(memory(Retention::default()));
    let ranges = [
        KeyRange::all(),
        KeyRange::prefix("a/"),
        KeyRange::one("a/1"),
        KeyRange::prefix("b/"),
        KeyRange::one("a/2"),
    ];
    let watches = ranges.map(|range| {
        let mut watch = store.watch(range, Revision(0)).unwrap();
        let counter = Counter::new(&store);
        // Waiting twice is being woken once.
        counter.wait(&mut watch);
        counter.wait(&mut watch);
        (watch, counter)
    });
    put(&store, "a/1", "1").await;
    put(&store, "a/1", "2").await;
    let woken = watches.each_ref().map(|(_, counter)| counter.woken());
    assert_eq!(woken, [1, 1, 1, 0, 0]);
}

#[tokio::test]
async fn a_queue_is_removed_with_its_last_watch() {
    let store = memory(Retention::default());
    let one = store.watch(KeyRange::prefix("a"), Revision(0)).unwrap();
    let two = store.watch(KeyRange::prefix("a"), Revision(0)).unwrap();
    let other = store.watch(KeyRange::one("a"), Revision(0)).unwrap();
    assert_eq!(store.live.queues(), 2);
    drop((one, two));
    assert_eq!(store.live.queues(), 1);
    drop(other);
    assert_eq!(store.live.queues(), 0);
}
