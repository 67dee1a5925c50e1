//! Watches: their start, their range, their end.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use sendo_world::World;

use super::{TIMEOUT, commit, item, next, next_keys, put, refusal};
use crate::{At, Error, KeyRange, Revision, Store, Transaction, Watch};

/// What was committed before the watch was opened comes first, then what is committed later.
pub async fn a_watch_begins_with_what_came_after_its_revision(store: impl Store) {
    let first = put(&store, "a/1", "1").await;
    let second = put(&store, "a/2", "1").await;
    put(&store, "b/1", "1").await;
    let open = |after| store.watch(KeyRange::prefix("a/"), after).unwrap();
    let mut late = open(first);
    let mut early = [Revision(first.0 - 1); 2].map(open);
    let third = put(&store, "a/3", "1").await;

    for watch in &mut early {
        assert_eq!(next(watch).await.revision, first);
    }
    for watch in early.iter_mut().chain([&mut late]) {
        assert_eq!(next_keys(watch).await, (second, vec!["a/2".to_owned()]));
        assert_eq!(next_keys(watch).await, (third, vec!["a/3".to_owned()]));
    }
}

/// A change has the entry it made and the one it replaced.
pub async fn a_watch_shows_each_key_before_and_after(store: impl Store) {
    let start = store.revision();
    let created = put(&store, "a", "1").await;
    let updated = put(&store, "a", "2").await;
    let deleted = commit(&store, Transaction::new().delete("a")).await;
    let mut watch = store.watch(KeyRange::one("a"), start).unwrap();
    let one_to_two = (Some(("1", created)), Some(("2", updated)));
    let steps = [
        (created, (None, one_to_two.0)),
        (updated, one_to_two),
        (deleted, (one_to_two.1, None)),
    ];
    for (revision, (before, now)) in steps {
        let batch = next(&mut watch).await;
        let change = &batch.changes[0];
        assert_eq!((batch.changes.len(), &*change.key), (1, "a"));
        assert_eq!((batch.revision, change.revision), (revision, revision));
        for (entry, expected) in [(&change.before, before), (&change.now, now)] {
            let entry = entry.as_ref();
            assert_eq!(
                entry.map(|entry| (&entry.value[..], entry.modified)),
                expected.map(|(value, modified)| (value.as_bytes(), modified)),
            );
            assert!(entry.is_none_or(|entry| entry.created == created));
        }
    }
}

/// A watch that waits before the commit returns its change.
pub async fn a_waiting_watch_is_woken(store: impl Store) {
    let mut watch = store.watch(KeyRange::all(), store.revision()).unwrap();
    // The watch is polled first, and finds nothing.
    let (batch, revision) = futures::join!(next(&mut watch), put(&store, "a", "1"));
    assert_eq!(batch.revision, revision);
}

/// Whoever has been answered a commit finds it in every watch, without waiting: a
/// view that follows a watch can be brought up to any write its reader knows of.
pub async fn a_change_is_handed_out_before_its_commit_is_answered(store: impl Store) {
    let start = store.revision();
    let mut watches = ["", "a/"].map(|prefix| {
        let range = KeyRange::prefix(prefix);
        store.watch(range, start).unwrap()
    });
    for i in 0..20 {
        let committed = put(&store, &format!("a/{i}"), "1").await;
        for watch in &mut watches {
            let next = watch.next().now_or_never();
            let batch = next
                .expect("the change is there")
                .expect("the watch goes on");
            assert_eq!(batch.unwrap().revision, committed);
            assert!(watch.next().now_or_never().is_none(), "and nothing else");
        }
    }
    // One that is opened after the answer has it too.
    let last = store.revision();
    let mut late = store.watch(KeyRange::all(), Revision(last.0 - 1)).unwrap();
    let next = late.next().now_or_never();
    let batch = next
        .expect("the change is there")
        .expect("the watch goes on");
    assert_eq!(batch.unwrap().revision, last);
}

/// One item for each revision, with those of its changes that are in range, in
/// the order they were written.
pub async fn a_watch_sees_a_transaction_whole_within_its_range(store: impl Store) {
    let start = store.revision();
    let mut some = store.watch(KeyRange::prefix("a/"), start).unwrap();
    let mut all = store.watch(KeyRange::all(), start).unwrap();
    let first = Transaction::new()
        .put("a/2", "1")
        .put("b", "1")
        .put("a/1", "1");
    let first = commit(&store, first).await;
    put(&store, "b", "2").await;
    let third = Transaction::new().delete("a/1").put("c", "1").delete("a/2");
    let third = commit(&store, third).await;

    let mut late = store.watch(KeyRange::prefix("a/"), start).unwrap();
    let owned = |keys: &[&str]| keys.iter().map(|key| key.to_string()).collect::<Vec<_>>();
    for watch in [&mut some, &mut late] {
        assert_eq!(next_keys(watch).await, (first, owned(&["a/2", "a/1"])));
        assert_eq!(next_keys(watch).await, (third, owned(&["a/1", "a/2"])));
    }
    assert_eq!(next_keys(&mut all).await.1, owned(&["a/2", "b", "a/1"]));
    assert_eq!(next_keys(&mut all).await.1, owned(&["b"]));
    assert_eq!(next_keys(&mut all).await.1, owned(&["a/1", "c", "a/2"]));
}

/// No item for conflicts, for deletions of absent keys and for empty transactions.
pub async fn a_transaction_without_changes_is_not_watched(store: impl Store) {
    let mut watch = store.watch(KeyRange::all(), store.revision()).unwrap();
    commit(&store, Transaction::new()).await;
    commit(&store, Transaction::new().delete("a")).await;
    let conflict = Transaction::new().unchanged("a", Revision(1)).put("a", "1");
    assert!(store.commit(conflict).await.is_err());
    // Of two writes one may change nothing: it is not part of the change.
    let half = commit(&store, Transaction::new().delete("a").put("b", "1")).await;
    assert_eq!(next_keys(&mut watch).await, (half, vec!["b".to_owned()]));
}

/// A watch may be opened after a revision that is still to come.
pub async fn a_watch_after_a_future_revision_starts_there(store: impl Store) {
    let ahead = Revision(store.revision().0 + 2);
    let mut watch = store.watch(KeyRange::all(), ahead).unwrap();
    assert_eq!(watch.progress(), ahead);
    put(&store, "a", "1").await;
    put(&store, "a", "2").await;
    let third = put(&store, "a", "3").await;
    assert_eq!(next(&mut watch).await.revision, third);
}

/// The revision compacted through is the oldest that can be watched after,
/// whether or not the range has changed since.
pub async fn a_watch_of_compacted_changes_is_refused(store: impl Store) {
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    let third = put(&store, "a", "3").await;
    store.compact(second).await.unwrap();
    for range in [KeyRange::all(), KeyRange::prefix("quiet/")] {
        let error = refusal(&store, range, first).await;
        assert!(
            matches!(error, Error::Compacted { requested, oldest }
                if (requested, oldest) == (first, second)),
            "{error:?}"
        );
    }
    let mut watch = store.watch(KeyRange::all(), second).unwrap();
    assert_eq!(next(&mut watch).await.revision, third);
}

/// Compaction does not end watches that have read the changes, or whose range has none.
pub async fn compaction_does_not_end_a_watch_that_has_read_the_changes(store: impl Store) {
    let start = store.revision();
    let mut reader = store.watch(KeyRange::prefix("a"), start).unwrap();
    let mut quiet = store.watch(KeyRange::prefix("b"), start).unwrap();
    put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    next(&mut reader).await;
    next(&mut reader).await;
    store.compact(second).await.unwrap();

    let both = commit(&store, Transaction::new().put("a", "3").put("b", "1")).await;
    assert_eq!(next(&mut reader).await.revision, both);
    assert_eq!(next(&mut quiet).await.revision, both);
}

/// A watch whose unread changes are forgotten ends. A back end may have delivered some of them
/// before: then these come first, and if it delivered all, the watch goes on.
pub async fn compaction_leaves_no_gap_in_a_watch(store: impl Store) {
    let mut seen = store.revision();
    let mut watch = store.watch(KeyRange::all(), seen).unwrap();
    for number in 0..4 {
        put(&store, "a", &number.to_string()).await;
    }
    let newest = put(&store, "a", "newest").await;
    store.compact(newest).await.unwrap();
    while seen < newest {
        if let Err((requested, oldest)) = read_one(&mut watch, &mut seen).await {
            assert_eq!((requested, oldest), (seen, newest));
            assert!(watch.next().await.is_none(), "nothing follows an error");
            return;
        }
    }
    let next_one = put(&store, "a", "on").await;
    assert_eq!(next(&mut watch).await.revision, next_one);
}

/// A watch that is not read blocks neither writers nor other watches. Once more is unread than the
/// store keeps, it ends, and the reader can start again with a read.
pub async fn a_watch_that_falls_behind_is_cut_off(store: impl Store, keep: usize) {
    let start = store.revision();
    let mut slow = store.watch(KeyRange::all(), start).unwrap();
    let mut fast = store.watch(KeyRange::all(), start).unwrap();
    for number in 0..keep * 10 {
        let revision = put(&store, "a", &number.to_string()).await;
        assert_eq!(next(&mut fast).await.revision, revision);
    }

    let mut seen = start;
    let (requested, oldest) = loop {
        if let Err(cut) = read_one(&mut slow, &mut seen).await {
            break cut;
        }
    };
    assert_eq!(requested, seen);
    assert!(oldest > seen, "{oldest} after {seen}");
    assert_eq!(slow.progress(), seen);
    assert!(slow.next().await.is_none(), "nothing follows an error");

    let page = store
        .range(KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    let mut again = store.watch(KeyRange::all(), page.revision).unwrap();
    let revision = put(&store, "a", "again").await;
    assert_eq!(next(&mut again).await.revision, revision);
}

/// Dropping a watch cancels it.
pub async fn a_dropped_watch_does_not_affect_others(store: impl Store) {
    let start = store.revision();
    let open = || store.watch(KeyRange::prefix("a"), start).unwrap();
    let (mut one, two, mut three) = (open(), open(), open());
    let first = put(&store, "a", "1").await;
    assert_eq!(next(&mut three).await.revision, first);
    drop(two);
    assert_eq!(next(&mut one).await.revision, first);
    drop(three);
    let second = put(&store, "a", "2").await;
    assert_eq!(next(&mut one).await.revision, second);
    drop(one);
    put(&store, "a", "3").await;
    let mut later = store.watch(KeyRange::prefix("a"), first).unwrap();
    assert_eq!(next(&mut later).await.revision, second);
}

/// Waiting for the next item is cancel safe.
pub async fn a_dropped_next_loses_no_item(store: impl Store) {
    let mut watch = store.watch(KeyRange::all(), store.revision()).unwrap();
    assert!(watch.next().now_or_never().is_none());
    let first = put(&store, "a", "1").await;
    drop(watch.next());
    assert_eq!(next(&mut watch).await.revision, first);
}

/// The progress of a watch increases with writes outside its range.
pub async fn progress_moves_with_writes_outside_the_range(store: impl Store) {
    let start = store.revision();
    let mut watch = store.watch(KeyRange::prefix("a/"), start).unwrap();
    assert!(watch.progress() >= start);
    put(&store, "b/1", "1").await;
    let newest = put(&store, "b/2", "1").await;

    let world = World::seeded(0);
    let clock = world.clock();
    let reached = clock.timeout(TIMEOUT, async {
        while watch.progress() < newest {
            let short = Duration::from_millis(10);
            let item = clock.timeout(short, watch.next()).await;
            assert!(item.is_none(), "nothing changed in the range: {item:?}");
        }
    });
    reached.await.expect("progress in time");
    let progress = watch.progress();

    let resumed = store.watch(KeyRange::prefix("a/"), progress);
    let revision = put(&store, "a/1", "1").await;
    assert_eq!(next(&mut watch).await.revision, revision);
    assert_eq!(next(&mut resumed.unwrap()).await.revision, revision);
}

/// A watch that is resumed from the progress of another one misses nothing.
pub async fn progress_never_passes_an_unread_change(store: impl Store) {
    let mut watch = store
        .watch(KeyRange::prefix("a/"), store.revision())
        .unwrap();
    put(&store, "b", "1").await;
    let first = put(&store, "a/1", "1").await;
    let second = put(&store, "a/2", "1").await;
    put(&store, "b", "2").await;
    assert!(watch.progress() < first);
    assert_eq!(next(&mut watch).await.revision, first);
    assert!((first..second).contains(&watch.progress()));
    assert_eq!(next(&mut watch).await.revision, second);
    assert!(watch.progress() >= second);
}

/// Reads one item, which must be the next revision or `Compacted`, whose two revisions are returned.
async fn read_one(watch: &mut Watch, seen: &mut Revision) -> Result<(), (Revision, Revision)> {
    match item(watch).await {
        Some(Ok(batch)) => {
            assert_eq!(batch.revision.0, seen.0 + 1, "no gap");
            *seen = batch.revision;
            Ok(())
        }
        Some(Err(Error::Compacted { requested, oldest })) => Err((requested, oldest)),
        other => panic!("neither a change nor `Compacted`: {other:?}"),
    }
}
