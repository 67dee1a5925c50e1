//! The audit log: what is recorded of which request, in which form.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use sendo_server::{Audit, AuditLog, AuditPolicy, User};
use serde_json::{Value, json};

use super::support::Fixture;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server with an audit log, and the events of the requests about config maps.
struct Audited {
    fixture: Fixture,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Audited {
    /// `rules` are those of a policy, in YAML.
    async fn start(rules: &str) -> Self {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
        let policy = AuditPolicy::from_text(&text).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&events);
        let log = AuditLog::function(move |event| {
            taken.lock().push(serde_json::from_str(event).unwrap());
        });
        let audit = Audit { policy, log };
        let fixture = Fixture::start_with(|options| options.audit = Some(audit)).await;
        // Those of the start are of no interest.
        events.lock().clear();
        Audited { fixture, events }
    }

    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.events.lock())
    }

    /// The one event there is.
    fn one(&self) -> Value {
        let mut events = self.take();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    fn stages(&self) -> Vec<String> {
        let stage = |event: &Value| event["stage"].as_str().unwrap().to_owned();
        self.take().iter().map(stage).collect()
    }
}

const COMPLETE_ONLY: &str = "omitStages: [RequestReceived]\n";

fn rule(level: &str) -> String {
    format!("{COMPLETE_ONLY}rules: [{{level: {level}}}]\n")
}

#[tokio::test(start_paused = true)]
async fn metadata_tell_who_did_what_and_how_it_ended() {
    let audited = Audited::start(&rule("Metadata")).await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "tests/1"),
        ("audit-id", "my-id"),
        ("x-forwarded-for", "192.0.2.7"),
    ];
    let body = json!({"metadata": {"name": "a"}}).to_string();
    let line = format!("POST {CONFIG_MAPS}?pretty=false");
    audited.fixture.call(&line, &headers, body).await;
    let mut event = audited.one();
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        let time = event.as_object_mut().unwrap().remove(time).unwrap();
        assert!(time.as_str().unwrap().ends_with("00Z"), "{time}");
    }
    let expected = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "my-id",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/default/configmaps?pretty=false",
        "verb": "create",
        "user": {
            "username": "kubernetes-admin",
            "groups": ["system:masters", "system:authenticated"],
        },
        "sourceIPs": ["192.0.2.7"],
        "userAgent": "tests/1",
        "objectRef": {
            "resource": "configmaps",
            "namespace": "default",
            "name": "a",
            "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "",
        },
    });
    assert_eq!(event, expected);
}

#[tokio::test(start_paused = true)]
async fn a_response_names_its_event() {
    let audited = Audited::start(&rule("Metadata")).await;
    let request = http::Request::get(CONFIG_MAPS).body(Full::<Bytes>::default());
    let response = audited.fixture.send(User::admin(), request.unwrap()).await;
    let id = response.headers()["audit-id"].to_str().unwrap().to_owned();
    drop(response.into_body().collect().await);
    assert_eq!(audited.one()["auditID"], id);
}

#[tokio::test(start_paused = true)]
async fn objects_are_recorded_by_level() {
    for (level, sent, answered) in [
        ("Metadata", false, false),
        ("Request", true, false),
        ("RequestResponse", true, true),
    ] {
        let audited = Audited::start(&rule(level)).await;
        let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let line = format!("POST {CONFIG_MAPS}");
        audited.fixture.json(&line, body).await;
        let event = audited.one();
        assert_eq!(event["requestObject"]["data"]["k"] == "v", sent, "{level}");
        let uid = &event["responseObject"]["metadata"]["uid"];
        assert_eq!(uid.is_string(), answered, "{level}");

        let patch = json!({"data": {"k": "w"}});
        audited
            .fixture
            .merge(&format!("{CONFIG_MAPS}/a"), patch.clone())
            .await;
        let event = audited.one();
        assert_eq!(event["requestObject"] == patch, sent, "{level}");
        assert_eq!(event["verb"], "patch");

        audited.fixture.get(CONFIG_MAPS).await;
        let event = audited.one();
        let listed = &event["responseObject"]["items"][0]["metadata"]["name"];
        assert_eq!(listed == "a", answered, "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn field_managers_are_left_out_if_the_policy_says_so() {
    let omitting = format!("omitManagedFields: true\n{}", rule("RequestResponse"));
    for (rules, are_there) in [(rule("RequestResponse"), true), (omitting, false)] {
        let audited = Audited::start(&rules).await;
        let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        let line = format!("POST {CONFIG_MAPS}");
        audited.fixture.json(&line, body).await;
        let managers = &audited.one()["responseObject"]["metadata"]["managedFields"];
        assert_eq!(managers.is_array(), are_there);
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_are_recorded_with_their_reason() {
    let audited = Audited::start(&rule("Metadata")).await;
    audited.fixture.get(&format!("{CONFIG_MAPS}/none")).await;
    let status = &audited.one()["responseStatus"];
    assert_eq!(status["code"], 404);
    assert_eq!(status["status"], "Failure");
    assert_eq!(status["reason"], "NotFound");
    assert_eq!(status["message"], "configmaps \"none\" not found");

    let request = http::Request::get(CONFIG_MAPS).body(Full::<Bytes>::default());
    let ann = User::new("ann", [""; 0]);
    audited.fixture.send(ann, request.unwrap()).await;
    let event = audited.one();
    assert_eq!(event["responseStatus"]["code"], 403);
    assert_eq!(
        event["annotations"]["authorization.k8s.io/decision"],
        "forbid"
    );

    let request = http::Request::get(CONFIG_MAPS).header("authorization", "Bearer wrong");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let mut server = audited.fixture.server.clone();
    let response = tower::Service::call(&mut server, request).await.unwrap();
    assert_eq!(response.status(), 401);
    let event = audited.one();
    assert_eq!(event["stage"], "ResponseStarted");
    assert_eq!(event["user"], json!({}));
    assert_eq!(event["responseStatus"]["message"], "Unauthorized");
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_the_reason_of_a_decision() {
    let audited = Audited::start(&rule("Metadata")).await;
    let request = http::Request::get("/version").body(Full::<Bytes>::default());
    let ann = User::new("ann", [""; 0]);
    audited.fixture.send(ann, request.unwrap()).await;
    let event = audited.one();
    let reason = event["annotations"]["authorization.k8s.io/reason"].as_str();
    let reason = reason.unwrap();
    assert!(
        reason.starts_with("RBAC: allowed by ClusterRoleBinding \"system:"),
        "{reason}"
    );
    assert_eq!(event["verb"], "get");
    assert_eq!(event["objectRef"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn the_rules_are_about_the_user_who_really_asks() {
    let rules = format!(
        "{COMPLETE_ONLY}rules: [{{level: Metadata, users: [kubernetes-admin]}}, {{level: None}}]\n"
    );
    let audited = Audited::start(&rules).await;
    let headers = [("impersonate-user", "ann"), ("impersonate-group", "staff")];
    let line = format!("GET {CONFIG_MAPS}");
    audited.fixture.call(&line, &headers, "").await;
    let event = audited.one();
    assert_eq!(event["user"]["username"], "kubernetes-admin");
    assert_eq!(event["impersonatedUser"]["username"], "ann");
    let groups = json!(["staff", "system:authenticated"]);
    assert_eq!(event["impersonatedUser"]["groups"], groups);
    assert_eq!(event["responseStatus"]["code"], 403);
}

#[tokio::test(start_paused = true)]
async fn each_stage_has_its_event() {
    let audited = Audited::start("rules: [{level: Metadata}]\n").await;
    audited.fixture.get(CONFIG_MAPS).await;
    assert_eq!(audited.stages(), ["RequestReceived", "ResponseComplete"]);
    let watch = audited
        .fixture
        .watch(&format!("{CONFIG_MAPS}?watch=1"))
        .await;
    assert_eq!(audited.stages(), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    assert_eq!(audited.stages(), ["ResponseComplete"]);
}

#[tokio::test(start_paused = true)]
async fn what_admission_notes_is_in_the_event() {
    let audited = Audited::start(&rule("Metadata")).await;
    let namespace = json!({"metadata": {
        "name": "strict",
        "labels": {"pod-security.kubernetes.io/audit": "restricted"},
    }});
    audited
        .fixture
        .json("POST /api/v1/namespaces", namespace)
        .await;
    audited.take();
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let line = "POST /api/v1/namespaces/strict/pods";
    assert_eq!(audited.fixture.json(line, pod).await.code, 201);
    let annotations = &audited.one()["annotations"];
    let violations = annotations["pod-security.kubernetes.io/audit-violations"].as_str();
    assert!(
        violations.is_some_and(|text| text.contains("restricted")),
        "{annotations}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_records_its_options_and_what_it_answered() {
    let audited = Audited::start(&rule("Request")).await;
    let body = json!({"metadata": {"name": "a"}});
    audited
        .fixture
        .json(&format!("POST {CONFIG_MAPS}"), body)
        .await;
    audited.take();
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let line = format!("DELETE {CONFIG_MAPS}/a");
    audited.fixture.json(&line, options.clone()).await;
    let event = audited.one();
    assert_eq!(event["requestObject"], options);
    let status = &event["responseStatus"];
    assert_eq!(
        (&status["status"], &status["code"]),
        (&json!("Success"), &json!(200))
    );
    assert_eq!(status["details"]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn levels_and_events_are_counted() {
    let audited =
        Audited::start("rules: [{level: None, nonResourceURLs: [/metrics]}, {level: Metadata}]\n")
            .await;
    audited.fixture.call("DELETE /metrics", &[], "").await;
    audited.fixture.get(CONFIG_MAPS).await;
    let page = audited.fixture.get("/metrics").await;
    let page = page.body.as_str().unwrap();
    let line = "apiserver_audit_level_total{level=\"Metadata\"} 1\n";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("apiserver_audit_level_total{level=\"None\"} 1\n"));
}
