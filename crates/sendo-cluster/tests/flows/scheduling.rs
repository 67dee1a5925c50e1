//! Scheduling: where pods go, and what is said when they cannot.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::json;

use super::{events_about, pod, until_running};

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
}

#[sendo_test::test]
async fn pods_spread_over_the_nodes(cluster: TestCluster) {
    for number in 0..10 {
        cluster
            .create(&pod(&format!("p{number}"), json!({"app": "x"}), json!({})))
            .await;
    }
    let pods = until_running(&cluster, "x", 10).await;
    let on_first = pods
        .iter()
        .filter(|pod| node_of(pod) == Some("node-0"))
        .count();
    assert_eq!(on_first, 5);
}

#[sendo_test::test]
async fn a_pod_that_fits_nowhere_says_why_and_is_placed_when_it_can_be(cluster: TestCluster) {
    let picky = json!({"nodeSelector": {"disk": "fast"}});
    let created = cluster.create(&pod("p", json!({}), picky)).await;
    let message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
                   no new claims to deallocate, preemption: 0/2 nodes are available: \
                   2 Preemption is not helpful for scheduling.";
    cluster
        .until("it says why", |now| {
            let pod = now.get::<Pod>("default/p").unwrap();
            let conditions = pod
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            conditions.iter().any(|condition| {
                condition.type_ == "PodScheduled"
                    && condition.status == "False"
                    && condition.reason.as_deref() == Some("Unschedulable")
                    && condition.message.as_deref() == Some(message)
            })
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, created.uid().as_str());
    assert_eq!(events, [format!("FailedScheduling {message}")]);

    let node = cluster.get::<Node>("node-1").unwrap();
    cluster
        .patch(&node, json!({"metadata": {"labels": {"disk": "fast"}}}))
        .await;
    cluster
        .until("it is placed", |now| {
            node_of(&now.get::<Pod>("default/p").unwrap()) == Some("node-1")
        })
        .await;
}

#[sendo_test::test]
async fn a_node_takes_no_more_than_it_has(cluster: TestCluster) {
    let big = json!({"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "20"}}}]});
    for number in 0..3 {
        cluster
            .create(&pod(
                &format!("p{number}"),
                json!({"app": "big"}),
                big.clone(),
            ))
            .await;
    }
    cluster.pass(Duration::from_secs(10)).await;
    let pods = cluster.list::<Pod>();
    let placed: Vec<_> = pods.iter().filter(|pod| node_of(pod).is_some()).collect();
    assert_eq!(placed.len(), 2, "one per node of 32 cpus");
    cluster.delete(placed[0]).await;
    cluster
        .until("the third takes the resources", |now| {
            let pods = now.list::<Pod>();
            pods.len() == 2 && pods.iter().all(|pod| node_of(pod).is_some())
        })
        .await;
}

#[sendo_test::test]
async fn a_cordoned_node_gets_no_new_pods(cluster: TestCluster) {
    let node = cluster.get::<Node>("node-0").unwrap();
    cluster
        .patch(&node, json!({"spec": {"unschedulable": true}}))
        .await;
    for number in 0..4 {
        cluster
            .create(&pod(&format!("p{number}"), json!({"app": "x"}), json!({})))
            .await;
    }
    let pods = until_running(&cluster, "x", 4).await;
    assert!(pods.iter().all(|pod| node_of(pod) == Some("node-1")));
}

#[sendo_test::test]
async fn a_pod_for_another_scheduler_is_left_alone(cluster: TestCluster) {
    cluster
        .create(&pod("p", json!({}), json!({"schedulerName": "mine"})))
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(node_of(&cluster.get::<Pod>("default/p").unwrap()), None);
}
