//! Admission webhooks: who is called, what they are sent, and what becomes of their answers.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response};
use parking_lot::Mutex;
use sendo_server::{Authority, LocalService};
use serde_json::{Value, json};

use super::support::{Answer, Fixture};
use crate::webhook_server;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOST: &str = "hooks.example";

/// How the server reaches the webhooks of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    /// As services of this process.
    Local,
    /// By TLS on loopback.
    Tls,
}

type Decide = dyn Fn(&str, &Value) -> Value + Send + Sync;

/// Webhooks, and what they were sent.
struct Hooks {
    base: String,
    ca_bundle: String,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    _registered: Option<LocalService>,
}

impl Hooks {
    /// Webhooks that answer a review (given their path and its request) with what `decide`
    /// returns: a response to which the uid is added, or whatever has a member `raw`.
    async fn start(
        f: &Fixture,
        transport: Transport,
        decide: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let calls: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let decide: Arc<Decide> = Arc::new(decide);
        match transport {
            Transport::Local => {
                let seen = Arc::clone(&calls);
                let handler = move |request: Request<Bytes>| {
                    std::future::ready(answer(&*decide, &seen, request))
                };
                let services = f.server.local_services();
                Hooks {
                    base: format!("https://{HOST}"),
                    ca_bundle: String::new(),
                    calls,
                    _registered: Some(services.register(HOST, 443, handler)),
                }
            }
            Transport::Tls => {
                let authority = Authority::new(f.world.clock().wall()).unwrap();
                let seen = Arc::clone(&calls);
                let handler = move |request| {
                    let response = answer(&*decide, &seen, request);
                    std::future::ready(response).boxed()
                };
                let base = webhook_server::serve(&f.world, &authority, Arc::new(handler)).await;
                Hooks {
                    base,
                    ca_bundle: STANDARD.encode(authority.pem()),
                    calls,
                    _registered: None,
                }
            }
        }
    }

    /// A webhook for ConfigMaps at this path, with other members than the usual ones.
    fn hook(&self, path: &str, more: Value) -> Value {
        let mut hook = json!({
            "name": format!("{path}.example.com"),
            "clientConfig": {"url": format!("{}/{path}", self.base)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        if !self.ca_bundle.is_empty() {
            hook["clientConfig"]["caBundle"] = self.ca_bundle.as_str().into();
        }
        for (key, value) in more.as_object().into_iter().flatten() {
            hook[key] = value.clone();
        }
        hook
    }

    /// The paths that were called since this was last asked.
    fn called(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls.lock());
        calls.into_iter().map(|(path, _)| path).collect()
    }

    /// The request of the last review.
    fn last(&self) -> Value {
        let calls = self.calls.lock();
        calls.last().expect("a webhook was called").1["request"].clone()
    }
}

fn answer(
    decide: &Decide,
    calls: &Mutex<Vec<(String, Value)>>,
    request: Request<Bytes>,
) -> Response<Bytes> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let mut response = decide(&path, &review["request"]);
    let body = match response.get("raw") {
        Some(raw) => raw.as_str().unwrap().to_owned(),
        None => {
            response["uid"] = review["request"]["uid"].clone();
            let own = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            own.to_string()
        }
    };
    calls.lock().push((path, review));
    Response::new(Bytes::from(body))
}

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

async fn configure(f: &Fixture, kind: &str, hooks: Value) {
    let line = format!("POST {CONFIGURATIONS}/{kind}webhookconfigurations");
    let made = f
        .json(
            &line,
            json!({"metadata": {"name": kind}, "webhooks": hooks}),
        )
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
}

async fn create(f: &Fixture, name: &str, data: Value) -> Answer {
    let map = json!({"metadata": {"name": name}, "data": data});
    f.json(&format!("POST {CONFIG_MAPS}"), map).await
}

/// An answer of a validating webhook, and what the client then gets.
fn validating_answers() -> Vec<(Value, u16, &'static str)> {
    vec![
        (json!({"allowed": true}), 201, ""),
        (
            json!({"allowed": false}),
            400,
            "admission webhook \"v.example.com\" denied the request without explanation",
        ),
        (
            json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "not today"}}),
            403,
            "admission webhook \"v.example.com\" denied the request: not today",
        ),
        (
            json!({"allowed": false, "status": {"code": 302, "reason": "Moved"}}),
            400,
            "admission webhook \"v.example.com\" denied the request: Moved",
        ),
        (
            json!({}),
            400,
            "admission webhook \"v.example.com\" denied the request without explanation",
        ),
        (
            json!({"raw": ""}),
            500,
            "failed to call webhook: 0-length response with status code: 200 and content type: application/json",
        ),
        (
            json!({"raw": "{}"}),
            500,
            "received invalid webhook response: webhook response was absent",
        ),
        (
            json!({"raw": "[]"}),
            500,
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal array",
        ),
        (
            json!({"raw": r#"{"kind": "Pod", "apiVersion": "v1"}"#}),
            500,
            "failed to call webhook: no kind \"Pod\" is registered for version \"v1\"",
        ),
        (
            json!({"raw": r#"{"response": {"allowed": "yes"}}"#}),
            500,
            "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
        ),
        (
            json!({"raw": r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "x", "allowed": true}}"#}),
            500,
            "expected response.uid=",
        ),
        (
            patch(json!([])),
            500,
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
    ]
}

#[tokio::test]
async fn a_validating_webhook_decides_by_its_answer() {
    for transport in [Transport::Local, Transport::Tls] {
        for (response, code, message) in validating_answers() {
            let f = Fixture::start().await;
            let shown = response.clone();
            let hooks = Hooks::start(&f, transport, move |_, _| response.clone()).await;
            configure(&f, "validating", json!([hooks.hook("v", json!({}))])).await;
            let (found, text) = create(&f, "a", json!({})).await.refusal();
            assert_eq!(found, code, "{transport:?} {shown}: {text}");
            assert!(text.contains(message), "{transport:?} {shown}: {text}");
            if code == 500 {
                let expected =
                    "Internal error occurred: failed calling webhook \"v.example.com\": ";
                assert!(text.starts_with(expected), "{text}");
            }
            assert_eq!(hooks.called(), ["v"]);
            f.world.tasks().stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_passes_where_failures_are_ignored_and_a_denial_does_not() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |_, request| {
        match request["name"].as_str() {
            Some("broken") => json!({"raw": "garbage"}),
            _ => json!({"allowed": false}),
        }
    })
    .await;
    let ignores = hooks.hook("v", json!({"failurePolicy": "Ignore"}));
    configure(&f, "validating", json!([ignores])).await;
    assert_eq!(create(&f, "broken", json!({})).await.code, 201);
    assert_eq!(create(&f, "denied", json!({})).await.code, 400);
}

/// Match conditions, with what the client gets of ConfigMaps `a` and `b` with the data `{"k": "1"}`
/// if the webhook refuses everything: 201 where it is not called.
fn conditions() -> Vec<(Value, &'static str, u16, &'static str)> {
    let denied = "admission webhook \"v.example.com\" denied the request without explanation";
    vec![
        (json!(["object.metadata.name == 'a'"]), "a", 400, denied),
        (json!(["object.metadata.name == 'a'"]), "b", 201, ""),
        (
            json!(["request.operation == 'CREATE'", "oldObject == null"]),
            "a",
            400,
            denied,
        ),
        (
            json!(["request.userInfo.username == 'nobody'"]),
            "a",
            201,
            "",
        ),
        (
            json!([
                "authorizer.group('').resource('secrets').namespace('x').check('get').allowed()"
            ]),
            "a",
            400,
            denied,
        ),
        (
            json!(["authorizer.serviceAccount('x', 'y').path('/metrics').check('get').allowed()"]),
            "a",
            201,
            "",
        ),
        (
            json!(["object.data.none == ''", "true", "object.data.other == ''"]),
            "a",
            403,
            "configmaps \"a\" is forbidden: [expression 'object.data.none == ''' resulted in error: no such key: none, \
             expression 'object.data.other == ''' resulted in error: no such key: other]",
        ),
        // One that does not hold outweighs one without a value.
        (json!(["object.data.none == ''", "false"]), "a", 201, ""),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_called_if_its_match_conditions_hold() {
    for (expressions, name, code, message) in conditions() {
        let f = Fixture::start().await;
        let hooks = Hooks::start(&f, Transport::Local, |_, _| json!({"allowed": false})).await;
        let of = |(i, expression): (usize, &Value)| json!({"name": format!("c{i}"), "expression": expression});
        let all = expressions.as_array().unwrap().iter().enumerate();
        let all: Vec<Value> = all.map(of).collect();
        let hook = hooks.hook("v", json!({"matchConditions": all}));
        configure(&f, "validating", json!([hook])).await;
        let answer = create(&f, name, json!({"k": "1"})).await;
        assert_eq!(answer.code, code, "{expressions}: {}", answer.body);
        if code != 201 {
            assert_eq!(answer.refusal().1, message, "{expressions}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_without_a_value_skip_a_webhook_that_ignores_failures() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |_, _| json!({"allowed": false})).await;
    let more = json!({
        "failurePolicy": "Ignore",
        "matchConditions": [{"name": "c", "expression": "object.data.none == ''"}],
    });
    configure(&f, "mutating", json!([hooks.hook("m", more)])).await;
    assert_eq!(create(&f, "a", json!({})).await.code, 201);
    assert!(hooks.called().is_empty());
}

#[tokio::test(start_paused = true)]
async fn conditions_of_a_mutating_webhook_see_what_the_one_before_made() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |path, _| {
        patch(json!([{"op": "add", "path": format!("/data/{path}"), "value": "1"}]))
    })
    .await;
    let more = json!({"matchConditions": [{"name": "c", "expression": "has(object.data.m)"}]});
    let both = json!([hooks.hook("m", json!({})), hooks.hook("n", more)]);
    configure(&f, "mutating", both).await;
    let made = create(&f, "a", json!({"k": "1"})).await;
    assert_eq!(made.body["data"], json!({"k": "1", "m": "1", "n": "1"}));
}

#[tokio::test(start_paused = true)]
async fn conditions_are_compiled_when_they_are_written() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |_, _| json!({"allowed": true})).await;
    for (expression, fault) in [
        ("", "Required value"),
        (
            "object.",
            "compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative",
        ),
        ("'text'", "must evaluate to bool but got string"),
        (
            "params == null",
            "undeclared reference to 'params' (in container '')",
        ),
        (
            "variables.x",
            "undeclared reference to 'variables' (in container '')",
        ),
        ("request.uid == ''", "undefined field 'uid'"),
    ] {
        let more = json!({"matchConditions": [{"name": "c", "expression": expression}]});
        let line = format!("POST {CONFIGURATIONS}/validatingwebhookconfigurations");
        let object = json!({"metadata": {"name": "v"}, "webhooks": [hooks.hook("v", more)]});
        let (code, text) = f.json(&line, object).await.refusal();
        assert_eq!(code, 422, "{expression}");
        let start = "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"v\" is invalid: \
                     webhooks[0].matchConditions[0].expression: ";
        assert!(
            text.starts_with(start) && text.contains(fault),
            "{expression}: {text}"
        );
    }
}

/// The patch of a mutating webhook, and what the client then gets of a ConfigMap with the
/// data `{"k": "1"}`.
fn patches() -> Vec<(Value, u16, Value)> {
    vec![
        (
            json!([{"op": "add", "path": "/data/x", "value": "2"}]),
            201,
            json!({"k": "1", "x": "2"}),
        ),
        (
            json!([{"op": "add", "path": "/bogus", "value": 1}]),
            201,
            json!({"k": "1"}),
        ),
        (json!([]), 201, json!({"k": "1"})),
        (
            json!([{"op": "remove", "path": "/data/none"}]),
            500,
            json!(
                "Internal error occurred: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value"
            ),
        ),
        (
            json!({"op": "add"}),
            500,
            json!(
                "failed calling webhook \"m.example.com\": received undecodable patch in webhook response: "
            ),
        ),
        (
            json!([{"op": "replace", "path": "/data", "value": 5}]),
            500,
            json!("Internal error occurred: "),
        ),
        (
            json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
            500,
            json!("Internal error occurred: "),
        ),
        (
            json!([{"op": "add", "path": "/data/a b", "value": "x"}]),
            422,
            json!("data[a b]: Invalid value"),
        ),
        (
            json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]),
            400,
            json!(
                "the namespace of the provided object does not match the namespace sent on the request"
            ),
        ),
    ]
}

#[tokio::test]
async fn the_patch_of_a_mutating_webhook_is_applied_and_read_again() {
    for transport in [Transport::Local, Transport::Tls] {
        for (operations, code, expected) in patches() {
            let f = Fixture::start().await;
            let response = patch(operations.clone());
            let hooks = Hooks::start(&f, transport, move |_, _| response.clone()).await;
            configure(&f, "mutating", json!([hooks.hook("m", json!({}))])).await;
            let made = create(&f, "a", json!({"k": "1"})).await;
            assert_eq!(made.code, code, "{operations}: {}", made.body);
            match expected.as_str() {
                Some(text) => assert!(made.refusal().1.contains(text), "{}", made.body),
                None => assert_eq!(made.body["data"], expected, "{operations}"),
            }
            f.world.tasks().stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_sees_the_whole_object_and_owns_nothing_of_it() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |_, _| {
        patch(json!([{"op": "add", "path": "/data/made", "value": "1"}]))
    })
    .await;
    configure(&f, "mutating", json!([hooks.hook("m", json!({}))])).await;
    let made = create(&f, "a", json!({"k": "1"})).await.body;
    let seen = hooks.last();
    let managers = &made["metadata"]["managedFields"];
    assert_eq!(seen["object"]["metadata"]["managedFields"], *managers);
    assert_eq!(
        managers[0]["fieldsV1"],
        json!({"f:data": {".": {}, "f:k": {}}})
    );
    assert_eq!(seen["object"]["data"], json!({"k": "1"}));
    assert_eq!(seen["object"]["metadata"].get("uid"), None);
    assert_eq!(seen["oldObject"], Value::Null);
    assert_eq!(seen["operation"], "CREATE");
    assert_eq!(seen["userInfo"]["groups"][0], "system:masters");
    assert_eq!(
        seen["options"],
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"})
    );

    f.merge(
        &format!("{CONFIG_MAPS}/a?fieldManager=me"),
        json!({"data": {"l": "2"}}),
    )
    .await;
    let seen = hooks.last();
    assert_eq!(seen["oldObject"], made);
    assert_eq!(
        seen["object"]["data"],
        json!({"k": "1", "l": "2", "made": "1"})
    );
    assert_eq!(
        seen["options"],
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions", "fieldManager": "me"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_shows_what_goes_and_cannot_change_it() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |path, request| {
        match (path, request["operation"].as_str()) {
            ("m", Some("DELETE")) => patch(json!([{"op": "add", "path": "/data", "value": {}}])),
            _ => json!({"allowed": true}),
        }
    })
    .await;
    configure(&f, "validating", json!([hooks.hook("v", json!({}))])).await;
    let made = create(&f, "a", json!({"k": "1"})).await.body;
    f.delete(&format!("{CONFIG_MAPS}/a?propagationPolicy=Background"))
        .await;
    let seen = hooks.last();
    assert_eq!((&seen["object"], &seen["oldObject"]), (&Value::Null, &made));
    assert_eq!(
        seen["options"],
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
    );
    create(&f, "b", json!({})).await;
    configure(&f, "mutating", json!([hooks.hook("m", json!({}))])).await;
    let (code, message) = f.delete(&format!("{CONFIG_MAPS}/b")).await.refusal();
    assert_eq!(code, 500);
    assert!(
        message
            .ends_with("attempted to modify the object, which is not supported for this operation")
    );
}

/// Members of a webhook, and whether it is called for a new ConfigMap with the label `a: b` in
/// the namespace `default`.
fn selections() -> Vec<(Value, bool)> {
    let rule = |more: Value| {
        let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
        for (key, value) in more.as_object().unwrap() {
            rule[key] = value.clone();
        }
        json!({"rules": [rule]})
    };
    vec![
        (rule(json!({})), true),
        (rule(json!({"resources": ["*"]})), true),
        (rule(json!({"resources": ["*/*"]})), true),
        (rule(json!({"resources": ["configmaps/*"]})), true),
        (rule(json!({"resources": ["configmaps/status"]})), false),
        (rule(json!({"apiGroups": ["*"]})), true),
        (rule(json!({"apiGroups": ["apps"]})), false),
        (rule(json!({"apiVersions": ["v2"]})), false),
        (rule(json!({"operations": ["UPDATE", "DELETE"]})), false),
        (rule(json!({"scope": "Namespaced"})), true),
        (rule(json!({"scope": "Cluster"})), false),
        (json!({"objectSelector": {"matchLabels": {"a": "b"}}}), true),
        (
            json!({"objectSelector": {"matchLabels": {"a": "c"}}}),
            false,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"x": "y"}}}),
            false,
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn rules_and_selectors_say_which_requests_a_webhook_sees() {
    for (members, is_called) in selections() {
        let f = Fixture::start().await;
        let hooks = Hooks::start(&f, Transport::Local, |_, _| json!({"allowed": true})).await;
        configure(&f, "validating", json!([hooks.hook("v", members.clone())])).await;
        let map = json!({"metadata": {"name": "a", "labels": {"a": "b"}}});
        assert_eq!(f.json(&format!("POST {CONFIG_MAPS}"), map).await.code, 201);
        assert_eq!(!hooks.called().is_empty(), is_called, "{members}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_for_another_version_is_sent_the_object_in_it() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |_, _| {
        patch(
            json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 60}]),
        )
    })
    .await;
    let rule = json!([{"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["horizontalpodautoscalers"]}]);
    let line = "POST /apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers?dryRun=All";
    let scaler = json!({"metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
    }});
    configure(
        &f,
        "mutating",
        json!([hooks.hook("m", json!({"rules": rule}))]),
    )
    .await;
    let made = f.json(line, scaler.clone()).await.body;
    let target = &made["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 60);
    let seen = hooks.last();
    assert_eq!(seen["kind"]["version"], "v1");
    assert_eq!(seen["requestKind"]["version"], "v2");
    assert_eq!(seen["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(seen["dryRun"], true);
    hooks.called();

    f.delete(&format!(
        "{CONFIGURATIONS}/mutatingwebhookconfigurations/mutating"
    ))
    .await;
    let exact = hooks.hook("m", json!({"rules": rule, "matchPolicy": "Exact"}));
    configure(&f, "mutating", json!([exact])).await;
    assert_eq!(f.json(line, scaler).await.code, 201);
    assert_eq!(hooks.called(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_asks_for_it_is_called_again_after_a_change_by_another() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |path, _| {
        let path = format!("/data/{path}");
        patch(json!([{"op": "add", "path": path, "value": "1"}]))
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let both = json!([hooks.hook("a", again.clone()), hooks.hook("b", again)]);
    configure(&f, "mutating", both).await;
    let made = create(&f, "x", json!({"k": "1"})).await.body;
    assert_eq!(made["data"], json!({"a": "1", "b": "1", "k": "1"}));
    assert_eq!(hooks.called(), ["a", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_holds_up_nobody_else() {
    let f = Fixture::start().await;
    let clock = f.world.clock().clone();
    let never = move |request: Request<Bytes>| {
        let clock = clock.clone();
        async move {
            clock.sleep(Duration::from_secs(3600)).await;
            Response::new(request.into_body())
        }
    };
    let services = f.server.local_services();
    let _registered = services.register("slow.system.svc", 8443, never);
    let hook = json!({
        "name": "slow.example.com",
        "clientConfig": {"service": {"namespace": "system", "name": "slow", "port": 8443, "path": "/x"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 3,
    });
    configure(&f, "validating", json!([hook])).await;
    let before = f.world.clock().now();
    let others = async {
        assert_eq!(f.get(CONFIG_MAPS).await.code, 200);
        f.world.clock().now() - before
    };
    let (held, quick) = futures::join!(create(&f, "a", json!({})), others);
    assert_eq!(quick, Duration::ZERO);
    assert_eq!(f.world.clock().now() - before, Duration::from_secs(3));
    assert_eq!(
        held.refusal(),
        (
            500,
            "Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: \
             Post \"https://slow.system.svc:8443/x?timeout=3s\": context deadline exceeded"
                .to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn configurations_are_never_sent_to_webhooks() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(&f, Transport::Local, |_, _| json!({"allowed": false})).await;
    let everything = json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]});
    configure(&f, "validating", json!([hooks.hook("v", everything)])).await;
    assert_eq!(create(&f, "a", json!({})).await.code, 400);
    hooks.called();
    let gone = f
        .delete(&format!(
            "{CONFIGURATIONS}/validatingwebhookconfigurations/validating"
        ))
        .await;
    assert_eq!((gone.code, hooks.called().len()), (200, 0));
    assert_eq!(
        create(&f, "a", json!({})).await.code,
        201,
        "the next request is free"
    );
}

#[tokio::test(start_paused = true)]
async fn in_a_dry_run_only_webhooks_without_side_effects_are_called() {
    let f = Fixture::start().await;
    let hooks = Hooks::start(
        &f,
        Transport::Local,
        |_, _| json!({"allowed": true, "warnings": ["careful"]}),
    )
    .await;
    configure(
        &f,
        "validating",
        json!([hooks.hook("v", json!({"sideEffects": "NoneOnDryRun"}))]),
    )
    .await;
    let map = json!({"metadata": {"name": "a"}});
    let made = f.json(&format!("POST {CONFIG_MAPS}?dryRun=All"), map).await;
    assert_eq!(
        (made.code, made.warnings),
        (201, vec!["299 - \"careful\"".to_owned()])
    );
    assert_eq!(hooks.last()["dryRun"], true);
}
