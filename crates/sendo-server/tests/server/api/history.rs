//! What watches of the API show, held against what was written through it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use sendo_store::contract::record::{CommitLog, Record, Seen, Step, Steps};
use sendo_store::{Key, KeyRange, Memory, Retention, Revision};
use sendo_world::{Random, World};
use serde_json::{Value, json};

use super::support::Fixture;

/// Objects whose deletion is answered with the object, and so with its version.
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const WRITERS: u64 = 4;
const WATCHERS: u64 = 8;
const CHANGES_EACH: usize = 60;
/// Few enough that a slow reader gets 410 Gone.
const KEPT: usize = 30;
/// The name that is written last.
const END: &str = "end";

/// What is known of each name.
type Known = BTreeMap<Key, Bytes>;

fn account(name: &str, content: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"content": content}}})
}

fn name(object: &Value) -> Key {
    object["metadata"]["name"].as_str().unwrap().into()
}

fn content(object: &Value) -> Bytes {
    let content = object["metadata"]["annotations"]["content"].as_str();
    content.unwrap().to_owned().into()
}

fn revision(object: &Value) -> Revision {
    let version = object["metadata"]["resourceVersion"].as_str();
    Revision(version.unwrap().parse().unwrap())
}

/// What one writer did: at which revision, and what became of a name.
type Written = Vec<(Revision, Key, Option<Bytes>)>;

/// Creates, replaces and deletes, each on condition that nobody else has.
async fn write_at_random(f: Arc<Fixture>, writer: u64, random: Random) -> Written {
    let pause = async |most: u64| {
        let pause = Duration::from_millis(random.below(0..most));
        f.world.clock().sleep(pause).await;
    };
    let mut written = Written::new();
    while written.len() < CHANGES_EACH {
        pause(8000).await;
        let name = NAMES[random.below(0..NAMES.len() as u64) as usize];
        let text = format!("{writer}.{}", written.len());
        let uri = format!("{ACCOUNTS}/{name}");
        let mut there = f.get(&uri).await;
        // Somebody may come in between.
        pause(100).await;
        let (answer, now) = if there.code == 404 {
            let line = format!("POST {ACCOUNTS}");
            let created = f.json(&line, account(name, &text)).await;
            (created, Some(text.into()))
        } else if random.below(0..3) > 0 {
            there.body["metadata"]["annotations"]["content"] = text.clone().into();
            let replaced = f.json(&format!("PUT {uri}"), there.body).await;
            (replaced, Some(text.into()))
        } else {
            let version = &there.body["metadata"]["resourceVersion"];
            let options = json!({"preconditions": {"resourceVersion": version}});
            (f.json(&format!("DELETE {uri}"), options).await, None)
        };
        match answer.code {
            200 | 201 => written.push((revision(&answer.body), name.into(), now)),
            404 | 409 => {}
            _ => panic!("{answer:?}"),
        }
    }
    written
}

/// What one watcher saw: a record for each watch, and up to where it must be
/// complete; and each list it read.
#[derive(Default)]
struct Watched {
    records: Vec<(Record, Revision)>,
    lists: Vec<(Revision, Known)>,
}

/// Watches, is cut off, resumes, dawdles and begins anew until it knows the end.
async fn watch_to_the_end(f: Arc<Fixture>, random: Random) -> Watched {
    let mut watched = Watched::default();
    let (mut known, mut after) = list(&f, &mut watched).await;
    while !known.contains_key(END) {
        let mut record = Record {
            range: KeyRange::all(),
            after,
            seen: Vec::new(),
        };
        let left = watch_for_a_while(&f, &mut record, &mut known, &random).await;
        let (Left::Resume(at) | Left::CutOff(at)) = left;
        watched.records.push((record, at));
        after = at;
        if matches!(left, Left::CutOff(_)) {
            (known, after) = list(&f, &mut watched).await;
        }
    }
    watched
}

async fn list(f: &Fixture, watched: &mut Watched) -> (Known, Revision) {
    let list = f.get(ACCOUNTS).await.body;
    let items = list["items"].as_array().unwrap().iter();
    let known: Known = items.map(|own| (name(own), content(own))).collect();
    let at = revision(&list);
    watched.lists.push((at, known.clone()));
    (known, at)
}

/// How a watch was left, and up to where it had shown everything.
enum Left {
    Resume(Revision),
    CutOff(Revision),
}

async fn watch_for_a_while(
    f: &Fixture,
    record: &mut Record,
    known: &mut Known,
    random: &Random,
) -> Left {
    let mut shown = record.after;
    let uri = format!("{ACCOUNTS}?watch=1&allowWatchBookmarks=true&resourceVersion={shown}");
    let mut watch = f.watch(&uri).await;
    while random.below(0..20) > 0 && !known.contains_key(END) {
        if random.below(0..24) == 0 {
            f.world.clock().sleep(Duration::from_secs(120)).await;
        }
        let Some(event) = watch.next().await else {
            break;
        };
        let object = &event["object"];
        let kind = event["type"].as_str().unwrap();
        if kind == "ERROR" {
            assert_eq!(object["code"], 410, "{event}");
            return Left::CutOff(shown);
        }
        shown = revision(object);
        if kind == "BOOKMARK" {
            record.seen.push(Seen::Progress(shown));
            continue;
        }
        let (name, now) = (name(object), content(object));
        let before = match kind {
            "DELETED" => known.remove(&name),
            _ => known.insert(name.clone(), now.clone()),
        };
        assert_eq!(
            before.is_none(),
            kind == "ADDED",
            "{event} after {before:?}"
        );
        let now = (kind != "DELETED").then_some(now);
        let steps = Steps::from([(name, Step { before, now })]);
        record.seen.push(Seen::Steps(shown, steps));
    }
    Left::Resume(shown)
}

#[tokio::test(start_paused = true)]
async fn watches_agree_with_what_concurrent_writers_wrote() {
    let retention = Retention {
        keep_changes: KEPT,
        keep_for: Duration::MAX,
        ..Retention::default()
    };
    let store = Memory::new(World::seeded(1).clock().clone(), retention);
    let f = Arc::new(Fixture::start_with(|options| options.store = Arc::new(store)).await);
    let random = f.world.random();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|number| {
            let random = random.child(&format!("watcher {number}"));
            let watching = watch_to_the_end(Arc::clone(&f), random);
            f.world.tasks().spawn("watcher", watching)
        })
        .collect();
    let writers = (0..WRITERS).map(|number| {
        let random = random.child(&format!("writer {number}"));
        let writing = write_at_random(Arc::clone(&f), number, random);
        f.world.tasks().spawn("writer", writing).output()
    });
    let mut ledger = CommitLog::default();
    for written in join_all(writers).await {
        for (revision, name, now) in written.expect("the writer comes to its end") {
            ledger.add(revision, [(name, now)]);
        }
    }
    let end = f.json(&format!("POST {ACCOUNTS}"), account(END, "")).await;
    ledger.add(revision(&end.body), [(END.into(), Some(Bytes::new()))]);
    ledger.complete();

    let (mut cut_off, mut resumed, mut bookmarks) = (0, 0, 0);
    for watcher in watchers {
        let watched = watcher
            .output()
            .await
            .expect("the watcher comes to its end");
        cut_off += watched.lists.len() - 1;
        resumed += watched.records.len();
        for (record, through) in &watched.records {
            let progress = |seen: &&Seen| matches!(seen, Seen::Progress(_));
            bookmarks += record.seen.iter().filter(progress).count();
            if let Err(violation) = ledger.check(record, *through) {
                panic!("{violation}\n{record:#?}");
            }
        }
        for (at, known) in watched.lists {
            assert_eq!(known, ledger.state_at(at), "the list at {at}");
        }
    }
    // The run was as rough as it was meant to be.
    assert!(
        cut_off > 0 && resumed > 20 && bookmarks > 0,
        "{cut_off} {resumed} {bookmarks}"
    );
}
