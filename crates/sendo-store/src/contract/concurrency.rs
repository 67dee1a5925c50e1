//! Many writers and watchers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use sendo_world::{Random, World};

use super::record::{CommitLog, Record, Seen};
use super::{TIMEOUT, commit, item, put, value};
use crate::{At, Error, Key, KeyRange, Revision, Store, Transaction};

/// Concurrent writers increment a number with guarded transactions; no increment is lost.
pub async fn no_update_is_lost_between_writers(store: impl Store) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 40;
    put(&store, "sum", "0").await;
    let store = Arc::new(store);
    let world = World::seeded(1);
    let writers = (0..WRITERS).map(|_| {
        let store = Arc::clone(&store);
        let writer = world.tasks().spawn("writer", async move {
            let mut added = 0;
            while added < EACH {
                let found = store.get("sum", At::Latest).await.unwrap();
                let entry = found.entry.expect("put at the start");
                let sum = str::from_utf8(&entry.value).unwrap();
                let sum: u64 = sum.parse().unwrap();
                tokio::task::yield_now().await;
                let add = Transaction::new()
                    .unchanged("sum", entry.modified)
                    .put("sum", (sum + 1).to_string());
                match store.commit(add).await {
                    Ok(_) => added += 1,
                    Err(Error::Conflict { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
        writer.output()
    });
    for done in join_all(writers).await {
        done.expect("the writer ends without a panic");
    }
    let sum = value(&*store, "sum", At::Latest).await.unwrap();
    assert_eq!(sum, (WRITERS * EACH).to_string());
}

const KEYS: [&str; 9] = ["a/1", "a/2", "a/3", "b/1", "b/2", "b/2/x", "b/3", "c", "d"];
const WRITERS: usize = 4;
const COMMITS_EACH: usize = 80;
/// A compaction leaves about this many revisions, few enough that some watch is too slow.
const KEPT: u64 = 24;
const END: &str = "end";

/// Writers commit concurrently while watches are opened, dropped, resumed, slow and cut off; then
/// what each watch returned is checked against what was written.
pub async fn watches_agree_with_what_concurrent_writers_wrote(store: impl Store) {
    let start = store.revision();
    let store = Arc::new(store);
    let world = World::seeded(2);

    let ranges = [
        KeyRange::all(),
        KeyRange::prefix("a/"),
        KeyRange::prefix("b/"),
        KeyRange::prefix("b/2"),
        KeyRange::one("b/2"),
        KeyRange::after("a/1", "a/"),
    ];
    let watchers: Vec<_> = (0..12)
        .map(|number| {
            let (store, random) = (
                Arc::clone(&store),
                world.random().child(&format!("w{number}")),
            );
            let range = ranges[number % ranges.len()].clone();
            let watching = watch_to_the_end(store, range, start, random);
            world.tasks().spawn("watcher", watching)
        })
        .collect();
    let writers = (0..WRITERS).map(|number| {
        let (store, random) = (
            Arc::clone(&store),
            world.random().child(&format!("{number}")),
        );
        let writing = write_at_random(store, number, random);
        world.tasks().spawn("writer", writing).output()
    });

    let mut log = CommitLog::default();
    for written in join_all(writers).await {
        for (revision, writes) in written.expect("the writer ends without a panic") {
            log.add(revision, writes);
        }
    }
    let last = KEYS
        .iter()
        .fold(Transaction::new(), |t, key| t.put(*key, END));
    let end = commit(&*store, last).await;
    log.add(end, KEYS.map(|key| (key.into(), Some(END.into()))));
    log.complete();
    let revisions = (start.0 + 1..=end.0).map(Revision);
    assert!(log.revisions().eq(revisions), "one counter, no gap");

    for watcher in watchers {
        let watched = world.clock().timeout(TIMEOUT, watcher.output()).await;
        let watched = watched.flatten().expect("the watcher ends without a panic");
        for (record, through) in &watched.records {
            if let Err(violation) = log.check(record, *through) {
                panic!("{violation}\n{record:#?}");
            }
        }
        for (range, revision, state) in watched.reads {
            let mut expected = log.state_at(revision);
            expected.retain(|key, _| range.contains(key));
            assert_eq!(state, expected, "{range:?} at {revision}");
        }
    }
}

type Writes = Vec<(Key, Option<Bytes>)>;

/// Commits transactions of one to three keys, each guarded by what was read, so
/// that the writer knows what it changed.
async fn write_at_random(
    store: Arc<impl Store>,
    writer: usize,
    random: Random,
) -> Vec<(Revision, Writes)> {
    let mut written = Vec::new();
    while written.len() < COMMITS_EACH {
        let mut transaction = Transaction::new();
        let mut writes = Writes::new();
        let first = random.below(0..KEYS.len() as u64) as usize;
        for offset in 0..=random.below(0..3) as usize {
            let key = KEYS[(first + 4 * offset) % KEYS.len()];
            let found = store.get(key, At::Latest).await.unwrap();
            transaction = match &found.entry {
                Some(entry) => transaction.unchanged(key, entry.modified),
                None => transaction.absent(key),
            };
            if found.entry.is_some() && random.below(0..3) == 0 {
                transaction = transaction.delete(key);
                writes.push((key.into(), None));
            } else {
                let value = Bytes::from(format!("{writer}.{}", written.len()));
                transaction = transaction.put(key, value.clone());
                writes.push((key.into(), Some(value)));
            }
        }
        match store.commit(transaction).await {
            Ok(revision) => written.push((revision, writes)),
            Err(Error::Conflict { .. }) => continue,
            Err(other) => panic!("{other}"),
        }
        if writer == 0 && written.len() % 8 == 0 {
            let through = Revision(store.revision().0.saturating_sub(KEPT));
            store.compact(through).await.unwrap();
        }
        tokio::task::yield_now().await;
    }
    written
}

/// What one watcher saw: a record for each watch with the revision up to which it must be complete.
#[derive(Default)]
struct Watched {
    records: Vec<(Record, Revision)>,
    reads: Vec<(KeyRange, Revision, BTreeMap<Key, Bytes>)>,
}

async fn watch_to_the_end(
    store: Arc<impl Store>,
    range: KeyRange,
    start: Revision,
    random: Random,
) -> Watched {
    let mut watched = Watched::default();
    let mut after = start;
    loop {
        let mut record = Record {
            range: range.clone(),
            after,
            seen: Vec::new(),
        };
        let left = watch_for_a_while(&*store, &mut record, &random).await;
        let through = match left {
            WatchEnd::Ended(at) | WatchEnd::Resume(at) | WatchEnd::CutOff(at) => at,
        };
        watched.records.push((record, through));
        match left {
            WatchEnd::Ended(_) => return watched,
            WatchEnd::Resume(at) => after = at,
            WatchEnd::CutOff(_) => {
                tokio::task::yield_now().await;
                let read = store.range(range.clone(), At::Latest, None).await.unwrap();
                let entries = read.entries.iter();
                let state: BTreeMap<_, _> = entries
                    .map(|entry| (entry.key.clone(), entry.value.clone()))
                    .collect();
                after = read.revision;
                let ended = state.values().any(|value| value == END);
                watched.reads.push((range.clone(), read.revision, state));
                if ended {
                    return watched;
                }
            }
        }
    }
}

/// How a watch ended, and the revision up to which it had returned everything.
enum WatchEnd {
    Ended(Revision),
    Resume(Revision),
    CutOff(Revision),
}

async fn watch_for_a_while(store: &impl Store, record: &mut Record, random: &Random) -> WatchEnd {
    let mut shown = record.after;
    let mut watch = match store.watch(record.range.clone(), record.after) {
        Ok(watch) => watch,
        Err(Error::Compacted { .. }) => return WatchEnd::CutOff(shown),
        Err(other) => panic!("{other}"),
    };
    loop {
        // Now and then, stop reading until more has been written than is kept.
        if random.below(0..24) == 0 {
            let enough = store.revision().0 + 2 * KEPT;
            for _ in 0..200 {
                if store.revision().0 >= enough {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        match item(&mut watch).await {
            Some(Ok(batch)) => {
                shown = batch.revision;
                record.seen.push(Seen::from(&batch));
                let now = batch.changes.iter().filter_map(|c| c.now.as_ref());
                if now.into_iter().any(|entry| entry.value == END) {
                    return WatchEnd::Ended(shown);
                }
            }
            Some(Err(Error::Compacted { .. })) => return WatchEnd::CutOff(shown),
            other => panic!("neither a change nor `Compacted`: {other:?}"),
        }
        if random.below(0..4) == 0 {
            let progress = watch.progress();
            record.seen.push(Seen::Progress(progress));
            shown = shown.max(progress);
        }
        if random.below(0..20) == 0 {
            return WatchEnd::Resume(shown);
        }
    }
}
