//! DaemonSets: a pod on each node that it fits.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, phase, with_faults};

/// A DaemonSet `agent` in `default`.
fn daemon_set(more: Value) -> DaemonSet {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": template("example.dev/agent:1", json!({})),
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": "agent", "namespace": "default"}, "spec": spec}))
}

fn template(image: &str, more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "main", "image": image}]});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": spec})
}

fn pods(now: &View) -> Vec<Pod> {
    let mut pods = now.list::<Pod>();
    pods.retain(|pod| pod.label("app") == Some("agent") && !pod.is_being_deleted());
    pods
}

/// The nodes on which pods run, in order, each with the pod's image.
fn running(now: &View) -> Vec<(String, String)> {
    let mut pods = pods(now);
    pods.retain(|pod| phase(pod) == "Running");
    let on_node = |pod: &Pod| {
        let spec = pod.spec.clone().unwrap();
        let image = spec.containers[0].image.clone().unwrap();
        (spec.node_name.unwrap(), image)
    };
    let mut nodes: Vec<_> = pods.iter().map(on_node).collect();
    nodes.sort();
    nodes
}

fn status(now: &View) -> DaemonSetStatus {
    let set = now.get::<DaemonSet>("default/agent");
    set.and_then(|set| set.status).unwrap_or_default()
}

async fn until_running(cluster: &TestCluster, nodes: &[&str], image: &str) {
    let expected: Vec<_> = nodes
        .iter()
        .map(|n| ((*n).to_owned(), image.to_owned()))
        .collect();
    cluster
        .until(&format!("{image} runs on {nodes:?}"), |now| {
            let ready = usize::try_from(status(now).number_ready).unwrap();
            running(now) == expected && ready == nodes.len()
        })
        .await;
}

const FIRST: &str = "example.dev/agent:1";
const SECOND: &str = "example.dev/agent:2";

#[sendo_test::test]
async fn each_node_has_a_pod(cluster: TestCluster) {
    let set = cluster.create(&daemon_set(json!({}))).await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    for pod in cluster.now(pods) {
        assert_eq!(pod.controller(), Some(set.uid()));
        let tolerations = pod.spec.unwrap().tolerations.unwrap();
        let tolerates = |key: &str| tolerations.iter().any(|t| t.key.as_deref() == Some(key));
        assert!(tolerates("node.kubernetes.io/unschedulable"));
    }
    let status = cluster.now(status);
    assert_eq!(
        (
            status.desired_number_scheduled,
            status.current_number_scheduled
        ),
        (2, 2)
    );
    assert_eq!(
        (status.number_available, status.number_unavailable),
        (Some(2), None)
    );
    assert_eq!(status.updated_number_scheduled, Some(2));
    cluster.pass(Duration::from_secs(60)).await;
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn labels_of_nodes_decide_where_pods_run(cluster: TestCluster) {
    let selecting = template(FIRST, json!({"nodeSelector": {"disk": "ssd"}}));
    cluster
        .create(&daemon_set(json!({ "template": selecting })))
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert!(cluster.now(pods).is_empty());
    let node = cluster.get::<Node>("node-1").unwrap();
    cluster
        .patch(&node, json!({"metadata": {"labels": {"disk": "ssd"}}}))
        .await;
    until_running(&cluster, &["node-1"], FIRST).await;
    cluster
        .patch(&node, json!({"metadata": {"labels": {"disk": null}}}))
        .await;
    cluster
        .until("its pod is gone", |now| pods(now).is_empty())
        .await;
}

#[sendo_test::test]
async fn a_cordoned_node_keeps_its_pod_and_a_tainted_one_gets_none(cluster: TestCluster) {
    let tainted = cluster.get::<Node>("node-0").unwrap();
    let taints = json!([{"key": "example.dev/a", "effect": "NoSchedule"}]);
    cluster
        .patch(&tainted, json!({"spec": {"taints": taints}}))
        .await;
    let cordoned = cluster.get::<Node>("node-1").unwrap();
    cluster
        .patch(&cordoned, json!({"spec": {"unschedulable": true}}))
        .await;
    cluster.create(&daemon_set(json!({}))).await;
    until_running(&cluster, &["node-1"], FIRST).await;
    assert_eq!(cluster.now(status).desired_number_scheduled, 1);
}

#[sendo_test::test]
async fn an_update_replaces_one_pod_after_the_other(cluster: TestCluster) {
    let set = cluster.create(&daemon_set(json!({}))).await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template(SECOND, json!({}))}}),
        )
        .await;
    cluster
        .until("one of two runs at any time", |now| {
            let running = running(now);
            assert!(!running.is_empty(), "at most one is unavailable");
            running.len() == 2 && running.iter().all(|(_, image)| image == SECOND)
        })
        .await;
    // The template before is the newest revision again.
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template(FIRST, json!({}))}}),
        )
        .await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    let mut revisions = cluster.list::<ControllerRevision>();
    revisions.sort_by_key(|revision| revision.revision);
    let numbers: Vec<i64> = revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [2, 3]);
}

#[sendo_test::test]
async fn a_surge_starts_the_new_pod_first(cluster: TestCluster) {
    let rolling = json!({"maxSurge": 1, "maxUnavailable": 0});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    let set = cluster
        .create(&daemon_set(json!({"updateStrategy": strategy})))
        .await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template(SECOND, json!({}))}}),
        )
        .await;
    cluster
        .until("all are updated", |now| {
            let mut nodes: Vec<String> = running(now).into_iter().map(|(node, _)| node).collect();
            nodes.dedup();
            assert_eq!(nodes.len(), 2, "no node is without a running pod");
            let running = running(now);
            running.len() == 2 && running.iter().all(|(_, image)| image == SECOND)
        })
        .await;
}

#[sendo_test::test]
async fn with_on_delete_nothing_is_replaced_until_it_is_deleted(cluster: TestCluster) {
    let strategy = json!({"updateStrategy": {"type": "OnDelete"}});
    let set = cluster.create(&daemon_set(strategy)).await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template(SECOND, json!({}))}}),
        )
        .await;
    cluster.pass(Duration::from_secs(600)).await;
    assert!(cluster.now(running).iter().all(|(_, image)| image == FIRST));
    let first = cluster.now(pods).remove(0);
    cluster.delete(&first).await;
    cluster
        .until("one is new", |now| {
            let running = running(now);
            running.len() == 2 && running.iter().filter(|(_, image)| image == SECOND).count() == 1
        })
        .await;
}

#[sendo_test::test]
async fn a_failed_pod_is_replaced_after_a_backoff(cluster: TestCluster) {
    let set = cluster.create(&daemon_set(json!({}))).await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    let fail = async |cluster: &TestCluster| {
        let mut pod = cluster.now(pods).remove(0);
        pod.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        cluster
            .client()
            .replace_status(&pod)
            .await
            .expect("a status may be written");
        let (uid, since) = (pod.uid(), cluster.world().clock().now());
        cluster
            .until("it is replaced", |now| {
                pods(now).iter().all(|pod| pod.uid() != uid)
            })
            .await;
        cluster.world().clock().now() - since
    };
    let first = fail(&cluster).await;
    assert!(first < Duration::from_secs(1), "{first:?}");
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, set.uid().as_str());
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("FailedDaemonPod")),
        "{events:?}"
    );
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
}

#[sendo_test::test(seeds = 3)]
async fn faults_leave_one_pod_on_each_node(beside: TestCluster) {
    let (cluster, faults) = with_faults(&beside, "daemonset-controller", 0.2).await;
    let set = cluster.create(&daemon_set(json!({}))).await;
    until_running(&cluster, &["node-0", "node-1"], FIRST).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template(SECOND, json!({}))}}),
        )
        .await;
    until_running(&cluster, &["node-0", "node-1"], SECOND).await;
    assert!(faults.injected() > 0);
    assert_eq!(cluster.list::<ControllerRevision>().len(), 2);
    cluster.stop().await;
}
