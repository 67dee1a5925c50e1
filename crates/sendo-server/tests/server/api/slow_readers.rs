//! Watches whose clients do not read, or read late.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use sendo_server::{Body, User};
use sendo_store::{Memory, Store};
use serde_json::{Value, json};

use super::support::Fixture;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const COUNT: usize = 256;
const EACH: usize = 16 << 10;

/// A server with 4 MiB of objects, and the store it keeps them in.
async fn with_objects() -> (Fixture, Arc<dyn Store>) {
    let mut store: Option<Arc<dyn Store>> = None;
    let f = Fixture::start_with(|options| {
        options.store = Arc::new(Memory::new(
            options.world.clock().clone(),
            Default::default(),
        ));
        store = Some(Arc::clone(&options.store));
    })
    .await;
    for number in 0..COUNT {
        let map = json!({
            "metadata": {"name": format!("map-{number:03}")},
            "data": {"text": "x".repeat(EACH)},
        });
        assert_eq!(f.json(&format!("POST {MAPS}"), map).await.code, 201);
    }
    (f, store.unwrap())
}

async fn open(f: &Fixture, query: &str) -> Body {
    let uri = format!("{MAPS}?watch=true&{query}");
    let request = http::Request::get(uri).body(Full::default()).unwrap();
    let response = f.send(User::admin(), request).await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// The bytes of the next frame.
async fn frame(body: &mut Body) -> Option<Vec<u8>> {
    let frame = body.frame().await?.unwrap();
    Some(frame.into_data().unwrap().to_vec())
}

/// Every event until the stream ends or `enough` says so of one.
async fn events(body: &mut Body, mut enough: impl FnMut(&Value) -> bool) -> Vec<Value> {
    let mut seen = Vec::new();
    while let Some(bytes) = frame(body).await {
        let text = String::from_utf8(bytes).unwrap();
        seen.extend(text.lines().map(|line| serde_json::from_str(line).unwrap()));
        if seen.last().is_some_and(&mut enough) {
            break;
        }
    }
    seen
}

fn names(events: &[Value], kind: &str) -> Vec<String> {
    let of_kind = events.iter().filter(|event| event["type"] == kind);
    let name = |event: &Value| {
        event["object"]["metadata"]["name"]
            .as_str()
            .map(str::to_owned)
    };
    of_kind.filter_map(name).collect()
}

/// What a stream still gives when the store has let go of everything is what the
/// stream itself holds.
#[tokio::test(start_paused = true)]
async fn watches_that_nobody_reads_hold_no_copy_of_the_initial_state() {
    let (f, store) = with_objects().await;
    let queries = [
        "resourceVersion=0",
        "",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "resourceVersion=0&labelSelector=!a",
    ];
    let mut bodies = Vec::new();
    for number in 0..200 {
        let mut body = open(&f, queries[number % queries.len()]).await;
        // What a connection takes before its client reads.
        assert!(frame(&mut body).await.is_some());
        bodies.push(body);
    }
    assert_eq!(f.delete(MAPS).await.code, 200);
    store.compact(store.revision()).await.unwrap();
    let mut held = 0;
    for body in &mut bodies {
        let mut last = Vec::new();
        while let Some(bytes) = frame(body).await {
            held += bytes.len();
            last = bytes;
        }
        let text = String::from_utf8(last).unwrap();
        let end: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&end["type"], &end["object"]["code"]),
            (&json!("ERROR"), &json!(410)),
            "a stream that is too slow is ended"
        );
    }
    assert!(held < 200 * 4096, "{held} bytes are held");
}

#[tokio::test(start_paused = true)]
async fn who_reads_late_gets_the_state_at_the_start_and_then_every_change() {
    let (f, _) = with_objects().await;
    let asked = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut body = open(&f, asked).await;
    let first = frame(&mut body).await.unwrap();
    f.merge(&format!("{MAPS}/map-200"), json!({"data": {"text": "new"}}))
        .await;
    f.delete(&format!("{MAPS}/map-201")).await;
    let late = json!({"metadata": {"name": "map-202-late"}});
    f.json(&format!("POST {MAPS}"), late).await;

    let text = String::from_utf8(first).unwrap();
    let mut seen: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let is_late = |event: &Value| event["object"]["metadata"]["name"] == "map-202-late";
    seen.extend(events(&mut body, is_late).await);
    let expected: Vec<_> = (0..COUNT)
        .map(|number| format!("map-{number:03}"))
        .collect();
    let end = seen.iter().position(|event| event["type"] == "BOOKMARK");
    let (initial, changes) = seen.split_at(end.expect("the initial state has an end"));
    assert_eq!(names(initial, "ADDED"), expected);
    let before = &initial[200]["object"]["data"]["text"];
    assert_eq!(
        before.as_str().unwrap().len(),
        EACH,
        "as it was at the start"
    );
    let annotation = &changes[0]["object"]["metadata"]["annotations"];
    assert_eq!(annotation["k8s.io/initial-events-end"], "true");
    assert_eq!(names(changes, "MODIFIED"), ["map-200"]);
    assert_eq!(names(changes, "DELETED"), ["map-201"]);
    assert_eq!(names(changes, "ADDED"), ["map-202-late"]);
}
