//! Nodes: their own pods, from the first init container to the graceful end.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::json;

use super::{phase, pod};

#[sendo_test::test]
async fn the_nodes_are_ready_with_what_they_have(cluster: TestCluster) {
    let is_free = |node: &Node| node.spec.iter().all(|spec| spec.taints.is_none());
    cluster
        .until("the nodes are no longer tainted", |now| {
            now.list::<Node>().iter().all(is_free)
        })
        .await;
    let nodes = cluster.list::<Node>();
    let names: Vec<_> = nodes.iter().map(ObjectExt::name).collect();
    assert_eq!(names, ["node-0", "node-1"]);
    for node in &nodes {
        let status = node.status.as_ref().unwrap();
        let ready = status
            .conditions
            .iter()
            .flatten()
            .find(|c| c.type_ == "Ready");
        assert_eq!(ready.map(|c| c.status.as_str()), Some("True"));
        let capacity = status.capacity.as_ref().unwrap();
        assert_eq!(capacity["cpu"].0, "32");
        assert_eq!(capacity["memory"].0, "256Gi");
        assert_eq!(capacity["pods"].0, "110");
    }
}

#[sendo_test::test]
async fn init_containers_run_in_order_before_the_containers(cluster: TestCluster) {
    let with_init = json!({"initContainers": [
        {"name": "first", "image": "i"}, {"name": "second", "image": "i"},
    ]});
    cluster.create(&pod("p", json!({}), with_init)).await;
    cluster
        .until("it runs", |now| {
            now.get::<Pod>("default/p")
                .is_some_and(|pod| phase(&pod) == "Running")
        })
        .await;
    let status = cluster.get::<Pod>("default/p").unwrap().status.unwrap();
    let finished: Vec<_> = status
        .init_container_statuses
        .unwrap()
        .into_iter()
        .map(|container| container.state.unwrap().terminated.unwrap())
        .collect();
    assert!(finished.iter().all(|container| container.exit_code == 0));
    assert!(
        finished[0].finished_at.as_ref().unwrap().0 <= finished[1].started_at.as_ref().unwrap().0
    );
    assert!(status.pod_ip.is_some() && status.host_ip.is_some());
    // What a client sees on the way: never a container before the last init container is done.
    for line in cluster
        .changes()
        .lines()
        .filter(|line| line.contains("/pods/default/p "))
    {
        let started = line.contains("simulated://") && line.contains("\"Initialized\",\"status\"");
        assert!(
            !started
                || !line.contains("\"status\":\"False\",\"type\":\"Initialized\"")
                || !line.contains("\"phase\":\"Running\"")
        );
    }
}

#[sendo_test::test]
async fn a_pod_ends_gracefully_and_then_goes(cluster: TestCluster) {
    let created = cluster.create(&pod("p", json!({}), json!({}))).await;
    cluster
        .until("it runs", |now| {
            now.get::<Pod>("default/p")
                .is_some_and(|pod| phase(&pod) == "Running")
        })
        .await;
    cluster.delete(&created).await;
    let marked = cluster
        .get::<Pod>("default/p")
        .expect("it has a grace period");
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(30));
    cluster
        .until("it is gone", |now| now.get::<Pod>("default/p").is_none())
        .await;
    let last = cluster.changes();
    let last = last
        .lines()
        .rev()
        .filter(|line| line.contains("/pods/default/p "))
        .nth(1)
        .unwrap();
    assert!(
        last.contains("\"exitCode\":143"),
        "its containers were terminated: {last}"
    );
}

#[sendo_test::test]
async fn a_node_leaves_the_pods_of_others_alone(cluster: TestCluster) {
    let elsewhere = json!({"nodeName": "no-such-node"});
    cluster.create(&pod("p", json!({}), elsewhere)).await;
    cluster.pass(Duration::from_secs(30)).await;
    let pod = cluster
        .get::<Pod>("default/p")
        .expect("nobody cares for it");
    assert_eq!(phase(&pod), "Pending");
    cluster
        .until("it is collected, as there is no such node", |now| {
            now.get::<Pod>("default/p").is_none()
        })
        .await;
    let changes = cluster.changes();
    let mut of_pod = changes
        .lines()
        .filter(|line| line.contains("/pods/default/p "));
    assert!(
        of_pod.any(|line| line.contains("DeletionByPodGC")),
        "it says why"
    );
}

#[sendo_test::test]
async fn every_pod_has_an_address_of_its_own(cluster: TestCluster) {
    for number in 0..20 {
        cluster
            .create(&pod(&format!("p{number}"), json!({"app": "x"}), json!({})))
            .await;
    }
    let pods = super::until_running(&cluster, "x", 20).await;
    let mut addresses: Vec<_> = pods
        .iter()
        .map(|pod| pod.status.as_ref().unwrap().pod_ip.clone())
        .collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 20);
}
