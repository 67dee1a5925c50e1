//! Quotas: what is in use is counted as objects come and go, and never more than is allowed.

use std::ops::Range;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Secret, Service, ServiceAccount};
use sendo_cluster::ClusterOptions;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{object, pod, pods_of, replica_set, without};

fn quota(hard: Value) -> ResourceQuota {
    object(json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}))
}

fn secret(name: &str) -> Secret {
    object(json!({"metadata": {"name": name, "namespace": "default"}}))
}

/// A pod that nobody schedules.
fn idle_pod(name: &str, cpu: &str) -> Pod {
    let resources = json!({"requests": {"cpu": cpu}});
    let container = json!({"name": "main", "image": "example.dev/app:1", "resources": resources});
    let spec = json!({"schedulerName": "none", "containers": [container]});
    pod(name, json!({}), spec)
}

/// What is in use of the quota.
fn used(now: &View) -> Value {
    status(now)["used"].clone()
}

fn status(now: &View) -> Value {
    let quota = now.get::<ResourceQuota>("default/q");
    json!(quota.and_then(|quota| quota.status))
}

async fn until_used(cluster: &TestCluster, expected: Value) {
    let what = format!("{expected} is in use");
    cluster.until(&what, |now| used(now) == expected).await;
}

/// The message with which the creation of an object is refused.
async fn refusal<K: sendo::Typed>(cluster: &TestCluster, object: &K) -> String {
    let refused = cluster.client().create(object).await;
    refused.expect_err("it is refused").to_string()
}

#[sendo_test::test]
async fn a_new_quota_counts_what_is_there(cluster: TestCluster) {
    cluster.create(&secret("a")).await;
    cluster.create(&idle_pod("p", "100m")).await;
    let hard = json!({"secrets": "3", "pods": "2", "requests.cpu": "1", "count/leases.coordination.k8s.io": "5"});
    cluster.create(&quota(hard.clone())).await;
    let expected = json!({
        "secrets": "1", "pods": "1", "requests.cpu": "100m",
        "count/leases.coordination.k8s.io": "0",
    });
    until_used(&cluster, expected).await;
    assert_eq!(cluster.now(status)["hard"], hard);
    cluster.stays_quiet_for(Duration::from_secs(3600)).await;
}

#[sendo_test::test]
async fn what_is_deleted_is_free_again(cluster: TestCluster) {
    cluster.create(&quota(json!({"secrets": "1"}))).await;
    until_used(&cluster, json!({"secrets": "0"})).await;
    let first = cluster.create(&secret("a")).await;
    assert_eq!(
        cluster.now(used),
        json!({"secrets": "1"}),
        "in the same transaction"
    );
    let message = refusal(&cluster, &secret("b")).await;
    assert!(
        message.contains(
            "exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1"
        ),
        "{message}"
    );
    cluster.delete(&first).await;
    until_used(&cluster, json!({"secrets": "0"})).await;
    cluster.create(&secret("b")).await;
}

#[sendo_test::test]
async fn a_pod_that_ends_frees_its_resources_and_keeps_its_place(cluster: TestCluster) {
    let hard = json!({"pods": "1", "requests.cpu": "1", "count/pods": "5"});
    cluster.create(&quota(hard)).await;
    let none = json!({"pods": "0", "requests.cpu": "0", "count/pods": "0"});
    until_used(&cluster, none).await;
    let ended = cluster.create(&idle_pod("a", "1")).await;
    let succeeded = sendo::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let patched = cluster.client().patch_status(&ended, succeeded).await;
    patched.expect("it ends");
    until_used(
        &cluster,
        json!({"pods": "0", "requests.cpu": "0", "count/pods": "1"}),
    )
    .await;
    cluster.create(&idle_pod("b", "1")).await;
}

#[sendo_test::test]
async fn a_pod_that_cannot_end_is_not_counted_for_ever(beside: TestCluster) {
    // Nobody deletes pods whose node is gone.
    let cluster = without(&beside, "pod-garbage-collector-controller").await;
    cluster.create(&quota(json!({"pods": "1"}))).await;
    until_used(&cluster, json!({"pods": "0"})).await;
    // Its node does not exist, so nobody confirms that it has ended.
    let lost = pod("a", json!({}), json!({"nodeName": "gone"}));
    let lost = cluster.create(&lost).await;
    cluster.delete(&lost).await;
    until_used(&cluster, json!({"pods": "0"})).await;
    assert!(cluster.get::<Pod>("default/a").is_some());
    cluster.stop().await;
}

#[sendo_test::test]
async fn a_service_that_gives_up_its_node_ports_frees_them(cluster: TestCluster) {
    cluster
        .create(&quota(json!({"services.nodeports": "2"})))
        .await;
    until_used(&cluster, json!({"services.nodeports": "0"})).await;
    let service: Service = object(json!({
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
    }));
    let service = cluster.create(&service).await;
    assert_eq!(cluster.now(used), json!({"services.nodeports": "2"}));
    cluster
        .patch(&service, json!({"spec": {"type": "ClusterIP"}}))
        .await;
    until_used(&cluster, json!({"services.nodeports": "0"})).await;
    // And back: an update is charged with what it adds.
    cluster
        .patch(&service, json!({"spec": {"type": "NodePort"}}))
        .await;
    assert_eq!(cluster.now(used), json!({"services.nodeports": "2"}));
}

#[sendo_test::test]
async fn a_quota_that_is_lowered_below_its_use_takes_nothing_more(cluster: TestCluster) {
    let created = cluster.create(&quota(json!({"secrets": "2"}))).await;
    until_used(&cluster, json!({"secrets": "0"})).await;
    let first = cluster.create(&secret("a")).await;
    cluster.create(&secret("b")).await;
    cluster
        .patch(&created, json!({"spec": {"hard": {"secrets": "1"}}}))
        .await;
    cluster
        .until("the limit is in force", |now| {
            status(now) == json!({"hard": {"secrets": "1"}, "used": {"secrets": "2"}})
        })
        .await;
    let message = refusal(&cluster, &secret("c")).await;
    assert!(
        message.ends_with("used: secrets=2, limited: secrets=1"),
        "{message}"
    );
    // What is there can be changed.
    cluster
        .patch(&first, json!({"stringData": {"k": "v"}}))
        .await;
    cluster.delete(&first).await;
    until_used(&cluster, json!({"secrets": "1"})).await;
    refusal(&cluster, &secret("c")).await;
}

#[sendo_test::test]
async fn a_replica_set_has_as_many_pods_as_its_quota_allows(cluster: TestCluster) {
    let created = cluster.create(&quota(json!({"pods": "2"}))).await;
    until_used(&cluster, json!({"pods": "0"})).await;
    cluster.create(&replica_set("web", 5)).await;
    let pods = |now: &View| pods_of(now, "web").len();
    cluster
        .until("two pods are there", |now| pods(now) == 2)
        .await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(cluster.now(pods), 2);
    cluster
        .patch(&created, json!({"spec": {"hard": {"pods": "5"}}}))
        .await;
    cluster
        .until("all pods are there", |now| pods(now) == 5)
        .await;
    until_used(&cluster, json!({"pods": "5"})).await;
}

#[sendo_test::test]
async fn objects_of_a_kind_that_comes_later_are_counted(cluster: TestCluster) {
    let limit = "count/widgets.example.dev";
    cluster.create(&quota(json!({limit: "1"}))).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(cluster.now(status)["used"], Value::Null);
    let definition = json!({
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definition: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
        object(definition);
    cluster.create(&definition).await;
    until_used(&cluster, json!({limit: "0"})).await;
}

/// How much is allowed in the random runs.
const SECRETS: usize = 5;
const MILLICORES: usize = 1000;

/// What is there: secrets, and the thousandths of a cpu that pods ask for.
fn there(now: &View) -> (usize, usize) {
    let asks = |pod: &Pod| {
        let container = &pod.spec.as_ref().expect("a spec").containers[0];
        let requests = container
            .resources
            .as_ref()
            .and_then(|r| r.requests.as_ref());
        let cpu = &requests.expect("requests")["cpu"].0;
        match cpu.strip_suffix('m') {
            Some(milli) => milli.parse().expect("a number"),
            None => cpu.parse::<usize>().expect("a number") * 1000,
        }
    };
    let secrets = now.list::<Secret>().len();
    (secrets, now.list::<Pod>().iter().map(asks).sum())
}

/// Sixteen writers create and delete as they like. What is there is never more than is allowed,
/// and in the end what is in use is what is there.
async fn sixteen_writers(cluster: &TestCluster) {
    cluster
        .until("pods have an account", |now| {
            now.get::<ServiceAccount>("default/default").is_some()
        })
        .await;
    let hard = json!({"secrets": SECRETS.to_string(), "requests.cpu": "1"});
    cluster.create(&quota(hard)).await;
    until_used(cluster, json!({"secrets": "0", "requests.cpu": "0"})).await;
    let writers = (0..16).map(|writer| write_at_random(cluster, writer));
    join_all(writers).await;
    let (secrets, milli) = cluster.now(there);
    cluster
        .until("what is in use is what is there", |now| {
            let cpu = match milli {
                1000 => "1".to_owned(),
                0 => "0".to_owned(),
                milli => format!("{milli}m"),
            };
            used(now) == json!({"secrets": secrets.to_string(), "requests.cpu": cpu})
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    cluster.stays_quiet_for(Duration::from_secs(900)).await;
}

async fn write_at_random(cluster: &TestCluster, writer: usize) {
    let (client, world) = (cluster.client(), cluster.world());
    let (mut secrets, mut pods) = (Vec::new(), Vec::new());
    for turn in 0..12 {
        let pause = world.random().below(0..20);
        world.clock().sleep(Duration::from_millis(pause)).await;
        let name = format!("{writer}-{turn}");
        match world.random().below(0..6) {
            0 | 1 => secrets.extend(client.create(&secret(&name)).await.ok()),
            2 | 3 => {
                let milli = 50 * world.random().below(1..9);
                let created = client.create(&idle_pod(&name, &format!("{milli}m"))).await;
                pods.extend(created.ok());
            }
            4 => {
                let dry = client.dry_run();
                let _ = dry.create(&secret(&name)).await;
            }
            _ => {
                if let Some(secret) = secrets.pop() {
                    client.delete(&secret).await.expect("it is deleted");
                }
                if let Some(pod) = pods.pop() {
                    client.delete(&pod).await.expect("it is deleted");
                }
            }
        }
        let (secrets, milli) = cluster.now(there);
        assert!(
            secrets <= SECRETS && milli <= MILLICORES,
            "{secrets} secrets, {milli}m"
        );
    }
}

/// Runs sixteen writers for each of these seeds, on a cluster with no more than they need.
fn run_writers(seeds: Range<u64>) {
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime for one thread");
        let controllers = "resourcequota-controller,serviceaccount-controller";
        let options = ClusterOptions {
            nodes: 0,
            controllers: controllers.parse().expect("controllers there are"),
            ..ClusterOptions::default()
        };
        let _told = ToldOnPanic(seed);
        runtime.block_on(async {
            let cluster = TestCluster::start_with(seed, options).await;
            sixteen_writers(&cluster).await;
            cluster.stop().await;
        });
    }
}

/// Names the seed of a run that fails.
struct ToldOnPanic(u64);

impl Drop for ToldOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run failed with seed {}", self.0);
        }
    }
}

#[test]
fn no_quota_is_exceeded_and_nothing_leaks() {
    run_writers(0..20);
}

#[test]
#[ignore = "the same in 1,000 runs, which takes minutes"]
fn no_quota_is_exceeded_and_nothing_leaks_in_a_thousand_runs() {
    run_writers(0..1000);
}
