//! Conversion webhooks: what they are sent, watches, admission, and what becomes of those that
//! do not answer. What clients see of them is in the tables (`contract/tables/conversion.yaml`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use sendo_server::LocalService;
use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS_1: &str = "/apis/example.dev/v1/namespaces/default/widgets";
const WIDGETS_2: &str = "/apis/example.dev/v2/namespaces/default/widgets";
const HOST: &str = "hooks.example";

/// A definition of widgets whose webhook calls `color` of v1 `colour` in v2.
struct Widgets {
    f: Fixture,
    /// The reviews that were sent.
    reviews: Arc<Mutex<Vec<Value>>>,
    _registered: LocalService,
}

impl Widgets {
    async fn define() -> Self {
        Widgets::define_with(converted).await
    }

    /// The same with another answer to a review.
    async fn define_with(
        answer: impl Fn(Value) -> BoxFuture<'static, Value> + Send + Sync + 'static,
    ) -> Self {
        let f = Fixture::start().await;
        let reviews: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&reviews);
        let handler = move |request: Request<Bytes>| {
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            seen.lock().push(review.clone());
            let answer = answer(review);
            async move { Response::new(Bytes::from(answer.await.to_string())) }
        };
        let registered = f.server.local_services().register(HOST, 443, handler);
        let version = |name: &str, field: &str| {
            json!({
                "name": name, "served": true, "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {field: {"type": "string"}},
                }}}},
                "additionalPrinterColumns": [{"name": field, "type": "string", "jsonPath": format!(".spec.{field}")}],
            })
        };
        let definition = json!({
            "metadata": {"name": "widgets.example.dev"},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version("v1", "color"), version("v2", "colour")],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"url": format!("https://{HOST}/convert")},
                }},
            },
        });
        let made = f.json(&format!("POST {DEFINITIONS}"), definition).await;
        assert_eq!(made.code, 201, "{}", made.body);
        Widgets {
            f,
            reviews,
            _registered: registered,
        }
    }

    async fn create(&self, name: &str, color: &str) -> Answer {
        let body = json!({
            "apiVersion": "example.dev/v1", "kind": "Widget",
            "metadata": {"name": name, "labels": {"name": name}}, "spec": {"color": color},
        });
        let made = self.f.json(&format!("POST {WIDGETS_1}"), body).await;
        assert_eq!(made.code, 201, "{}", made.body);
        made
    }

    async fn recolor(&self, name: &str, color: &str) -> Answer {
        let body = json!({"spec": {"color": color}});
        self.f.merge(&format!("{WIDGETS_1}/{name}"), body).await
    }

    /// How many objects each review had that was sent since this was last asked.
    fn sent(&self) -> Vec<usize> {
        let reviews = std::mem::take(&mut *self.reviews.lock());
        let count = |review: &Value| review["request"]["objects"].as_array().unwrap().len();
        reviews.iter().map(count).collect()
    }
}

/// What a good webhook answers; it refuses an object called `bad`.
fn converted(review: Value) -> BoxFuture<'static, Value> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let (from, to) = match wanted {
        "example.dev/v2" => ("color", "colour"),
        _ => ("colour", "color"),
    };
    let objects = request["objects"].as_array().unwrap();
    let convert = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.into();
        let spec = object["spec"].as_object_mut().unwrap();
        if let Some(color) = spec.remove(from) {
            spec.insert(to.to_owned(), color);
        }
        object
    };
    let bad = objects
        .iter()
        .any(|object| object["metadata"]["name"] == "bad");
    let result = match bad {
        true => json!({"status": "Failure", "message": "it is bad"}),
        false => json!({"status": "Success"}),
    };
    let answer = json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {
            "uid": request["uid"], "result": result,
            "convertedObjects": objects.iter().map(convert).collect::<Vec<_>>(),
        },
    });
    std::future::ready(answer).boxed()
}

#[tokio::test]
async fn a_review_has_the_objects_as_they_are_stored_and_is_sent_only_where_versions_differ() {
    let w = Widgets::define().await;
    w.create("a", "red").await;
    for line in [WIDGETS_1.to_owned(), format!("{WIDGETS_1}/a")] {
        assert_eq!(w.f.get(&line).await.code, 200);
    }
    assert_eq!(w.f.get(&format!("{WIDGETS_2}/none")).await.code, 404);
    assert_eq!(w.sent(), [0; 0]);
    let read = w.f.get(&format!("{WIDGETS_2}/a")).await;
    assert_eq!(read.body["spec"], json!({"colour": "red"}));
    let review = w.reviews.lock().remove(0);
    assert_eq!(review["kind"], "ConversionReview");
    assert_eq!(review["request"]["desiredAPIVersion"], "example.dev/v2");
    let sent = &review["request"]["objects"][0];
    assert_eq!(sent["apiVersion"], "example.dev/v1");
    assert_eq!(sent["spec"], json!({"color": "red"}));
    assert!(sent["metadata"].get("resourceVersion").is_none());
    let empty = json!({"uid": "", "convertedObjects": null, "result": {"metadata": {}}});
    assert_eq!(review["response"], empty);
}

#[tokio::test]
async fn a_list_is_converted_in_one_review_and_object_by_object_if_that_fails() {
    let w = Widgets::define().await;
    for name in ["a", "b", "c"] {
        w.create(name, "red").await;
    }
    assert_eq!(w.f.get(WIDGETS_2).await.code, 200);
    assert_eq!(w.sent(), [3]);
    // A page is converted alone.
    assert_eq!(w.f.get(&format!("{WIDGETS_2}?limit=2")).await.code, 200);
    assert_eq!(w.sent(), [2]);
    w.create("bad", "red").await;
    let list = w.f.get(WIDGETS_2).await;
    let message = "conversion webhook for example.dev/v1, Kind=Widget failed: it is bad";
    assert_eq!(list.refusal(), (500, message.to_owned()));
    assert_eq!(w.sent(), [4, 1, 1, 1]);
}

#[tokio::test]
async fn metadata_and_tables_are_those_of_the_version() {
    let w = Widgets::define().await;
    w.create("a", "red").await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = w.f.call(&format!("GET {WIDGETS_2}"), &table, "").await;
    assert_eq!(table.body["columnDefinitions"][1]["name"], "colour");
    assert_eq!(table.body["rows"][0]["cells"], json!(["a", "red"]));
    let partial = [(
        "accept",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    )];
    let partial = w.f.call(&format!("GET {WIDGETS_2}"), &partial, "").await;
    assert_eq!(partial.body["items"][0]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_watch_sends_converted_objects_and_converts_each_change_once_for_all() {
    let w = Widgets::define().await;
    w.create("a", "red").await;
    let mut watches = [
        w.f.watch(&format!("{WIDGETS_2}?watch=1")).await,
        w.f.watch(&format!("{WIDGETS_2}?watch=1&labelSelector=name"))
            .await,
    ];
    for watch in &mut watches {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["apiVersion"], "example.dev/v2");
        assert_eq!(event["object"]["spec"], json!({"colour": "red"}));
    }
    w.sent();
    w.recolor("a", "blue").await;
    assert_eq!(w.f.delete(&format!("{WIDGETS_1}/a")).await.code, 200);
    for watch in &mut watches {
        for kind in ["MODIFIED", "DELETED"] {
            let event = watch.next().await.unwrap();
            assert_eq!(event["type"], kind);
            assert_eq!(event["object"]["spec"], json!({"colour": "blue"}), "{kind}");
        }
    }
    // Before and after the change, and before the deletion, but for what one watch had already.
    assert!(w.sent().len() <= 3);
}

#[tokio::test]
async fn a_watch_that_cannot_show_a_change_ends_with_the_reason() {
    let w = Widgets::define().await;
    let mut watch = w.f.watch(&format!("{WIDGETS_2}?watch=1")).await;
    w.create("good", "red").await;
    assert_eq!(watch.names(1).await, ["ADDED good"]);
    w.create("bad", "red").await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 500);
    let message = "conversion webhook for example.dev/v1, Kind=Widget failed: it is bad";
    assert_eq!(event["object"]["message"], message);
    assert!(watch.next().await.is_none());
    // One that begins now says so at once; one that never meets the object goes on.
    let mut watch = w.f.watch(&format!("{WIDGETS_2}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ERROR");
    let mut watch =
        w.f.watch(&format!(
            "{WIDGETS_2}?watch=1&fieldSelector=metadata.name%3Dgood"
        ))
        .await;
    assert_eq!(watch.names(1).await, ["ADDED good"]);
}

#[tokio::test]
async fn watches_begin_anew_when_the_conversion_changes() {
    let w = Widgets::define().await;
    w.create("a", "red").await;
    let mut watch = w.f.watch(&format!("{WIDGETS_2}?watch=1")).await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
    let conversion = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let changed =
        w.f.merge(&format!("{DEFINITIONS}/widgets.example.dev"), conversion)
            .await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    assert!(watch.next().await.is_none());
    let read = w.f.get(&format!("{WIDGETS_2}/a")).await;
    assert_eq!(read.body["spec"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_has_thirty_seconds() {
    let w = Widgets::define_with(|_| std::future::pending().boxed()).await;
    w.create("a", "red").await;
    w.create("b", "red").await;
    let clock = w.f.world.clock();
    for path in [format!("{WIDGETS_2}/a"), WIDGETS_2.to_owned()] {
        let began = clock.now();
        let answer = w.f.get(&path).await;
        let message = "conversion webhook for example.dev/v1, Kind=Widget failed: Post \
                       \"https://hooks.example/convert?timeout=30s\": context deadline exceeded";
        assert_eq!(answer.refusal(), (500, message.to_owned()));
        assert_eq!(clock.now() - began, Duration::from_secs(30), "{path}");
    }
    // Others are served meanwhile.
    let waiting = w.f.get(WIDGETS_2);
    let others = async {
        assert_eq!(w.f.get(WIDGETS_1).await.code, 200);
        clock.now()
    };
    let began = clock.now();
    let (_, done) = futures::join!(waiting, others);
    assert_eq!(done, began);
}

#[tokio::test]
async fn admission_sees_a_request_in_the_version_of_its_rule() {
    let w = Widgets::define().await;
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let reviews = Arc::clone(&seen);
    let admit = move |request: Request<Bytes>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
        if request.uri().path() == "/paint" {
            // [{"op": "replace", "path": "/spec/color", "value": "blue"}]
            response["patchType"] = "JSONPatch".into();
            response["patch"] =
                "W3sib3AiOiAicmVwbGFjZSIsICJwYXRoIjogIi9zcGVjL2NvbG9yIiwgInZhbHVlIjogImJsdWUifV0="
                    .into();
        }
        let api_version = review["apiVersion"].clone();
        reviews.lock().push(review);
        let answer =
            json!({"kind": "AdmissionReview", "apiVersion": api_version, "response": response});
        std::future::ready(Response::new(Bytes::from(answer.to_string())))
    };
    let services = w.f.server.local_services();
    let _registered = services.register("admission.example", 443, admit);
    for (kind, path) in [("Mutating", "paint"), ("Validating", "look")] {
        let configuration = json!({"metadata": {"name": path}, "webhooks": [{
            "name": format!("{path}.example.com"),
            "clientConfig": {"url": format!("https://admission.example/{path}")},
            "rules": [{"apiGroups": ["example.dev"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }]});
        let path = format!(
            "POST /apis/admissionregistration.k8s.io/v1/{}webhookconfigurations",
            kind.to_lowercase()
        );
        assert_eq!(w.f.json(&path, configuration).await.code, 201);
    }
    let body = json!({
        "apiVersion": "example.dev/v2", "kind": "Widget",
        "metadata": {"name": "a"}, "spec": {"colour": "red"},
    });
    let made = w.f.json(&format!("POST {WIDGETS_2}"), body).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["spec"], json!({"colour": "blue"}));
    let reviews = std::mem::take(&mut *seen.lock());
    let colors: Vec<&Value> = reviews
        .iter()
        .map(|r| &r["request"]["object"]["spec"])
        .collect();
    assert_eq!(
        colors,
        [&json!({"color": "red"}), &json!({"color": "blue"})]
    );
    for review in &reviews {
        let request = &review["request"];
        assert_eq!(request["object"]["apiVersion"], "example.dev/v1");
        assert_eq!(request["kind"]["version"], "v1");
        assert_eq!(request["requestKind"]["version"], "v2");
    }
    // What cannot be converted for a webhook is refused.
    w.create("bad", "red").await;
    let body = json!({
        "apiVersion": "example.dev/v2", "kind": "Widget",
        "metadata": {"name": "bad"}, "spec": {"colour": "red"},
    });
    let refused = w.f.json(&format!("POST {WIDGETS_2}"), body).await;
    let message = "Internal error occurred: conversion webhook for example.dev/v2, Kind=Widget failed: it is bad";
    assert_eq!(refused.refusal(), (500, message.to_owned()));
}

/// Makes a policy of a kind, and binds it, for widgets in v2.
async fn make_policy(f: &Fixture, kind: &str, name: &str, spec: Value) {
    let mut spec = spec;
    spec["matchConstraints"] = json!({"resourceRules": [{
        "apiGroups": ["example.dev"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["widgets"],
    }]});
    let mut binding = json!({"policyName": name});
    if kind == "validating" {
        binding["validationActions"] = json!(["Audit"]);
    }
    let root = "POST /apis/admissionregistration.k8s.io/v1";
    for (plural, spec) in [
        (format!("{kind}admissionpolicies"), spec),
        (format!("{kind}admissionpolicybindings"), binding),
    ] {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let made = f.json(&format!("{root}/{plural}"), object).await;
        assert_eq!(made.code, 201, "{}", made.body);
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_for_a_policy_is_for_its_failure_policy_to_decide() {
    let validations = json!([{"expression": "object.spec.colour != ''"}]);
    let mutations = json!([{
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{spec: Object.spec{colour: 'blue'}}"},
    }]);
    let failed = "conversion webhook for example.dev/v1, Kind=Widget failed: it is bad";
    let cases = [
        (
            "validating",
            json!({"validations": validations}),
            422,
            "Invalid",
            format!(
                "widgets.example.dev \"bad\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' \
                 denied request: failed to configure binding: failed to convert object version: {failed}"
            ),
        ),
        (
            "mutating",
            json!({"mutations": mutations, "reinvocationPolicy": "Never"}),
            403,
            "Forbidden",
            format!("policy \"p\" denied request: failed to configure policy: {failed}"),
        ),
    ];
    for (kind, mut spec, code, reason, message) in cases {
        let w = Widgets::define().await;
        spec["failurePolicy"] = "Ignore".into();
        make_policy(&w.f, kind, "ignored", spec.clone()).await;
        w.create("bad", "red").await;
        let deleted = w.f.delete(&format!("{WIDGETS_1}/bad")).await;
        assert_eq!(deleted.code, 200, "{}", deleted.body);

        spec["failurePolicy"] = "Fail".into();
        make_policy(&w.f, kind, "p", spec).await;
        let object = |name: &str| json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"color": "red"}});
        let refused = w.f.json(&format!("POST {WIDGETS_1}"), object("bad")).await;
        assert_eq!(refused.refusal(), (code, message));
        assert_eq!(refused.body["reason"], reason);
        // One that can be converted passes, and is what the policy makes of it.
        let made = w.create("good", "red").await;
        let color = if kind == "mutating" { "blue" } else { "red" };
        assert_eq!(made.body["spec"], json!({"color": color}));
    }
}

#[tokio::test]
async fn a_definition_goes_without_its_webhook() {
    let w = Widgets::define_with(|_| std::future::ready(json!({})).boxed()).await;
    w.create("a", "red").await;
    let held = json!({"metadata": {"finalizers": ["example.dev/x"]}});
    w.f.merge(&format!("{WIDGETS_1}/a"), held).await;
    let deleted =
        w.f.delete(&format!("{DEFINITIONS}/widgets.example.dev"))
            .await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    let free = json!({"metadata": {"finalizers": null}});
    let freed = w.f.merge(&format!("{WIDGETS_1}/a"), free).await;
    assert_eq!(freed.code, 200, "{}", freed.body);
    let gone = w.f.get(&format!("{DEFINITIONS}/widgets.example.dev")).await;
    assert_eq!(gone.code, 404);
    assert_eq!(w.sent(), [0; 0]);
}
