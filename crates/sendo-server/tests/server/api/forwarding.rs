//! Requests for the groups of another API server: a second one in this process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use parking_lot::Mutex;
use sendo_server::{Body, LocalService, User};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::support::{Answer, Fixture};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/remote.dev/v1/namespaces/default/things";
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// An APIService for `remote.dev/v1`, whose server is behind the Service `ext/api`.
fn api_service() -> Value {
    json!({
        "metadata": {"name": "v1.remote.dev"},
        "spec": {"group": "remote.dev", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": "ext", "name": "api"}},
    })
}

/// Two servers: requests for `remote.dev` to the first are forwarded to the other.
struct Two {
    first: Fixture,
    other: Fixture,
    /// Users and headers of the requests that the other one was sent, but for those of the
    /// first one itself.
    seen: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    registered: Option<LocalService>,
}

impl Two {
    /// Servers of which the other one has a definition of things.
    async fn start() -> Self {
        let (first, other) = (Fixture::start().await, Fixture::start().await);
        let definition = json!({
            "metadata": {"name": "things.remote.dev"},
            "spec": {"group": "remote.dev", "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    }}}}]},
        });
        let made = other.json(&format!("POST {DEFINITIONS}"), definition).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let mut two = Two {
            first,
            other,
            seen: Arc::default(),
            registered: None,
        };
        two.connect();
        let made = two
            .first
            .json(&format!("POST {SERVICES}"), api_service())
            .await;
        assert_eq!(made.code, 201, "{}", made.body);
        two.until_reason("Passed").await;
        two
    }

    /// Has the other server answer where the APIService says.
    fn connect(&mut self) {
        let (server, seen) = (self.other.server.clone(), Arc::clone(&self.seen));
        let handler = move |request: Request<Bytes>| {
            let user = user_of(request.headers());
            if !user.name.starts_with("system:kube-aggregator") {
                let headers = request.headers().clone();
                seen.lock().push((user.name.clone(), headers));
            }
            let server = server.as_user(user);
            async move {
                let answered: Result<Response<Body>, _> =
                    server.oneshot(request.map(Full::new)).await;
                let Ok(response) = answered;
                response
            }
        };
        let services = self.first.server.local_services();
        self.registered = Some(services.register("api.ext.svc", 443, handler));
    }

    /// Waits until the condition has this reason, and gives it.
    async fn until_reason(&self, reason: &str) -> Value {
        until_reason(&self.first, "v1.remote.dev", reason).await
    }

    /// What aggregated discovery has of `remote.dev`, once its one version is current or stale.
    async fn discovered(&self, freshness: &str) -> Value {
        loop {
            let accept = [("accept", AGGREGATED)];
            let groups = self.first.call("GET /apis", &accept, "").await.body;
            let mut groups = groups["items"].as_array().unwrap().iter();
            let group = groups.find(|group| group["metadata"]["name"] == "remote.dev");
            let version = &group.expect("the group is listed")["versions"][0];
            if version["freshness"] == freshness {
                return version.clone();
            }
            self.first
                .world
                .clock()
                .sleep(Duration::from_millis(100))
                .await;
        }
    }
}

/// The user that a front proxy says a request is of.
fn user_of(headers: &HeaderMap) -> User {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let name = text(&headers["x-remote-user"]);
    let groups = headers.get_all("x-remote-group").iter().map(text);
    User::new(name, groups)
}

/// Waits until the condition of an APIService has this reason, and gives it.
async fn until_reason(f: &Fixture, name: &str, reason: &str) -> Value {
    let mut watch = f
        .watch(&format!(
            "{SERVICES}?watch=1&fieldSelector=metadata.name={name}"
        ))
        .await;
    loop {
        let event = watch.next().await.expect("the watch goes on");
        let condition = &event["object"]["status"]["conditions"][0];
        if condition["reason"] == reason {
            return condition.clone();
        }
    }
}

fn thing(name: &str, size: u64) -> Value {
    json!({"apiVersion": "remote.dev/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"size": size}})
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_server_are_written_read_and_watched() {
    let two = Two::start().await;
    let made = two
        .first
        .json(&format!("POST {THINGS}"), thing("a", 1))
        .await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(two.other.get(&format!("{THINGS}/a")).await.code, 200);

    let list = two.first.get(THINGS).await;
    assert_eq!(list.body["items"][0]["spec"]["size"], 1);
    let version = &list.body["metadata"]["resourceVersion"];
    let from = version.as_str().unwrap();
    let mut watch = two
        .first
        .watch(&format!("{THINGS}?watch=1&resourceVersion={from}"))
        .await;
    two.other
        .json(&format!("POST {THINGS}"), thing("b", 2))
        .await;
    assert_eq!(watch.names(1).await, ["ADDED b"]);
    let size = json!({"spec": {"size": 7}});
    two.first.merge(&format!("{THINGS}/b"), size).await;
    assert_eq!(watch.names(1).await, ["MODIFIED b"]);

    let invalid = two
        .first
        .json(&format!("POST {THINGS}"), thing("a", 1))
        .await;
    assert_eq!(
        invalid.refusal(),
        (409, "things.remote.dev \"a\" already exists".to_owned())
    );
    assert_eq!(two.first.delete(&format!("{THINGS}/a")).await.code, 200);
    assert_eq!(two.first.get(&format!("{THINGS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn the_other_server_is_told_whose_request_it_is_and_nothing_of_credentials() {
    let two = Two::start().await;
    let headers = [
        ("authorization", "Bearer secret"),
        ("x-remote-user", "forged"),
        ("x-remote-extra-scopes", "all"),
        ("impersonate-user", "ann"),
        ("impersonate-group", "devs"),
        ("impersonate-extra-example.com%2fteam", "red"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-kept", "1"),
    ];
    two.seen.lock().clear();
    let forbidden = two.first.call(&format!("GET {THINGS}"), &headers, "").await;
    assert_eq!(forbidden.code, 403, "the first server decides too");
    assert!(two.seen.lock().is_empty());

    let role = json!({
        "metadata": {"name": "things"},
        "rules": [{"apiGroups": ["remote.dev"], "resources": ["things"], "verbs": ["*"]}],
    });
    let binding = json!({
        "metadata": {"name": "things"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "devs"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "things"},
    });
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    for f in [&two.first, &two.other] {
        f.json(&format!("POST {RBAC}/clusterroles"), role.clone())
            .await;
        f.json(&format!("POST {RBAC}/clusterrolebindings"), binding.clone())
            .await;
    }
    let allowed = two
        .first
        .call(&format!("GET {THINGS}?limit=5"), &headers, "")
        .await;
    assert_eq!(allowed.code, 200, "{}", allowed.body);
    let (user, seen) = two.seen.lock().pop().unwrap();
    assert_eq!(user, "ann");
    let groups: Vec<_> = seen.get_all("x-remote-group").iter().collect();
    assert_eq!(groups, ["devs", "system:authenticated"]);
    assert_eq!(seen["x-remote-extra-example.com%2fteam"], "red");
    assert_eq!(seen["x-kept"], "1");
    assert_eq!(seen["x-forwarded-uri"], THINGS);
    for gone in [
        "authorization",
        "impersonate-user",
        "impersonate-group",
        "x-hop",
        "connection",
        "x-remote-extra-scopes",
    ] {
        assert!(!seen.contains_key(gone), "{gone}");
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_has_what_the_other_server_serves() {
    let mut two = Two::start().await;
    let version = two.discovered("Current").await;
    let resource = &version["resources"][0];
    assert_eq!(
        (
            &resource["resource"],
            &resource["scope"],
            &resource["shortNames"]
        ),
        (&json!("things"), &json!("Namespaced"), &json!(["th"]))
    );
    let old = two.first.get("/apis/remote.dev/v1").await;
    assert_eq!(old.body["resources"][0]["name"], "things");
    let group = two.first.get("/apis/remote.dev").await;
    assert_eq!(group.body["preferredVersion"]["version"], "v1");

    // What is known stays listed when the server is gone.
    two.registered = None;
    two.until_reason("ServiceNotFound").await;
    let version = two.discovered("Stale").await;
    assert_eq!(version["resources"][0]["resource"], "things");
    two.connect();
    two.until_reason("Passed").await;
    two.discovered("Current").await;
}

#[tokio::test(start_paused = true)]
async fn openapi_has_what_the_other_server_describes() {
    let two = Two::start().await;
    let url = loop {
        let index = two.first.get("/openapi/v3").await.body;
        let item = &index["paths"]["apis/remote.dev/v1"]["serverRelativeURL"];
        if let Some(url) = item.as_str() {
            break url.to_owned();
        }
        two.first
            .world
            .clock()
            .sleep(Duration::from_millis(100))
            .await;
    };
    let document = two.first.get(&url).await.body;
    assert!(document["components"]["schemas"]["dev.remote.v1.Thing"].is_object());
    let merged = two.first.get("/openapi/v2").await.body;
    assert!(merged["definitions"]["dev.remote.v1.Thing"].is_object());
    assert!(merged["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    assert!(merged["paths"]["/apis/remote.dev/v1/namespaces/{namespace}/things"].is_object());
}

/// What a Service and its EndpointSlices lack, one after the other, and what is said of it.
fn faults() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let service = |port: u64| json!({"metadata": {"name": "api"}, "spec": {"ports": [{"name": "https", "port": port}]}});
    let slice = |port: &str, ready: bool| {
        json!({
            "metadata": {"name": "api-1", "labels": {"kubernetes.io/service-name": "api"}},
            "addressType": "IPv4", "ports": [{"name": port, "port": 8443}],
            "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": ready}}],
        })
    };
    vec![
        (
            "services",
            service(80),
            "ServicePortError",
            "service/api in \"ext\" is not listening on port 443",
        ),
        (
            "services",
            service(443),
            "EndpointsNotFound",
            "cannot find endpointslices for service/api in \"ext\"",
        ),
        (
            "endpointslices",
            slice("https", false),
            "MissingEndpoints",
            "endpointslices for service/api in \"ext\" have no addresses with port name \"https\"",
        ),
        (
            "endpointslices",
            slice("http", true),
            "MissingEndpoints",
            "endpointslices for service/api in \"ext\" have no addresses with port name \"https\"",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_service_that_leads_nowhere_says_what_it_lacks() {
    let f = Fixture::start().await;
    f.json(
        "POST /api/v1/namespaces",
        json!({"metadata": {"name": "ext"}}),
    )
    .await;
    f.json(&format!("POST {SERVICES}"), api_service()).await;
    let condition = until_reason(&f, "v1.remote.dev", "ServiceNotFound").await;
    assert_eq!(
        condition["message"],
        "service/api in \"ext\" is not present"
    );
    assert_eq!(condition["status"], "False");
    for (plural, object, reason, message) in faults() {
        let collection = match plural {
            "services" => "/api/v1/namespaces/ext/services".to_owned(),
            _ => format!("/apis/discovery.k8s.io/v1/namespaces/ext/{plural}"),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        f.delete(&format!("{collection}/{name}")).await;
        let made = f.json(&format!("POST {collection}"), object).await;
        assert_eq!(made.code, 201, "{}", made.body);
        let condition = until_reason(&f, "v1.remote.dev", reason).await;
        assert_eq!(condition["message"], message);
    }
    let unavailable = f.get("/apis/remote.dev/v1/things").await;
    assert_eq!(
        (unavailable.code, unavailable.body),
        (503, json!("service unavailable\n"))
    );
    let metrics = f.get("/metrics").await.body;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("aggregator_unavailable_apiservice{name=\"v1.remote.dev\"} 1\n"));
    assert!(metrics.contains("aggregator_unavailable_apiservice{name=\"v1.apps\"} 0\n"));
    f.delete(&format!("{SERVICES}/v1.remote.dev")).await;
    let metrics = f.get("/metrics").await.body;
    assert!(!metrics.as_str().unwrap().contains("v1.remote.dev"));
}

/// A server that answers discovery, and other requests as `answer` does.
async fn with_server<F>(
    answer: impl Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
) -> (Fixture, LocalService)
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let f = Fixture::start().await;
    let handler = move |request: Request<Bytes>| {
        let is_discovery = request.headers()["x-remote-user"] == "system:kube-aggregator";
        let answer = answer.clone();
        async move {
            match is_discovery {
                true => Response::new(
                    json!({"kind": "APIResourceList", "resources": []})
                        .to_string()
                        .into(),
                ),
                false => answer(request).await,
            }
        }
    };
    let registered = f
        .server
        .local_services()
        .register("api.ext.svc", 443, handler);
    f.json(&format!("POST {SERVICES}"), api_service()).await;
    until_reason(&f, "v1.remote.dev", "Passed").await;
    (f, registered)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_holds_up_its_own_requests_only() {
    let (f, _registered) = with_server(|_| std::future::pending()).await;
    let clock = f.world.clock();
    let began = clock.now();
    let timed_out = async {
        let answer = f.get("/apis/remote.dev/v1/things").await;
        (answer, clock.now() - began)
    };
    let discovery = async {
        let answer = f.get("/apis/remote.dev/v1").await;
        (answer, clock.now() - began)
    };
    let others = async {
        for _ in 0..100 {
            assert_eq!(f.get("/api/v1/namespaces/default").await.code, 200);
        }
        clock.now() - began
    };
    let ((slow, took), (discovered, discovery_took), others_took) =
        futures::join!(timed_out, discovery, others);
    assert_eq!(
        slow.refusal(),
        (
            504,
            "Timeout: request did not complete within the allotted timeout".to_owned()
        )
    );
    assert_eq!(took.as_secs(), 60);
    assert_eq!(
        (discovered.code, discovered.body),
        (
            503,
            json!("error trying to reach service: context deadline exceeded\n")
        )
    );
    assert_eq!(discovery_took.as_secs(), 5);
    assert!(others_took.is_zero());
}

#[tokio::test(start_paused = true)]
async fn bad_answers_of_another_server_are_told() {
    let (f, _registered) = with_server(|request: Request<Bytes>| async move {
        match request.uri().path() {
            "/apis/remote.dev/v1/away" => Response::builder()
                .status(302)
                .header("location", "https://elsewhere.example")
                .body("".into())
                .unwrap(),
            "/apis/remote.dev/v1/broken" => panic!("on purpose"),
            _ => Response::builder()
                .status(418)
                .body("teapot".into())
                .unwrap(),
        }
    })
    .await;
    let answer = |answer: Answer| (answer.code, answer.body);
    assert_eq!(
        answer(f.get("/apis/remote.dev/v1/away").await),
        (
            502,
            json!("the backend attempted to redirect this request, which is not permitted")
        )
    );
    assert_eq!(
        answer(f.get("/apis/remote.dev/v1/broken").await),
        (503, json!("error trying to reach service: EOF\n"))
    );
    assert_eq!(
        answer(f.get("/apis/remote.dev/v1/other").await),
        (418, json!("teapot"))
    );
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let refused = f.call("GET /apis/remote.dev/v1/other", &upgrade, "").await;
    assert_eq!(refused.code, 501);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_discovery_is_unavailable_until_it_answers() {
    let f = Fixture::start().await;
    let broken = |_: Request<Bytes>| async {
        Response::builder()
            .status(500)
            .body(Body::from(""))
            .unwrap()
    };
    let services = f.server.local_services();
    let registered = services.register("api.ext.svc", 443, broken);
    f.json(&format!("POST {SERVICES}"), api_service()).await;
    let condition = until_reason(&f, "v1.remote.dev", "FailedDiscoveryCheck").await;
    assert_eq!(
        condition["message"],
        "failing or missing response from https://api.ext.svc:443/apis/remote.dev/v1: bad status from https://api.ext.svc:443/apis/remote.dev/v1: 500"
    );
    drop(registered);
    let _registered = services.register("api.ext.svc", 443, |_: Request<Bytes>| async {
        Response::new(Body::from("{}"))
    });
    let condition = until_reason(&f, "v1.remote.dev", "Passed").await;
    assert_eq!(condition["message"], "all checks passed");
    let hangs = services.register("slow.ext.svc", 443, |_: Request<Bytes>| {
        std::future::pending::<Response<Body>>()
    });
    let mut service = api_service();
    service["spec"]["service"]["name"] = "slow".into();
    let path = format!("{SERVICES}/v1.remote.dev");
    f.merge(&path, json!({"spec": service["spec"]})).await;
    let condition = until_reason(&f, "v1.remote.dev", "FailedDiscoveryCheck").await;
    let url = "https://slow.ext.svc:443/apis/remote.dev/v1";
    assert_eq!(
        condition["message"],
        format!(
            "failing or missing response from {url}: Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )
    );
    let metrics = f.get("/metrics").await.body;
    let counted = "aggregator_unavailable_apiservice_total{name=\"v1.remote.dev\",reason=\"FailedDiscoveryCheck\"} 1\n";
    assert!(metrics.as_str().unwrap().contains(counted));
    drop(hangs);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_comes_back_to_this_server_is_local() {
    let two = Two::start().await;
    let path = format!("{SERVICES}/v1.remote.dev");
    let here = json!({"spec": {"service": null, "insecureSkipTLSVerify": null}});
    let changed = two.first.merge(&path, here).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let condition = two.until_reason("Local").await;
    assert_eq!(condition["status"], "True");
    assert_eq!(two.first.get(THINGS).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_not_forwarded() {
    let two = Two::start().await;
    two.seen.lock().clear();
    let body = vec![b' '; (3 << 20) + 1];
    let refused = two.first.call(&format!("POST {THINGS}"), &JSON, body).await;
    assert_eq!(refused.code, 413);
    assert!(two.seen.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_task_of_an_api_service_ends_with_it() {
    let two = Two::start().await;
    let is_running = || {
        let running = two.first.world.tasks().running();
        running.iter().any(|task| task.ends_with("/api service"))
    };
    assert!(is_running());
    two.first.delete(&format!("{SERVICES}/v1.remote.dev")).await;
    while is_running() {
        tokio::task::yield_now().await;
    }
    assert_eq!(two.first.get(THINGS).await.code, 404);
}
