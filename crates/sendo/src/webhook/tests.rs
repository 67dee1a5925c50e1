//! Reviews as an API server sends them, answered without a socket.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use sendo_world::{Stop, World};
use serde_json::{Value, json};

use super::Operation::*;
use super::*;
use crate::cache::{Cache, CacheOptions, Namespaces};
use crate::client::{Client, ClientOptions};
use crate::metrics::{Format, Registry};
use crate::transport::fake_api::FakeApi;

struct Fixture {
    service: Service,
    metrics: Registry,
    world: World,
    _api: FakeApi,
}

impl Fixture {
    fn new(webhooks: &[Webhook], limits: Limits) -> Self {
        let (kube, api) = FakeApi::new();
        let (world, metrics) = (World::seeded(1), Registry::new());
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        let client = Client::new(kube, cache.clone(), world.clone(), ClientOptions::default());
        let mut conversions = Conversions::default();
        conversions.add::<convert::tests::old::Bar>();
        let with = Parts {
            cache: &cache,
            client: &client,
            metrics: &metrics,
            namespaces: &Namespaces::All,
            world: &world,
            limits,
        };
        let service = Service::new(webhooks, Arc::new(conversions), &with);
        for webhook in webhooks {
            service.open(webhook, &with);
        }
        Fixture {
            service,
            metrics,
            world,
            _api: api,
        }
    }

    fn with(webhook: Webhook) -> Self {
        Fixture::new(&[webhook], Limits::default())
    }

    async fn post(&self, path: &str, body: impl Into<Bytes>) -> (u16, Value) {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(body.into())
            .unwrap();
        decoded(self.service.call(request).await)
    }

    /// Status and response of a review of a ConfigMap.
    async fn review(&self, path: &str, operation: &str, object: Value, old: Value) -> (u16, Value) {
        let (code, review) = self.post(path, review(operation, object, old)).await;
        match code {
            200 => {
                assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
                assert_eq!(review["kind"], "AdmissionReview");
                assert_eq!(review["response"]["uid"], "u");
                (code, review["response"].clone())
            }
            _ => (code, review),
        }
    }

    fn count(&self, metric: &str) -> String {
        let page = self.metrics.encode(Format::Prometheus);
        let line = page.lines().find_map(|line| line.strip_prefix(metric));
        line.unwrap_or("none").trim().to_owned()
    }
}

fn decoded(response: Response<Bytes>) -> (u16, Value) {
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    let body = serde_json::from_slice(response.body()).unwrap();
    (response.status().as_u16(), body)
}

fn review(operation: &str, object: Value, old: Value) -> String {
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "u", "name": "settings", "namespace": "default", "operation": operation,
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "userInfo": {"username": "ann", "groups": ["dev"]},
            "object": object, "oldObject": old, "dryRun": false,
        },
    })
    .to_string()
}

fn map(data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "newField": {"x": 1},
        "metadata": {"name": "settings", "namespace": "default", "newer": true}, "data": data,
    })
}

fn patch(response: &Value) -> Value {
    let patch = STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    serde_json::from_slice(&patch).unwrap()
}

async fn set_colour(map: &mut ConfigMap, cx: Admission) -> Result<(), Denied> {
    let data = map.data.get_or_insert_default();
    if !data.contains_key("colour") {
        data.insert("colour".to_owned(), "green".to_owned());
        cx.warn("it will be green");
    }
    Ok(())
}

async fn keep_colour(change: Change<ConfigMap>, cx: Admission) -> Result<(), Denied> {
    let colour = |map: &ConfigMap| map.data.as_ref()?.get("colour").cloned();
    cx.audit("who", cx.user().username.clone().unwrap_or_default());
    let (old, new) = (change.old().and_then(colour), change.new().and_then(colour));
    match &change {
        Change::Delete(_) => Err(Denied::because("it stays")),
        Change::Update { .. } if old != new => {
            cx.warn("colours are for ever");
            Err(Denied::field("data.colour").immutable(new))
        }
        _ => Ok(()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_has_only_what_the_handler_changed() {
    let fixture = Fixture::with(defaults(set_colour));
    let path = "/mutate-v1-configmap";
    let (_, response) = fixture
        .review(path, "CREATE", map(json!({"a": "b"})), Value::Null)
        .await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["patchType"], "JSONPatch");
    let expected = json!([{"op": "add", "path": "/data/colour", "value": "green"}]);
    assert_eq!(patch(&response), expected);
    assert_eq!(response["warnings"], json!(["it will be green"]));
    // What is complete is left alone.
    let complete = map(json!({"colour": "red"}));
    let (_, response) = fixture.review(path, "CREATE", complete, Value::Null).await;
    assert_eq!(response, json!({"uid": "u", "allowed": true}));
}

#[tokio::test(start_paused = true)]
async fn a_validator_sees_the_change_and_refuses_in_the_form_of_kubernetes() {
    let fixture = Fixture::with(validates(keep_colour).on(Create | Update | Delete));
    let path = "/validate-v1-configmap";
    let (red, blue) = (
        map(json!({"colour": "red"})),
        map(json!({"colour": "blue"})),
    );
    let (_, response) = fixture
        .review(path, "CREATE", red.clone(), Value::Null)
        .await;
    assert_eq!(response["allowed"], true);
    assert_eq!(response["auditAnnotations"], json!({"who": "ann"}));
    let (_, response) = fixture.review(path, "UPDATE", blue, red.clone()).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["warnings"], json!(["colours are for ever"]));
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    assert_eq!(
        status["message"],
        "ConfigMap \"settings\" is invalid: data.colour: Invalid value: \"blue\": field is immutable"
    );
    assert_eq!(status["details"]["causes"][0]["field"], "data.colour");
    let (_, response) = fixture.review(path, "DELETE", Value::Null, red).await;
    assert_eq!(response["status"]["code"], 403);
    assert_eq!(response["status"]["message"], "it stays");
}

#[tokio::test(start_paused = true)]
async fn a_reviewer_gets_what_has_no_type_and_says_what_it_should_be() {
    async fn label(request: Arc<AdmissionRequest>, _: Admission) -> Result<Decision, Denied> {
        let mut object = request.object();
        object["metadata"]["labels"] = json!({"seen": "yes"});
        Ok(Decision::Changed(object))
    }
    let rule = || Rule::new("*", "*", "*");
    let fixture = Fixture::with(reviews(Phase::Mutating, "label", label).rule(rule()));
    let (_, response) = fixture
        .review("/mutate-label", "CREATE", map(json!({})), Value::Null)
        .await;
    let expected = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
    assert_eq!(patch(&response), expected);
    // One that validates changes nothing, and says so.
    let fixture = Fixture::with(reviews(Phase::Validating, "label", label).rule(rule()));
    let (code, status) = fixture
        .review("/validate-label", "CREATE", map(json!({})), Value::Null)
        .await;
    assert_eq!(code, 500);
    let why = "the webhook changed what it can only allow or refuse";
    assert_eq!(status["message"], why);
}

#[tokio::test(start_paused = true)]
async fn a_panic_or_an_error_is_a_failed_call_and_ends_that_one_only() {
    async fn fail(change: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
        let data = change.object().data.clone().unwrap_or_default();
        match data.keys().next().map(String::as_str) {
            Some("panic") => panic!("on purpose"),
            Some("error") => Err(std::io::Error::other("the disk is full").into()),
            _ => Ok(()),
        }
    }
    let fixture = Fixture::with(validates(fail));
    let path = "/validate-v1-configmap";
    let review = |key: &str| {
        let mut data = json!({});
        data[key] = "x".into();
        fixture.review(path, "CREATE", map(data), Value::Null)
    };
    let (code, status) = review("panic").await;
    assert_eq!((code, &status["kind"]), (500, &json!("Status")));
    assert_eq!(status["message"], "the webhook panicked: on purpose");
    let (code, status) = review("error").await;
    assert_eq!(code, 500);
    assert_eq!(status["message"], "the disk is full");
    assert_eq!(review("fine").await.0, 200);
    assert_eq!(
        fixture.count("controller_runtime_webhook_panics_total"),
        "1"
    );
    let requests = |code| {
        fixture.count(&format!(
            "controller_runtime_webhook_requests_total{{code=\"{code}\",webhook=\"{path}\"}}"
        ))
    };
    assert_eq!((requests(200), requests(500)), ("1".into(), "2".into()));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_dropped_before_the_api_server_gives_up() {
    async fn hang(_: Change<ConfigMap>, _: Admission) -> Result<(), Denied> {
        std::future::pending().await
    }
    let fixture = Fixture::with(validates(hang).timeout_seconds(5));
    let path = "/validate-v1-configmap";
    for (query, limit) in [
        ("", 4500),
        ("?timeout=10s", 9500),
        ("?timeout=1s", 900),
        ("?timeout=nonsense", 4500),
    ] {
        let before = fixture.world.clock().now();
        let body = review("CREATE", map(json!({})), Value::Null);
        let (code, status) = fixture.post(&format!("{path}{query}"), body).await;
        assert_eq!(code, 504, "{status}");
        let took = fixture.world.clock().now() - before;
        assert_eq!(took, Duration::from_millis(limit), "{query}");
    }
    fixture.service.idle().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_read_is_waited_for_as_long_as_there_is_time() {
    async fn look(_: Change<ConfigMap>, cx: Admission) -> Result<(), Denied> {
        match cx.list::<Pod>().count() {
            0 => Ok(()),
            _ => Err(Denied::because("pods")),
        }
    }
    // Nobody answers the list of pods.
    let fixture = Fixture::with(validates(look).reads::<Pod>());
    let (code, status) = fixture
        .review(
            "/validate-v1-configmap",
            "CREATE",
            map(json!({})),
            Value::Null,
        )
        .await;
    assert_eq!(code, 503);
    let why = "the cache does not have yet what the webhook reads";
    assert_eq!(status["message"], why);
    // What is not declared is named.
    let fixture = Fixture::with(validates(look));
    let (code, status) = fixture
        .review(
            "/validate-v1-configmap",
            "CREATE",
            map(json!({})),
            Value::Null,
        )
        .await;
    assert_eq!(code, 500);
    let why = status["message"].as_str().unwrap();
    assert!(why.contains("add `.reads::<Pod>()`"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn more_reviews_than_the_limit_wait_for_their_turn() {
    let release = Stop::new();
    let wait = release.clone();
    let handler = move |_: Change<ConfigMap>, _: Admission| {
        let wait = wait.clone();
        async move {
            wait.cancelled().await;
            Ok(())
        }
    };
    let limits = Limits {
        concurrency: 1,
        ..Limits::default()
    };
    let fixture = Fixture::new(&[validates(handler)], limits);
    let path = "/validate-v1-configmap";
    let body = || review("CREATE", map(json!({})), Value::Null);
    let quick = format!("{path}?timeout=2s");
    let (first, second, third, ()) = tokio::join!(
        fixture.post(path, body()),
        fixture.post(&quick, body()),
        fixture.post(path, body()),
        async {
            fixture.world.clock().sleep(Duration::from_secs(3)).await;
            release.cancel();
        },
    );
    assert_eq!((first.0, second.0, third.0), (200, 504, 200));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_review_for_this_webhook_is_refused_with_the_reason() {
    let fixture = Fixture::with(validates(keep_colour));
    let path = "/validate-v1-configmap";
    let good = review("CREATE", map(json!({})), Value::Null);
    let cases = [
        (path, "garbage".to_owned(), 400, "the body cannot be read"),
        (
            path,
            good.replace("/v1\"", "/v1beta1\""),
            400,
            "admission.k8s.io/v1 is taken here",
        ),
        (
            path,
            good.replace(
                "\"kind\":\"ConfigMap\",\"version\"",
                "\"kind\":\"Pod\",\"version\"",
            ),
            400,
            "this webhook is for ConfigMap of v1, and was sent Pod of v1",
        ),
        (
            path,
            good.replace("CREATE", "EAT"),
            400,
            "\"EAT\" is no operation",
        ),
        (
            path,
            good.replace("CREATE", "DELETE"),
            400,
            "the review has no `oldObject`",
        ),
        (
            "/validate-v1-pod",
            good.clone(),
            404,
            "there is no webhook at /validate-v1-pod",
        ),
        (
            path,
            "x".repeat((7 << 20) + 1),
            413,
            "more than 7340032 bytes",
        ),
    ];
    for (path, body, code, why) in cases {
        let (found, status) = fixture.post(path, body).await;
        let message = status["message"].as_str().unwrap();
        assert_eq!(found, code, "{message}");
        assert!(message.contains(why), "{message}");
    }
    let get = Request::builder().method(Method::GET).uri(path);
    let (code, _) = decoded(fixture.service.call(get.body(Bytes::new()).unwrap()).await);
    assert_eq!(code, 405);
    let untyped = Request::post(path).body(Bytes::from(good)).unwrap();
    assert_eq!(decoded(fixture.service.call(untyped).await).0, 415);
    // An object that is wrong is the user's fault, and no failed call.
    let mut wrong = map(json!({}));
    wrong["data"] = json!([]);
    let (_, response) = fixture.review(path, "CREATE", wrong, Value::Null).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 400);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("`object` cannot be read as ConfigMap: "),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn conversions_are_served_beside_admission() {
    let fixture = Fixture::with(validates(keep_colour));
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "example.dev/v1", "objects": [{
            "apiVersion": "example.dev/v1alpha1", "kind": "Bar",
            "metadata": {"name": "a"}, "spec": {"name": "web"},
        }]},
    });
    let (code, answer) = fixture.post("/convert", review.to_string()).await;
    assert_eq!(code, 200);
    let converted = &answer["response"]["convertedObjects"][0];
    assert_eq!(converted["spec"], json!({"deployment": "web"}));
    let (code, _) = fixture.post("/convert", "{}").await;
    assert_eq!(code, 400);
}
