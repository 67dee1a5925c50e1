//! Webhooks that answer too late, too much, or in each other's way: each request gets what
//! Kubernetes gives, and others are not held up.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use parking_lot::Mutex;
use sendo_server::LocalService;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span;

use super::support::{Answer, Fixture};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOST: &str = "hooks.example";

/// A webhook for ConfigMaps that are created, at a path of [`HOST`].
fn hook(path: &str, more: Value) -> Value {
    let mut hook = json!({
        "name": format!("{path}.example.com"),
        "clientConfig": {"url": format!("https://{HOST}/{path}")},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        hook[key] = value.clone();
    }
    hook
}

async fn configure(f: &Fixture, kind: &str, hooks: Value) {
    let line = format!("POST {CONFIGURATIONS}/{kind}webhookconfigurations");
    let configuration = json!({"metadata": {"name": kind}, "webhooks": hooks});
    let made = f.json(&line, configuration).await;
    assert_eq!(made.code, 201, "{}", made.body);
}

/// Answers calls after a time: with what `respond` makes of the path and the request reviewed.
fn answer(
    f: &Fixture,
    after: Duration,
    respond: impl Fn(&str, &Value) -> Value + Clone + Send + Sync + 'static,
) -> LocalService {
    let clock = f.world.clock().clone();
    let handler = move |request: Request<Bytes>| {
        let (clock, respond) = (clock.clone(), respond.clone());
        async move {
            clock.sleep(after).await;
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let path = request.uri().path().trim_start_matches('/');
            let mut response = respond(path, &review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            let own = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Response::new(Bytes::from(own.to_string()))
        }
    };
    f.server.local_services().register(HOST, 443, handler)
}

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

async fn create(f: &Fixture, name: &str) -> Answer {
    let map = json!({"metadata": {"name": name}, "data": {"k": "1"}});
    f.json(&format!("POST {CONFIG_MAPS}"), map).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_its_time_is_none() {
    let f = Fixture::start().await;
    let late = Duration::from_millis(1001);
    let _registered = answer(&f, late, |_, _| json!({"allowed": true}));
    let in_a_second = json!({"timeoutSeconds": 1});
    configure(&f, "validating", json!([hook("late", in_a_second)])).await;
    let began = f.world.clock().now();
    let (code, text) = create(&f, "a").await.refusal();
    assert_eq!((f.world.clock().now() - began).as_secs_f64(), 1.0);
    assert_eq!(code, 500);
    assert!(text.ends_with("context deadline exceeded"), "{text}");
    f.delete(&format!(
        "{CONFIGURATIONS}/validatingwebhookconfigurations/validating"
    ))
    .await;
    let ignored = json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"});
    configure(&f, "validating", json!([hook("late", ignored)])).await;
    assert_eq!(create(&f, "a").await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn ten_megabytes_are_read_and_no_more_of_them_is_taken_than_there_is_room_for() {
    let f = Fixture::start().await;
    let _registered = answer(&f, Duration::ZERO, |path, _| {
        let much = "x".repeat(10 << 20);
        match path {
            "talks" => json!({"allowed": true, "unknown": much}),
            "warns" => json!({"allowed": true, "warnings": [much]}),
            "refuses" => json!({"allowed": false, "status": {"message": much}}),
            _ => patch(json!([{"op": "add", "path": "/data/x", "value": much}])),
        }
    });
    for (path, kind, code) in [
        ("talks", "validating", 201),
        ("warns", "validating", 201),
        ("refuses", "validating", 400),
        ("patches", "mutating", 422),
    ] {
        configure(&f, kind, json!([hook(path, json!({}))])).await;
        let made = create(&f, path).await;
        assert_eq!(made.code, code, "{path}");
        let warned: usize = made.warnings.iter().map(String::len).sum();
        assert!(warned < 5000, "{path}: {warned} bytes of warnings");
        if path == "patches" {
            let (_, text) = made.refusal();
            assert!(
                text.contains("Too long: may not be more than 1048576 bytes"),
                "{text}"
            );
        }
        let line = format!("{CONFIGURATIONS}/{kind}webhookconfigurations/{kind}");
        f.delete(&line).await;
    }
}

#[tokio::test(start_paused = true)]
async fn ten_webhooks_that_answer_each_others_changes_are_called_twice_at_most() {
    let f = Fixture::start().await;
    let calls = Arc::new(Mutex::new(vec![0; 10]));
    let counted = Arc::clone(&calls);
    let _registered = answer(&f, Duration::ZERO, move |path, request| {
        let number: usize = path.trim_start_matches("w").parse().unwrap();
        counted.lock()[number] += 1;
        // Each change differs from the one before, so that there would be no end.
        let last = request["object"]["data"]["turn"].as_str().unwrap_or("0");
        let turn = last.parse::<u32>().unwrap() + 1;
        patch(json!([{"op": "add", "path": "/data/turn", "value": turn.to_string()}]))
    });
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks: Vec<Value> = (0..10)
        .map(|number| hook(&format!("w{number}"), again.clone()))
        .collect();
    configure(&f, "mutating", json!(hooks)).await;
    let made = create(&f, "a").await;
    assert_eq!(made.code, 201, "{}", made.body);
    let calls = calls.lock().clone();
    assert!(
        calls.iter().all(|count| (1..=2).contains(count)),
        "{calls:?}"
    );
    let turns: u32 = calls.iter().sum();
    assert_eq!(made.body["data"]["turn"], turns.to_string());
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_webhook_leave_others_alone() {
    let f = Fixture::start().await;
    let _registered = answer(
        &f,
        Duration::from_secs(3600),
        |_, _| json!({"allowed": true}),
    );
    configure(&f, "validating", json!([hook("never", json!({}))])).await;
    let began = f.world.clock().now();
    let held = (0..500).map(|number| {
        let f = &f;
        async move { create(f, &format!("a{number}")).await.code }
    });
    let held = futures::future::join_all(held);
    let others = async {
        let secrets = "POST /api/v1/namespaces/default/secrets";
        let secret = json!({"metadata": {"name": "a"}});
        assert_eq!(f.json(secrets, secret).await.code, 201);
        assert_eq!(f.get(CONFIG_MAPS).await.code, 200);
        f.world.clock().now() - began
    };
    let (held, others_took) = futures::join!(held, others);
    assert!(others_took.is_zero());
    assert!(held.into_iter().all(|code| code == 500));
    // They wait side by side, each for the ten seconds that a webhook has.
    assert_eq!((f.world.clock().now() - began).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_costs_too_much_refuses_and_is_over_soon() {
    let f = Fixture::start().await;
    let _registered = answer(&f, Duration::ZERO, |_, _| json!({"allowed": true}));
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = (0..7).fold("true".to_owned(), |inner, number| {
        format!("{list}.all(x{number}, {inner})")
    });
    let conditions = json!({"matchConditions": [{"name": "costly", "expression": costly}]});
    configure(&f, "validating", json!([hook("v", conditions)])).await;
    let (code, text) = create(&f, "a").await.refusal();
    assert_eq!(code, 403, "{text}");
    assert!(
        text.contains("operation cancelled: actual cost limit exceeded"),
        "{text}"
    );
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut Line(&mut line));
        self.0.lock().push(line);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_keeps_its_own_pods_away_is_told_in_the_log_only() {
    let f = Fixture::start().await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443}]},
    });
    let made = f
        .json("POST /api/v1/namespaces/default/services", service)
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    let pods = json!({
        "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    });
    configure(&f, "validating", json!([hook("own", pods)])).await;
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let pod = |app: &str| {
        json!({
            "metadata": {"name": app, "labels": {"app": app}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        })
    };
    let line = "POST /api/v1/namespaces/default/pods";
    let expected = "Internal error occurred: failed calling webhook \"own.example.com\": failed to call webhook: \
         Post \"https://hook.default.svc:443/?timeout=10s\": no endpoints available for service \"hook\"";
    assert_eq!(
        f.json(line, pod("other")).await.refusal(),
        (500, expected.to_owned())
    );
    assert!(log.0.lock().is_empty(), "{:?}", log.0.lock());
    assert_eq!(
        f.json(line, pod("hook")).await.refusal(),
        (500, expected.to_owned())
    );
    let told = log.0.lock().join("\n");
    assert!(
        told.contains("keeps a pod of its own Service from being created"),
        "{told}"
    );
    assert!(told.contains("own.example.com"), "{told}");
}
