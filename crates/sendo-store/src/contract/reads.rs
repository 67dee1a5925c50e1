//! Reads: order, pages, older states.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use sendo_world::Random;

use super::{commit, put, value};
use crate::{At, Entry, Error, Key, KeyRange, Revision, Store, Transaction};

/// A read returns the bytes that were put, and the revision that was read.
pub async fn a_key_is_read_as_it_was_put(store: impl Store) {
    let empty = store.revision();
    let found = store.get("a", At::Latest).await.unwrap();
    assert!(found.entry.is_none());
    assert_eq!(found.revision, empty);

    let bytes: Bytes = (0..=255).collect::<Vec<u8>>().into();
    let put_at = commit(&store, Transaction::new().put("a", bytes.clone())).await;
    let other = put(&store, "b", "").await;
    let found = store.get("a", At::Latest).await.unwrap();
    let entry = found.entry.expect("put before");
    assert_eq!((&*entry.key, &entry.value), ("a", &bytes));
    assert_eq!((entry.modified, found.revision), (put_at, other));
    assert_eq!(value(&store, "b", At::Latest).await.unwrap(), "");
    assert_eq!(value(&store, "a", At::Revision(empty)).await, None);
}

/// Keys are ordered by their bytes, and a range has the keys between its bounds.
pub async fn a_range_is_read_in_byte_order(store: impl Store) {
    for key in ["b/2", "b/10", "a", "é", "b", "b0", "b/é", "c", "Z"] {
        put(&store, key, "1").await;
    }
    let keys = async |range: KeyRange| {
        let page = store.range(range, At::Latest, None).await.unwrap();
        assert_eq!(page.remaining, 0);
        assert_eq!(page.revision, store.revision());
        keys_of(&page.entries)
    };
    let all = ["Z", "a", "b", "b/10", "b/2", "b/é", "b0", "c", "é"];
    assert_eq!(keys(KeyRange::all()).await, all);
    assert_eq!(keys(KeyRange::prefix("b/")).await, ["b/10", "b/2", "b/é"]);
    assert_eq!(keys(KeyRange::one("b")).await, ["b"]);
    assert_eq!(keys(KeyRange::after("b/10", "b/")).await, ["b/2", "b/é"]);
    let half_open = KeyRange {
        from: Bound::Excluded("a".into()),
        to: Bound::Included("b/10".into()),
    };
    assert_eq!(keys(half_open).await, ["b", "b/10"]);
}

/// A range whose start is after its end, or that excludes its only key, is empty.
pub async fn an_inverted_range_is_empty(store: impl Store) {
    put(&store, "b", "1").await;
    let inverted = KeyRange {
        from: Bound::Included("c".into()),
        to: Bound::Included("a".into()),
    };
    let nothing = KeyRange {
        from: Bound::Excluded("b".into()),
        to: Bound::Excluded("b".into()),
    };
    for range in [inverted, nothing, KeyRange::prefix("a")] {
        let page = store.range(range, At::Latest, None).await.unwrap();
        assert_eq!((page.entries.len(), page.remaining), (0, 0));
    }
}

/// Each page has the number of remaining entries, and further pages at the revision of the first one
/// show the same state.
pub async fn pages_show_one_state_during_writes(store: impl Store) {
    for number in 0..7 {
        put(&store, &format!("p/{number}"), "old").await;
    }
    put(&store, "q", "old").await;

    let mut range = KeyRange::prefix("p/");
    let (mut at, mut seen, mut left) = (At::Latest, Vec::new(), Vec::new());
    loop {
        let page = store.range(range, at, Some(3)).await.unwrap();
        seen.extend(page.entries.iter().map(|entry| entry.key.to_string()));
        assert!(page.entries.iter().all(|entry| entry.value == "old"));
        left.push(page.remaining);
        if page.remaining == 0 {
            break;
        }
        at = At::Revision(page.revision);
        let last = page.entries.last().expect("a page with more to come");
        range = KeyRange::after(&last.key, "p/");

        let meanwhile = Transaction::new()
            .put(format!("p/{}5", seen.len()), "new")
            .put("p/6", "new")
            .delete("p/4");
        commit(&store, meanwhile).await;
    }
    assert_eq!(left, [4, 1, 0]);
    assert_eq!(seen, (0..7).map(|n| format!("p/{n}")).collect::<Vec<_>>());

    let counted = store.range(KeyRange::prefix("p/"), At::Latest, Some(0));
    assert_eq!(counted.await.unwrap().remaining, 8);
}

/// Random transactions, then every state since: by key, by range and by page.
pub async fn states_agree_with_a_replay_at_every_revision(store: impl Store) {
    const KEYS: [&str; 8] = ["a", "a/1", "a/2", "a/3", "b/1", "b/2", "b/3", "c"];
    let random = Random::from_seed(11);
    let mut state = BTreeMap::<Key, (Bytes, Revision, Revision)>::new();
    let mut states = BTreeMap::from([(store.revision(), state.clone())]);

    for step in 0..120 {
        let mut transaction = Transaction::new();
        let next = Revision(store.revision().0 + 1);
        for key in KEYS {
            match random.below(0..6) {
                0 => {
                    let value = Bytes::from(format!("{step}"));
                    let created = state.get(key).map_or(next, |(_, created, _)| *created);
                    state.insert(key.into(), (value.clone(), created, next));
                    transaction = transaction.put(key, value);
                }
                1 => {
                    state.remove(key);
                    transaction = transaction.delete(key);
                }
                _ => {}
            }
        }
        states.insert(commit(&store, transaction).await, state.clone());
    }

    for (&revision, expected) in &states {
        let at = At::Revision(revision);
        let whole = store.range(KeyRange::all(), at, None).await.unwrap();
        let read = whole.entries.iter().map(|entry| {
            let content = (entry.value.clone(), entry.created, entry.modified);
            (entry.key.clone(), content)
        });
        assert!(read.eq(expected.clone()), "at {revision}");
        assert_eq!(whole.revision, revision);

        let part = KeyRange::prefix("a/");
        let page = store.range(part.clone(), at, Some(1)).await.unwrap();
        let within = expected.keys().filter(|key| part.contains(key));
        let within: Vec<_> = within.map(|key| key.to_string()).collect();
        assert_eq!(page.remaining as usize, within.len().saturating_sub(1));
        assert!(keys_of(&page.entries).iter().eq(within.first()));

        for key in KEYS {
            let expected = expected.get(key).map(|(value, ..)| value.clone());
            assert_eq!(
                value(&store, key, at).await,
                expected,
                "{key} at {revision}"
            );
        }
    }
}

/// A revision ahead of the newest one can be neither read nor compacted.
pub async fn a_future_revision_cannot_be_read(store: impl Store) {
    let newest = put(&store, "a", "1").await;
    let requested = Revision(newest.0 + 1);
    let errors = [
        store.get("a", At::Revision(requested)).await.err(),
        store
            .range(KeyRange::all(), At::Revision(requested), None)
            .await
            .err(),
        store.compact(requested).await.err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Some(Error::Future { requested: a, newest: n }) if (a, n) == (requested, newest)),
            "{error:?}"
        );
    }
    assert_eq!(value(&store, "a", At::Latest).await.unwrap(), "1");
}

/// The revision compacted through is the oldest that can be read.
pub async fn compaction_forgets_earlier_states_and_keeps_later_ones(store: impl Store) {
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    let third = commit(&store, Transaction::new().delete("a")).await;
    store.compact(second).await.unwrap();
    store.compact(first).await.expect("nothing more to forget");

    let errors = [
        store.get("a", At::Revision(first)).await.err(),
        store
            .range(KeyRange::all(), At::Revision(first), None)
            .await
            .err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Some(Error::Compacted { requested, oldest })
                if (requested, oldest) == (first, second)),
            "{error:?}"
        );
    }
    assert_eq!(value(&store, "a", At::Revision(second)).await.unwrap(), "2");
    assert_eq!(value(&store, "a", At::Revision(third)).await, None);

    store.compact(third).await.unwrap();
    assert_eq!(value(&store, "a", At::Revision(third)).await, None);
    assert_eq!(store.revision(), third);
}

fn keys_of(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| entry.key.to_string()).collect()
}
