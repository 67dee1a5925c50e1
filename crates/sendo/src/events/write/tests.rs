//! Which events are written, and what happens to those that cannot be.

use http::Method;
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use sendo_world::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::cache::{Cache, CacheOptions};
use crate::client::ClientOptions;
use crate::events::{EventSeverity, Recorder, WAITING};
use crate::metrics::{Format, Registry};
use crate::transport::fake_api::{Call, FakeApi};

const EVENTS: &str = "/api/v1/namespaces/a/events";
const SECOND: Duration = Duration::from_secs(1);

fn setting() -> (World, Recorder, FakeApi) {
    setting_with(EventsApi::Core)
}

fn setting_with(api_used: EventsApi) -> (World, Recorder, FakeApi) {
    let options = RecorderOptions {
        api: api_used,
        ..RecorderOptions::default()
    };
    setting_in(World::seeded(1), options)
}

fn setting_in(world: World, options: RecorderOptions) -> (World, Recorder, FakeApi) {
    let (kube, api) = FakeApi::new();
    let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
    let client = Client::new(kube, cache, world.clone(), ClientOptions::default());
    let recorder = Recorder::start(client, &world.child("events"), "bar-controller", options);
    (world, recorder, api)
}

fn pod() -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: Some("a".into()),
        name: Some("pod".into()),
        uid: Some("u1".into()),
        ..ObjectReference::default()
    }
}

fn named(name: impl ToString) -> ObjectReference {
    ObjectReference {
        name: Some(name.to_string()),
        ..pod()
    }
}

/// Accepts a creation, and returns the path of the event.
fn accept(call: Call) -> String {
    let event = call.json();
    call.answer(201, &event);
    let name = event["metadata"]["name"].as_str().unwrap();
    format!("{EVENTS}/{name}")
}

#[tokio::test(start_paused = true)]
async fn names_are_in_the_order_of_the_events() {
    let (world, recorder, mut api) = setting();
    let mut names = Vec::new();
    for number in 0..20 {
        recorder.event(
            &pod(),
            EventSeverity::Normal,
            &format!("Reason{number}"),
            "",
        );
        let call = api.expect(Method::POST, EVENTS).await;
        names.push(accept(call));
        if number % 5 == 0 {
            world.clock().sleep(SECOND / 1000).await;
        }
    }
    assert!(names.is_sorted(), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_beside_its_object() {
    let (_world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Warning, "Failed", "it did not work");
    let call = api.expect(Method::POST, EVENTS).await;
    let mut event = call.json();
    let name = event["metadata"].as_object_mut().unwrap().remove("name");
    let name = name.as_ref().and_then(Value::as_str).unwrap();
    let (object, hex) = name.split_once('.').unwrap();
    assert_eq!((object, hex.len()), ("pod", 16));
    let time = "2026-01-01T00:00:00Z";
    let expected = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "a"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "a",
                           "name": "pod", "uid": "u1"},
        "type": "Warning", "reason": "Failed", "message": "it did not work", "count": 1,
        "firstTimestamp": time, "lastTimestamp": time,
        "source": {"component": "bar-controller"}, "reportingComponent": "bar-controller",
    });
    event["apiVersion"] = "v1".into();
    event["kind"] = "Event".into();
    assert_eq!(event, expected);
}

#[tokio::test(start_paused = true)]
async fn events_about_cluster_scoped_objects_are_written_to_the_default_namespace() {
    let (_world, recorder, mut api) = setting();
    let node = ObjectReference {
        kind: Some("Node".into()),
        name: Some("node-0".into()),
        ..ObjectReference::default()
    };
    recorder.event(&node, EventSeverity::Normal, "Ready", "up");
    api.expect(Method::POST, "/api/v1/namespaces/default/events")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_equal_event_only_counts_the_first_up() {
    let (world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let path = accept(api.expect(Method::POST, EVENTS).await);
    world.clock().sleep(60 * SECOND).await;
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let call = api.expect(Method::PATCH, &path).await;
    let expected = json!({"count": 2, "message": "done", "lastTimestamp": "2026-01-01T00:01:00Z"});
    assert_eq!(call.json(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_deleted_meanwhile_is_written_anew_with_its_count() {
    let (_world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let path = accept(api.expect(Method::POST, EVENTS).await);
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let patch = api.expect(Method::PATCH, &path).await;
    patch.fail(404, "NotFound", "gone");
    let call = api.expect(Method::POST, EVENTS).await;
    assert_eq!(call.json()["count"], 2);
    assert_eq!(accept(call), path);
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    assert_eq!(api.expect(Method::PATCH, &path).await.json()["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_answered_is_sent_again_and_counted_once() {
    let (world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let first = api.expect(Method::POST, EVENTS).await;
    let name = first.json()["metadata"]["name"].clone();
    first.reset();
    let before = world.clock().now();
    let second = api.expect(Method::POST, EVENTS).await;
    assert_eq!(world.clock().now() - before, PAUSE);
    assert_eq!(second.json()["metadata"]["name"], name);
    // The first had arrived.
    second.fail(409, "AlreadyExists", "it exists");
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let path = format!("{EVENTS}/{}", name.as_str().unwrap());
    for _ in 0..2 {
        let call = api.expect(Method::PATCH, &path).await;
        assert_eq!(call.json()["count"], 2);
        call.reset();
    }
    assert_eq!(recorder.lost(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refuses_is_not_sent_again() {
    let (_world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let call = api.expect(Method::POST, EVENTS).await;
    call.fail(403, "Forbidden", "no");
    api.expect_silence(600 * SECOND).await;
    assert_eq!(recorder.lost(), 1);
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_what_does_not_fit_is_counted() {
    let (_world, recorder, _api) = setting();
    for number in 0..WAITING + 100 {
        recorder.event(&pod(), EventSeverity::Normal, "Synced", number.to_string());
    }
    assert_eq!(recorder.lost(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_start_with_five_thousand_new_objects_loses_no_event() {
    let (_world, recorder, mut api) = setting();
    for number in 0..5000 {
        for reason in ["Created", "Scaled", "Synced"] {
            recorder.event(&named(number), EventSeverity::Normal, reason, "done");
        }
    }
    for _ in 0..15_000 {
        accept(api.expect(Method::POST, EVENTS).await);
    }
    assert_eq!(recorder.lost(), 0);
}

#[tokio::test(start_paused = true)]
async fn events_are_written_side_by_side_and_only_so_many() {
    let (_world, recorder, mut api) = setting();
    for number in 0..20 {
        recorder.event(&named(number), EventSeverity::Normal, "Synced", "done");
    }
    let mut calls = Vec::new();
    for _ in 0..16 {
        calls.push(api.expect(Method::POST, EVENTS).await);
    }
    api.expect_silence(SECOND).await;
    accept(calls.remove(7));
    api.expect(Method::POST, EVENTS).await;
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_while_its_event_is_on_its_way_is_counted_in_one_write() {
    let (_world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let first = api.expect(Method::POST, EVENTS).await;
    for _ in 0..4 {
        recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    }
    api.expect_silence(SECOND).await;
    let path = accept(first);
    let call = api.expect(Method::PATCH, &path).await;
    assert_eq!(call.json()["count"], 5);
    api.expect_silence(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_refused_event_is_created_with_its_count() {
    let (_world, recorder, mut api) = setting();
    for _ in 0..3 {
        recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    }
    let refused = api.expect(Method::POST, EVENTS).await;
    refused.fail(403, "Forbidden", "not yet");
    let call = api.expect(Method::POST, EVENTS).await;
    assert_eq!((&call.json()["count"], recorder.lost()), (&json!(3), 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_busy_is_asked_again() {
    let (_world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let call = api.expect(Method::POST, EVENTS).await;
    call.fail(503, "ServiceUnavailable", "later");
    accept(api.expect(Method::POST, EVENTS).await);
    api.expect_silence(60 * SECOND).await;
    assert_eq!(recorder.lost(), 0);
}

#[tokio::test(start_paused = true)]
async fn losses_are_counted_by_reason_and_told_in_one_line() {
    let log = Log::default();
    let _guard = log.show();
    let registry = Registry::new();
    let options = RecorderOptions {
        metrics: EventMetrics::new(&registry, "bars"),
        ..RecorderOptions::default()
    };
    let (world, recorder, mut api) = setting_in(World::seeded(1), options);
    for number in 0..WAITING + 100 {
        recorder.event(&named(number / 30), EventSeverity::Normal, "Synced", "done");
    }
    let refuse = async {
        loop {
            let call = api.expect(Method::POST, EVENTS).await;
            call.fail(403, "Forbidden", "you may not");
        }
    };
    assert!(world.clock().timeout(60 * SECOND, refuse).await.is_none());
    let page = registry.encode(Format::Prometheus);
    let count = |reason: &str| {
        let start =
            format!("sendo_events_dropped_total{{controller=\"bars\",reason=\"{reason}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{start} is not in\n{page}"))
            .parse::<u64>()
            .unwrap()
    };
    assert_eq!(count("queue_full"), 100);
    let of_each = [count("flood"), count("failed")];
    assert_eq!(of_each.iter().sum::<u64>(), WAITING as u64);
    let lines = log.lines();
    let failed = of_each[1];
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    for part in [
        "WARN",
        "queue_full=100",
        &format!("failed={failed}"),
        "you may not",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn show(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(move || log.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn events_have_the_time_of_a_clock_that_was_set() {
    let wall = Arc::new(Mutex::new(
        "2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap(),
    ));
    let read = wall.clone();
    let world = World::seeded(1).with_wall(move || *read.lock());
    let (world, recorder, mut api) = setting_in(world, RecorderOptions::default());
    let set = |time: &str| *wall.lock() = time.parse().unwrap();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let path = accept(api.expect(Method::POST, EVENTS).await);
    set("2026-03-01T13:00:00Z");
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let call = api.expect(Method::PATCH, &path).await;
    assert_eq!(call.json()["lastTimestamp"], "2026-03-01T13:00:00Z");
    call.answer(200, json!({}));
    set("2026-03-01T11:00:00Z");
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let call = api.expect(Method::PATCH, &path).await;
    assert_eq!(call.json()["lastTimestamp"], "2026-03-01T11:00:00Z");
    call.answer(200, json!({}));

    // A leap of the wall clock is no time in which a flood may go on.
    for _ in 0..30 {
        recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    }
    world.clock().sleep(SECOND).await;
    let lost = recorder.lost();
    set("2026-03-02T11:00:00Z");
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    world.clock().sleep(SECOND).await;
    assert_eq!((lost, recorder.lost()), (8, 9));
}

#[tokio::test(start_paused = true)]
async fn objects_whose_names_no_event_may_have_have_events() {
    let (_world, recorder, mut api) = setting();
    for object in ["system:node", &"a".repeat(250)] {
        recorder.event(&named(object), EventSeverity::Normal, "Synced", "done");
        let call = api.expect(Method::POST, EVENTS).await;
        let event = call.json();
        assert_eq!(event["involvedObject"]["name"], object);
        let name = event["metadata"]["name"].as_str().unwrap();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
        assert!(name.len() <= 253 && name.chars().all(fits), "{name}");
        accept(call);
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_about_one_object_is_cut_off() {
    let (world, recorder, mut api) = setting();
    let mut sent = 0;
    let answers = async {
        loop {
            accept(api.expect(Method::POST, EVENTS).await);
            sent += 1;
        }
    };
    for number in 0..40 {
        let mut about = pod();
        about.field_path = Some(number.to_string());
        recorder.event(&about, EventSeverity::Normal, "Synced", "done");
    }
    let flood_is_over = world.clock().timeout(60 * SECOND, answers).await;
    assert_eq!(flood_is_over, None::<()>);
    assert_eq!((sent, recorder.lost()), (25, 15));
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_what_waits_be_written() {
    let (world, recorder, mut api) = setting();
    for name in ["x", "y", "z"] {
        recorder.event(&pod(), EventSeverity::Normal, "Synced", name);
    }
    let answers = async {
        for _ in 0..3 {
            accept(api.expect(Method::POST, EVENTS).await);
        }
    };
    futures::join!(world.tasks().stop(), answers);
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "too late");
    assert_eq!(recorder.lost(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_server_that_does_not_answer() {
    let (world, recorder, mut api) = setting();
    recorder.event(&pod(), EventSeverity::Normal, "Synced", "done");
    let _unanswered = api.expect(Method::POST, EVENTS).await;
    let before = world.clock().now();
    world.tasks().stop().await;
    assert_eq!(world.clock().now() - before, STOP_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn in_the_newer_api_what_is_repeated_is_a_series() {
    const PATH: &str = "/apis/events.k8s.io/v1/namespaces/a/events";
    let (world, recorder, mut api) = setting_with(EventsApi::Series);
    let node = ObjectReference {
        kind: Some("Node".into()),
        name: Some("n".into()),
        ..ObjectReference::default()
    };
    let long = "é".repeat(600);
    let tell = || {
        recorder.event_with(
            &pod(),
            Some(&node),
            EventSeverity::Normal,
            "Scheduled",
            "Binding",
            long.clone(),
        )
    };
    tell();
    let call = api.expect(Method::POST, PATH).await;
    let event = call.json();
    assert_eq!(event["eventTime"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(event["regarding"]["name"], "pod");
    assert_eq!(
        (&event["related"]["name"], &event["action"]),
        (&json!("n"), &json!("Binding"))
    );
    assert_eq!(event["reportingController"], "bar-controller");
    assert!(
        event["reportingInstance"]
            .as_str()
            .unwrap()
            .starts_with("bar-controller-")
    );
    assert_eq!(event["note"].as_str().unwrap().len(), 1024);
    assert!(event.get("series").is_none(), "one is no series");
    let name = event["metadata"]["name"].as_str().unwrap().to_owned();
    call.answer(201, &event);
    world.clock().sleep(SECOND).await;
    tell();
    let call = api.expect(Method::PATCH, &format!("{PATH}/{name}")).await;
    let series = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
    assert_eq!(
        call.json(),
        json!({"series": series}),
        "all else is immutable"
    );
    call.answer(200, event);
}
