//! `/metrics`: what is counted under which name, and who may see it.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use sendo_server::User;
use serde_json::json;

use super::support::Fixture;

/// The lines of a metric that have all of these labels.
fn lines<'a>(page: &'a str, name: &str, labels: &[&str]) -> Vec<&'a str> {
    let of_metric = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    let has_labels = |line: &&str| labels.iter().all(|label| line.contains(label));
    page.lines().filter(of_metric).filter(has_labels).collect()
}

/// The value of the one line of a metric that has all of these labels.
fn value(page: &str, name: &str, labels: &[&str]) -> f64 {
    match lines(page, name, labels).as_slice() {
        [line] => line.rsplit(' ').next().unwrap().parse().unwrap(),
        other => panic!("{name} {labels:?}: {other:?}"),
    }
}

async fn page(fixture: &Fixture) -> String {
    let answer = fixture.get("/metrics").await;
    assert_eq!(answer.code, 200);
    assert!(
        answer
            .content_type
            .starts_with("text/plain; version=0.0.4; charset=utf-8"),
        "{}",
        answer.content_type
    );
    answer.body.as_str().unwrap().to_owned()
}

fn config_map(name: &str) -> serde_json::Value {
    json!({"metadata": {"name": name}})
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const OF_CONFIG_MAPS: [&str; 4] = [
    r#"group="""#,
    r#"version="v1""#,
    r#"resource="configmaps""#,
    r#"component="apiserver""#,
];

fn of_config_maps<'a>(more: &[&'a str]) -> Vec<&'a str> {
    OF_CONFIG_MAPS
        .into_iter()
        .chain(more.iter().copied())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_verb_resource_scope_and_code() {
    let fixture = Fixture::start().await;
    let create = format!("POST {CONFIG_MAPS}");
    fixture.json(&create, config_map("a")).await;
    fixture.json(&create, config_map("a")).await;
    fixture
        .json(&format!("{create}?dryRun=All"), config_map("b"))
        .await;
    fixture.get(&format!("{CONFIG_MAPS}/a")).await;
    fixture.get(CONFIG_MAPS).await;
    fixture.get("/api/v1/configmaps?limit=1").await;

    let page = page(&fixture).await;
    let total = |labels: &[&str]| value(&page, "apiserver_request_total", &of_config_maps(labels));
    let created = [r#"verb="POST""#, r#"scope="resource""#, r#"dry_run="""#];
    let [verb, scope, real] = created;
    assert_eq!(total(&[verb, scope, real, r#"code="201""#]), 1.0);
    assert_eq!(total(&[verb, scope, real, r#"code="409""#]), 1.0);
    assert_eq!(total(&[verb, r#"dry_run="All""#, r#"code="201""#]), 1.0);
    assert_eq!(total(&[r#"verb="GET""#, scope]), 1.0);
    assert_eq!(total(&[r#"verb="LIST""#, r#"scope="namespace""#]), 1.0);
    assert_eq!(total(&[r#"verb="LIST""#, r#"scope="cluster""#]), 1.0);

    let durations = "apiserver_request_duration_seconds_count";
    assert_eq!(value(&page, durations, &of_config_maps(&created)), 2.0);
    let fastest = [verb, real, r#"le="0.005""#];
    let buckets = "apiserver_request_duration_seconds_bucket";
    assert_eq!(value(&page, buckets, &of_config_maps(&fastest)), 2.0);
    let sizes = "apiserver_response_sizes_count";
    assert_eq!(lines(&page, sizes, &of_config_maps(&[verb])), [""; 0]);
    let got = of_config_maps(&[r#"verb="GET""#]);
    assert_eq!(value(&page, sizes, &got), 1.0);
    // A dry run is no part of what the server promises.
    let sli = "apiserver_request_sli_duration_seconds_count";
    assert_eq!(value(&page, sli, &of_config_maps(&[verb])), 2.0);
    let bodies = "apiserver_request_body_size_bytes_count";
    let body = [r#"resource="configmaps""#, r#"verb="create""#];
    assert_eq!(value(&page, bodies, &body), 3.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_it_is_served_is_not_counted() {
    let fixture = Fixture::start().await;
    let request = http::Request::get(CONFIG_MAPS).body(Full::<Bytes>::default());
    let refused = fixture
        .send(User::new("ann", [""; 0]), request.unwrap())
        .await;
    assert_eq!(refused.status(), 403);
    assert_eq!(fixture.get("/apis/none.example/v1/things").await.code, 404);
    let page = page(&fixture).await;
    assert_eq!(
        lines(&page, "apiserver_request_total", &[r#"code="403""#]),
        [""; 0]
    );
    assert_eq!(
        lines(&page, "apiserver_request_total", &["none.example"]),
        [""; 0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_lasts_and_is_counted_when_it_ends() {
    let fixture = Fixture::start().await;
    let mut watch = fixture.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    fixture
        .json(&format!("POST {CONFIG_MAPS}"), config_map("a"))
        .await;
    watch.names(1).await;
    let watching = of_config_maps(&[r#"verb="WATCH""#, r#"scope="namespace""#]);
    let during = page(&fixture).await;
    let lasting = "apiserver_longrunning_requests";
    assert_eq!(value(&during, lasting, &watching), 1.0);
    assert_eq!(
        lines(&during, "apiserver_request_total", &watching),
        [""; 0]
    );
    let events = "apiserver_watch_events_total";
    assert_eq!(value(&during, events, &[r#"resource="configmaps""#]), 1.0);
    drop(watch);
    let after = page(&fixture).await;
    assert_eq!(value(&after, lasting, &watching), 0.0);
    assert_eq!(value(&after, "apiserver_request_total", &watching), 1.0);
}

#[tokio::test(start_paused = true)]
async fn admission_and_what_is_stored_are_counted() {
    let fixture = Fixture::start().await;
    let absent = "POST /api/v1/namespaces/absent/configmaps";
    assert_eq!(fixture.json(absent, config_map("a")).await.code, 404);
    fixture
        .json(&format!("POST {CONFIG_MAPS}"), config_map("a"))
        .await;
    let page = page(&fixture).await;
    let refused = [
        r#"name="NamespaceLifecycle""#,
        r#"operation="CREATE""#,
        r#"rejected="true""#,
        r#"type="admit""#,
    ];
    let controller = "apiserver_admission_controller_admission_duration_seconds_count";
    assert_eq!(value(&page, controller, &refused), 1.0);
    let step = "apiserver_admission_step_admission_duration_seconds_count";
    assert_eq!(value(&page, step, &refused[1..]), 1.0);
    let objects = [r#"group="""#, r#"resource="configmaps""#];
    assert_eq!(value(&page, "apiserver_resource_objects", &objects), 1.0);
    let services = [r#"resource="apiservices.apiregistration.k8s.io""#];
    assert!(value(&page, "apiserver_storage_objects", &services) > 20.0);
}

#[tokio::test(start_paused = true)]
async fn pages_are_counted_by_their_path() {
    let fixture = Fixture::start().await;
    fixture.get("/healthz").await;
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    fixture
        .call("GET /apis", &[("accept", aggregated)], "")
        .await;
    let page = page(&fixture).await;
    let health = [
        r#"subresource="/healthz""#,
        r#"component="""#,
        r#"code="200""#,
    ];
    assert_eq!(value(&page, "apiserver_request_total", &health), 1.0);
    let discovery = [r#"subresource="/apis""#, r#"component="apiserver""#];
    assert_eq!(value(&page, "apiserver_request_total", &discovery), 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_page_is_for_those_who_may_read_it() {
    let fixture = Fixture::start().await;
    let get = || http::Request::get("/metrics").body(Full::<Bytes>::default());
    let ann = || User::new("ann", [""; 0]);
    let refused = fixture.send(ann(), get().unwrap()).await;
    assert_eq!(refused.status(), 403);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let message = r#"forbidden: User \"ann\" cannot get path \"/metrics\""#;
    assert!(String::from_utf8_lossy(&body).contains(message));
    let monitoring = User::new("prometheus", ["system:monitoring"]);
    assert_eq!(fixture.send(monitoring, get().unwrap()).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_reset_begins_anew() {
    let fixture = Fixture::start().await;
    fixture.get(CONFIG_MAPS).await;
    let reset = fixture.delete("/metrics").await;
    assert_eq!(reset.body, "metrics reset\n");
    let page = page(&fixture).await;
    assert_eq!(
        lines(&page, "apiserver_request_total", &OF_CONFIG_MAPS),
        [""; 0]
    );
}
