//! Taints that drive pods out of a node.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::{Value, json};

use super::{events_about, phase, pod, without};

/// Pods that run on node-0, each with its tolerations.
async fn running(cluster: &TestCluster, pods: &[(&str, Value)]) -> Vec<Pod> {
    let mut made = Vec::new();
    for (name, tolerations) in pods {
        let spec = json!({"nodeName": "node-0", "tolerations": tolerations});
        made.push(cluster.create(&pod(name, json!({}), spec)).await);
    }
    let run = |now: &sendo_test::View| {
        let pods = now.list::<Pod>();
        pods.len() == made.len() && pods.iter().all(|pod| phase(pod) == "Running")
    };
    cluster.until("the pods run", run).await;
    made
}

async fn taint(cluster: &TestCluster, taints: Value) {
    let node = cluster.get::<Node>("node-0").expect("a node");
    cluster
        .patch(&node, json!({"spec": {"taints": taints}}))
        .await;
}

/// Who is there, and not on the way out.
fn left(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.list::<Pod>();
    let staying = pods.iter().filter(|pod| !pod.is_being_deleted());
    staying.map(|pod| pod.name().to_owned()).collect()
}

fn tolerates(key: &str, seconds: Value) -> Value {
    json!([{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

#[sendo_test::test]
async fn pods_go_when_what_they_tolerate_has_lasted(cluster: TestCluster) {
    let pods = [
        ("all", json!([{"operator": "Exists"}])),
        ("forever", tolerates("out", Value::Null)),
        ("minute", tolerates("out", json!(60))),
        ("none", json!([])),
    ];
    let made = running(&cluster, &pods).await;
    taint(&cluster, json!([{"key": "out", "effect": "NoExecute"}])).await;
    cluster.pass(Duration::from_secs(59)).await;
    assert_eq!(left(&cluster), ["all", "forever", "minute"]);
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(left(&cluster), ["all", "forever"]);
    cluster.pass(Duration::from_secs(3600)).await;
    assert_eq!(left(&cluster), ["all", "forever"]);
    let events = events_about(&cluster, made[3].uid().as_str());
    let evicted = "TaintManagerEviction Marking for deletion Pod default/none";
    assert!(events.iter().any(|line| line == evicted), "{events:?}");
    let why = "\"reason\":\"DeletionByTaintManager\"";
    let changes = cluster.changes();
    let mut lines = changes.lines();
    let told = lines.find(|line| line.contains("/pods/default/none ") && line.contains(why));
    let told = told.expect("the condition is written");
    // It stands behind those that were there.
    let place = |type_: &str| told.find(&format!("\"type\":\"{type_}\""));
    assert!(place("PodScheduled") < place("DisruptionTarget"), "{told}");
    assert!(place("Ready") < place("DisruptionTarget"), "{told}");
}

#[sendo_test::test]
async fn pods_stay_when_the_taint_goes_in_time(cluster: TestCluster) {
    let made = running(&cluster, &[("minute", tolerates("out", json!(60)))]).await;
    taint(&cluster, json!([{"key": "out", "effect": "NoExecute"}])).await;
    cluster.pass(Duration::from_secs(40)).await;
    taint(&cluster, Value::Null).await;
    cluster.pass(Duration::from_secs(3600)).await;
    assert_eq!(left(&cluster), ["minute"]);
    let events = events_about(&cluster, made[0].uid().as_str());
    let cancelled = "TaintManagerEviction Cancelling deletion of Pod default/minute";
    assert!(events.iter().any(|line| line == cancelled), "{events:?}");
    // The time that was not used up does not count the next time.
    taint(&cluster, json!([{"key": "out", "effect": "NoExecute"}])).await;
    cluster.pass(Duration::from_secs(59)).await;
    assert_eq!(left(&cluster), ["minute"]);
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(left(&cluster), [""; 0]);
}

#[sendo_test::test]
async fn every_pod_bears_a_lost_node_for_five_minutes(beside: TestCluster) {
    // The controller of nodes would see that the node is there.
    let cluster = without(&beside, "node-lifecycle-controller").await;
    running(&cluster, &[("plain", json!([]))]).await;
    let lost = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
    taint(&cluster, lost).await;
    cluster.pass(Duration::from_secs(299)).await;
    assert_eq!(left(&cluster), ["plain"]);
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(left(&cluster), [""; 0]);
    cluster.stop().await;
}
