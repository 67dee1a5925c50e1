//! From objects to running pods and back, on the whole cluster in virtual time.

#![recursion_limit = "256"]

mod autoscalers;
mod budgets;
mod certificates;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod endpoints;
mod garbage;
mod jobs;
mod namespaces;
mod nodes;
mod pods;
mod quotas;
mod replicasets;
mod replication_controllers;
mod roles;
mod scheduling;
mod stateful_sets;
mod storage_versions;
mod taints;
mod volumes;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use sendo::ObjectExt;
use sendo_cluster::ClusterOptions;
use sendo_test::{Faults, TestCluster, View};
use serde_json::{Value, json};

/// A set of `replicas` pods in `default`, labelled with its name.
fn replica_set(name: &str, replicas: i32) -> ReplicaSet {
    object(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.dev/app:1"}]},
            },
        },
    }))
}

/// A pod of one container in `default`, with whatever else its spec has.
fn pod(name: &str, labels: Value, more: Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "main", "image": "example.dev/app:1"}]});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": spec,
    }))
}

fn object<K: serde::de::DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).expect("an object of its kind")
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// The pods labelled `app=name` that are not on their way out.
fn pods_of(now: &View, name: &str) -> Vec<Pod> {
    let mut pods = now.list::<Pod>();
    pods.retain(|pod| pod.label("app") == Some(name) && !pod.is_being_deleted());
    pods
}

async fn until_running(cluster: &TestCluster, name: &str, count: usize) -> Vec<Pod> {
    cluster
        .until(&format!("{count} pods of {name} run"), |now| {
            let pods = pods_of(now, name);
            pods.len() == count && pods.iter().all(|pod| phase(pod) == "Running")
        })
        .await;
    let mut pods = cluster.list::<Pod>();
    pods.retain(|pod| pod.label("app") == Some(name) && !pod.is_being_deleted());
    pods
}

/// The reasons and messages of the events about an object, in order.
fn events_about(cluster: &TestCluster, uid: &str) -> Vec<String> {
    let mut events = cluster.list::<k8s_openapi::api::core::v1::Event>();
    events.retain(|event| event.involved_object.uid.as_deref() == Some(uid));
    let line = |event: &k8s_openapi::api::core::v1::Event| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{} {}", text(&event.reason), text(&event.message))
    };
    events.iter().map(line).collect()
}

/// A cluster without the controller of that name. The test stops it.
async fn without(beside: &TestCluster, controller: &str) -> TestCluster {
    let controllers = format!("*,-{controller}").parse().expect("a known name");
    let options = ClusterOptions {
        controllers,
        ..ClusterOptions::default()
    };
    TestCluster::start_with(beside.world().random().u64(), options).await
}

/// A cluster whose controller of that name is a program of its own, some of whose requests fail.
/// The test stops it.
async fn with_faults(beside: &TestCluster, controller: &str, chance: f64) -> (TestCluster, Faults) {
    let cluster = without(beside, controller).await;
    let faults = Faults::new(cluster.world(), chance);
    let settings = sendo_workloads::Settings::default();
    let program = sendo_workloads::manager(&settings, |name| name == controller);
    cluster.run_with(program, cluster.faulty(&faults)).await;
    (cluster, faults)
}
