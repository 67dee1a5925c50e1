//! Nodes: their own pods, from the first init container to the graceful end, and how they are lost.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use sendo::{ObjectExt, Running};
use sendo_cluster::ClusterOptions;
use sendo_node::NodeOptions;
use sendo_test::{TestCluster, View};
use serde_json::json;

use super::{events_about, object, phase, pod};

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

/// The agent of a node of its own, which the test may stop.
async fn agent(cluster: &TestCluster, number: u8) -> Running {
    let (manager, _) = sendo_node::agent(&NodeOptions::new(number));
    let running = cluster.start_manager(manager, cluster.config()).await;
    running.ready().await;
    running
}

fn ready(now: &View, node: &str) -> (String, String) {
    let status = now.get::<Node>(node).and_then(|node| node.status);
    let mut conditions = status
        .into_iter()
        .flat_map(|s| s.conditions.into_iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.map_or_else(Default::default, |ready| {
        (ready.status, ready.reason.unwrap_or_default())
    })
}

/// The taints of a node, each with its effect.
fn taints(now: &View, node: &str) -> Vec<String> {
    let spec = now.get::<Node>(node).and_then(|node| node.spec);
    let taints = spec
        .into_iter()
        .flat_map(|s| s.taints.into_iter().flatten());
    let mut taints: Vec<_> = taints
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect();
    taints.sort();
    taints
}

#[sendo_test::test]
async fn a_node_whose_agent_stops_is_lost_until_it_is_back(cluster: TestCluster) {
    let running = agent(&cluster, 7).await;
    let on_it = json!({"nodeName": "node-7"});
    let made = cluster.create(&pod("p", json!({}), on_it)).await;
    cluster
        .until("it runs", |now| {
            let pod = now.get::<Pod>("default/p");
            pod.is_some_and(|pod| phase(&pod) == "Running")
        })
        .await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(cluster.now(|now| ready(now, "node-7")).0, "True");
    assert_eq!(cluster.now(|now| taints(now, "node-7")), [""; 0]);

    running.stop().await.expect("it stops");
    cluster.pass(Duration::from_secs(39)).await;
    assert_eq!(cluster.now(|now| ready(now, "node-7")).0, "True");
    cluster.pass(Duration::from_secs(30)).await;
    let lost = ("Unknown".to_owned(), "NodeStatusUnknown".to_owned());
    assert_eq!(cluster.now(|now| ready(now, "node-7")), lost);
    let unreachable = "node.kubernetes.io/unreachable";
    assert_eq!(
        cluster.now(|now| taints(now, "node-7")),
        [
            format!("{unreachable}:NoExecute"),
            format!("{unreachable}:NoSchedule")
        ]
    );
    let events = events_about(&cluster, made.uid().as_str());
    let told = "NodeNotReady Node is not ready";
    assert!(events.iter().any(|line| line == told), "{events:?}");
    // It tolerates that for five minutes.
    cluster.pass(Duration::from_secs(250)).await;
    let pod = cluster.get::<Pod>("default/p").expect("it is there");
    assert!(!pod.is_being_deleted());
    cluster.pass(Duration::from_secs(60)).await;
    let pod = cluster.get::<Pod>("default/p").expect("nobody ends it");
    assert!(pod.is_being_deleted());

    let running = agent(&cluster, 7).await;
    cluster
        .until("the node is back, and ends the pod", |now| {
            ready(now, "node-7").0 == "True"
                && taints(now, "node-7").is_empty()
                && now.get::<Pod>("default/p").is_none()
        })
        .await;
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
    running.stop().await.expect("it stops");
}

#[sendo_test::test]
async fn no_pod_leaves_if_no_node_answers(beside: TestCluster) {
    let options = ClusterOptions {
        nodes: 0,
        ..ClusterOptions::default()
    };
    let cluster = TestCluster::start_with(beside.world().random().u64(), options).await;
    let agents = [agent(&cluster, 0).await, agent(&cluster, 1).await];
    let on_it = json!({"nodeName": "node-1"});
    cluster.create(&pod("p", json!({}), on_it)).await;
    cluster.pass(Duration::from_secs(20)).await;
    for agent in agents {
        agent.stop().await.expect("it stops");
    }
    cluster.pass(Duration::from_secs(900)).await;
    for node in ["node-0", "node-1"] {
        let only = ["node.kubernetes.io/unreachable:NoSchedule"];
        assert_eq!(cluster.now(|now| taints(now, node)), only);
    }
    let pod = cluster.get::<Pod>("default/p").expect("it stays");
    assert!(!pod.is_being_deleted());
    let running = agent(&cluster, 0).await;
    cluster
        .until("pods leave the other one", |now| {
            taints(now, "node-1").len() == 2
        })
        .await;
    assert_eq!(cluster.now(|now| taints(now, "node-0")), [""; 0]);
    running.stop().await.expect("it stops");
    cluster.stop().await;
}

#[sendo_test::test]
async fn a_node_that_never_reported_is_lost_too(cluster: TestCluster) {
    let node: Node = object(json!({"metadata": {"name": "paper", "labels":
        {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9"}}}));
    let made = cluster.create(&node).await;
    cluster.pass(Duration::from_secs(50)).await;
    assert_eq!(cluster.now(|now| ready(now, "paper")).0, "");
    cluster.pass(Duration::from_secs(20)).await;
    let never = ("Unknown".to_owned(), "NodeStatusNeverUpdated".to_owned());
    assert_eq!(cluster.now(|now| ready(now, "paper")), never);
    let node = cluster.get::<Node>("paper").expect("it is there");
    assert_eq!(node.label("beta.kubernetes.io/os"), Some("linux"));
    cluster.delete(&made).await;
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    assert_eq!(
        events,
        [
            "RegisteredNode Registered Node paper in Controller",
            "RemovingNode Removing Node paper from Controller"
        ]
    );
}
