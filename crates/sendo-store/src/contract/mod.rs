//! The contract of back ends, as tests that run with any of them.
//!
//! Each function tests one behaviour: it takes an empty store and panics if the store
//! behaves differently. [`contract!`](crate::contract!) makes a test of each. No test
//! depends on how fast a back end is or on which revision an empty store has, so they
//! hold for a remote store too.
//!
//! [`record`] checks what watches returned against what was written; it can be used
//! wherever changes are passed on.
//!
//! Requires the cargo feature `contract`.

mod concurrency;
mod reads;
pub mod record;
mod watches;
mod writes;

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use sendo_world::World;

use crate::{At, Batch, Error, KeyRange, Revision, Store, Transaction, Watch};

pub use concurrency::*;
pub use reads::*;
pub use watches::*;
pub use writes::*;

/// Makes a test of every behaviour in [`contract`](mod@crate::contract).
///
/// Takes an `async fn(keep: Option<usize>) -> impl Store` that opens an empty
/// store; with `Some`, one that keeps no more than that many changes that a
/// watch has not read. The tests run on tokio, with the features `macros` and
/// `rt-multi-thread`.
///
/// ```
/// use sendo_store::{Memory, Retention};
/// use sendo_world::World;
///
/// async fn open(keep: Option<usize>) -> Memory {
///     let mut options = Retention::default();
///     options.keep_changes = keep.unwrap_or(options.keep_changes);
///     Memory::new(World::seeded(0).clock().clone(), options)
/// }
///
/// sendo_store::contract!(open);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! contract {
    ($open:path) => {
        $crate::contract! { @each $open =>
            every_change_increments_the_revision
            a_transaction_changes_several_keys_at_one_revision
            a_transaction_without_changes_leaves_the_revision
            a_put_of_the_same_value_is_a_change
            a_key_put_again_after_its_deletion_is_a_new_one
            a_guard_for_absence_holds_only_without_the_key
            a_guard_for_no_change_holds_only_at_its_revision
            a_guard_that_fails_prevents_every_write
            the_first_guard_that_fails_is_named
            a_key_written_twice_is_refused
            what_follows_a_transaction_takes_the_next_revision
            what_follows_a_transaction_sees_what_that_left
            neither_takes_place_if_what_follows_cannot
            a_key_is_read_as_it_was_put
            a_range_is_read_in_byte_order
            an_inverted_range_is_empty
            pages_show_one_state_during_writes
            states_agree_with_a_replay_at_every_revision
            a_future_revision_cannot_be_read
            compaction_forgets_earlier_states_and_keeps_later_ones
            a_watch_begins_with_what_came_after_its_revision
            a_watch_shows_each_key_before_and_after
            a_waiting_watch_is_woken
            a_change_is_handed_out_before_its_commit_is_answered
            a_watch_sees_a_transaction_whole_within_its_range
            a_transaction_without_changes_is_not_watched
            a_watch_after_a_future_revision_starts_there
            a_watch_of_compacted_changes_is_refused
            compaction_does_not_end_a_watch_that_has_read_the_changes
            compaction_leaves_no_gap_in_a_watch
            a_dropped_watch_does_not_affect_others
            a_dropped_next_loses_no_item
            progress_moves_with_writes_outside_the_range
            progress_never_passes_an_unread_change
            no_update_is_lost_between_writers
            watches_agree_with_what_concurrent_writers_wrote
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_watch_that_falls_behind_is_cut_off() {
            let keep = 8;
            $crate::contract::a_watch_that_falls_behind_is_cut_off($open(Some(keep)).await, keep)
                .await;
        }
    };
    (@each $open:path => $($behaviour:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                $crate::contract::$behaviour($open(None).await).await;
            }
        )*
    };
}

/// Longer than any back end takes to deliver a change.
const TIMEOUT: Duration = Duration::from_secs(10);

async fn commit(store: &impl Store, transaction: Transaction) -> Revision {
    let committed = store.commit(transaction).await;
    committed.expect("the transaction goes through")
}

async fn put(store: &impl Store, key: &str, value: &str) -> Revision {
    commit(store, Transaction::new().put(key, value.to_owned())).await
}

async fn value(store: &impl Store, key: &str, at: At) -> Option<Bytes> {
    let found = store.get(key, at).await.expect("the revision is kept");
    found.entry.map(|entry| entry.value.clone())
}

/// The watch's next item.
async fn item(watch: &mut Watch) -> Option<Result<Batch, Error>> {
    let world = World::seeded(0);
    tokio::select! {
        // The timeout is polled first, so that an item is not taken if the watch was never woken.
        biased;
        () = world.clock().sleep(TIMEOUT) => panic!("the watch has returned no item in time"),
        item = watch.next() => item,
    }
}

async fn next(watch: &mut Watch) -> Batch {
    let item = item(watch).await.expect("the watch goes on");
    item.expect("the watch gives a transaction")
}

/// The revision and the changed keys of the next item.
async fn next_keys(watch: &mut Watch) -> (Revision, Vec<String>) {
    let batch = next(watch).await;
    let keys = batch.changes.iter().map(|change| change.key.to_string());
    (batch.revision, keys.collect())
}

/// The error of a watch that cannot be opened, which may be its first item.
async fn refusal(store: &impl Store, range: KeyRange, after: Revision) -> Error {
    match store.watch(range, after) {
        Err(error) => error,
        Ok(mut watch) => {
            let first = item(&mut watch).await.expect("a reason");
            first.expect_err("the watch is refused")
        }
    }
}
