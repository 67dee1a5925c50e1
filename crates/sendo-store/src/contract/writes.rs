//! Transactions: revisions, atomicity, guards.

use super::{commit, next_keys, put, value};
use crate::{At, Error, KeyRange, Revision, Store, Transaction};

/// Each transaction that changes something takes the next revision, whichever keys it writes.
pub async fn every_change_increments_the_revision(store: impl Store) {
    let start = store.revision();
    assert_eq!(put(&store, "a", "1").await, Revision(start.0 + 1));
    assert_eq!(put(&store, "b", "1").await, Revision(start.0 + 2));
    let deletion = commit(&store, Transaction::new().delete("a")).await;
    assert_eq!(deletion, Revision(start.0 + 3));
    assert_eq!(store.revision(), deletion);
}

/// All writes of a transaction share its revision.
pub async fn a_transaction_changes_several_keys_at_one_revision(store: impl Store) {
    put(&store, "gone", "1").await;
    let both = Transaction::new()
        .put("a", "1")
        .delete("gone")
        .put("b", "2");
    let revision = commit(&store, both).await;
    for key in ["a", "b"] {
        let found = store.get(key, At::Latest).await.unwrap();
        let entry = found.entry.expect("put just now");
        assert_eq!((entry.created, entry.modified), (revision, revision));
        assert_eq!(found.revision, revision);
    }
    assert_eq!(value(&store, "gone", At::Latest).await, None);
}

/// An empty transaction and the deletion of an absent key return the newest revision.
pub async fn a_transaction_without_changes_leaves_the_revision(store: impl Store) {
    let revision = put(&store, "a", "1").await;
    assert_eq!(commit(&store, Transaction::new()).await, revision);
    let absent = Transaction::new().delete("b");
    assert_eq!(commit(&store, absent).await, revision);
    let guarded = Transaction::new().unchanged("a", revision);
    assert_eq!(commit(&store, guarded).await, revision);
    assert_eq!(store.revision(), revision);
}

/// The store does not compare values.
pub async fn a_put_of_the_same_value_is_a_change(store: impl Store) {
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "1").await;
    assert_eq!(second, Revision(first.0 + 1));
}

/// An entry has the revisions that created its key and that last changed it.
pub async fn a_key_put_again_after_its_deletion_is_a_new_one(store: impl Store) {
    let times = async || {
        let found = store.get("a", At::Latest).await.unwrap();
        let entry = found.entry.expect("put before");
        (entry.created, entry.modified)
    };
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    assert_eq!(times().await, (first, second));

    commit(&store, Transaction::new().delete("a")).await;
    let third = put(&store, "a", "3").await;
    assert_eq!(times().await, (third, third));
}

/// [`Expect::Absent`](crate::Expect::Absent) guards the creation of a key.
pub async fn a_guard_for_absence_holds_only_without_the_key(store: impl Store) {
    let create = |value: &'static str| Transaction::new().absent("a").put("a", value);
    let revision = commit(&store, create("1")).await;
    let Err(Error::Conflict { key, found }) = store.commit(create("2")).await else {
        panic!("a was created twice");
    };
    assert_eq!(&*key, "a");
    assert_eq!(found.expect("what is there").modified, revision);

    commit(&store, Transaction::new().delete("a")).await;
    commit(&store, create("3")).await;
    assert_eq!(value(&store, "a", At::Latest).await.unwrap(), "3");
}

/// [`Expect::Unchanged`](crate::Expect::Unchanged) guards the update of a key that was read.
pub async fn a_guard_for_no_change_holds_only_at_its_revision(store: impl Store) {
    let update = |revision| Transaction::new().unchanged("a", revision).put("a", "new");
    let first = put(&store, "a", "1").await;
    put(&store, "other", "1").await;
    let second = commit(&store, update(first)).await;
    let wrong = [first, Revision(second.0 + 1), Revision(0)];
    for revision in wrong {
        let outcome = store.commit(update(revision)).await;
        assert!(
            matches!(&outcome, Err(Error::Conflict { found: Some(found), .. })
                if found.modified == second),
            "{revision}: {outcome:?}"
        );
    }
    commit(&store, Transaction::new().delete("a")).await;
    let outcome = store.commit(update(second)).await;
    assert!(
        matches!(outcome, Err(Error::Conflict { found: None, .. })),
        "{outcome:?}"
    );
}

/// A transaction with a conflict changes nothing.
pub async fn a_guard_that_fails_prevents_every_write(store: impl Store) {
    let before = put(&store, "a", "1").await;
    let mixed = Transaction::new()
        .absent("b")
        .absent("a")
        .put("b", "2")
        .put("a", "2")
        .delete("a2");
    assert!(matches!(
        store.commit(mixed).await,
        Err(Error::Conflict { .. })
    ));
    assert_eq!(store.revision(), before);
    assert_eq!(value(&store, "a", At::Latest).await.unwrap(), "1");
    assert_eq!(value(&store, "b", At::Latest).await, None);
}

/// Guards are checked in order, against the state before the writes.
pub async fn the_first_guard_that_fails_is_named(store: impl Store) {
    put(&store, "a", "1").await;
    let transaction = Transaction::new()
        .absent("c")
        .absent("a")
        .unchanged("b", Revision(1))
        .put("c", "1");
    let outcome = store.commit(transaction).await;
    assert!(
        matches!(&outcome, Err(Error::Conflict { key, .. }) if &**key == "a"),
        "{outcome:?}"
    );
}

/// A watch shows each key of a transaction once, so a transaction writes it once.
pub async fn a_key_written_twice_is_refused(store: impl Store) {
    let before = put(&store, "a", "1").await;
    let twice = Transaction::new().put("b", "1").put("a", "2").delete("a");
    let outcome = store.commit(twice).await;
    assert!(
        matches!(&outcome, Err(Error::DuplicateKey { key }) if &**key == "a"),
        "{outcome:?}"
    );
    assert_eq!(store.revision(), before);
    assert_eq!(value(&store, "b", At::Latest).await, None);
}

/// A key that changes twice is seen to change twice, at revisions with nothing between.
pub async fn what_follows_a_transaction_takes_the_next_revision(store: impl Store) {
    let first = put(&store, "a", "1").await;
    let mut watch = store.watch(KeyRange::all(), first).unwrap();
    let marked = Transaction::new().unchanged("a", first).put("a", "2");
    let both = marked.then(Transaction::new().delete("a").put("b", "1"));
    let last = commit(&store, both).await;
    assert_eq!(last, Revision(first.0 + 2));
    assert_eq!(store.revision(), last);
    let expected = [
        (Revision(first.0 + 1), vec!["a".to_owned()]),
        (last, vec!["a".to_owned(), "b".to_owned()]),
    ];
    for step in expected {
        assert_eq!(next_keys(&mut watch).await, step);
    }
    assert_eq!(value(&store, "a", At::Latest).await, None);
    let between = At::Revision(Revision(first.0 + 1));
    assert_eq!(value(&store, "a", between).await.unwrap(), "2");
}

/// The guards of what follows hold for the state that the first transaction made.
pub async fn what_follows_a_transaction_sees_what_that_left(store: impl Store) {
    let start = put(&store, "a", "1").await;
    let removed = Transaction::new().delete("a");
    let created = Transaction::new().absent("a").put("a", "2");
    let marked = Transaction::new()
        .unchanged("a", Revision(start.0 + 2))
        .put("a", "3");
    let last = commit(&store, removed.then(created).then(marked)).await;
    assert_eq!(last, Revision(start.0 + 3));
    // What changes nothing takes no revision there either.
    let nothing = Transaction::new().delete("b");
    let put = Transaction::new().put("b", "1");
    assert_eq!(
        commit(&store, nothing.then(put)).await,
        Revision(last.0 + 1)
    );
}

/// A guard that fails in what follows leaves no trace of what came before it.
pub async fn neither_takes_place_if_what_follows_cannot(store: impl Store) {
    let before = put(&store, "a", "1").await;
    let first = Transaction::new().put("a", "2").put("b", "1");
    for next in [
        Transaction::new().absent("a").delete("b"),
        Transaction::new().put("c", "1").delete("c"),
    ] {
        let outcome = store.commit(first.clone().then(next)).await;
        assert!(
            matches!(
                outcome,
                Err(Error::Conflict { .. } | Error::DuplicateKey { .. })
            ),
            "{outcome:?}"
        );
        assert_eq!(store.revision(), before);
        assert_eq!(value(&store, "a", At::Latest).await.unwrap(), "1");
        assert_eq!(value(&store, "b", At::Latest).await, None);
    }
    // What comes later takes the revision that was not taken.
    assert_eq!(put(&store, "a", "3").await, Revision(before.0 + 1));
}
