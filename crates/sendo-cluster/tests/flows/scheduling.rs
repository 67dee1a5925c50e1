//! Scheduling: where pods go, and what is said when they cannot.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use sendo::ObjectExt;
use sendo_scheduler::framework::{Cycle, Plugin, Profile, Rejected};
use sendo_scheduler::snapshot::node_info::NodeInfo;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

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

/// A pod with a CPU request.
fn requesting(name: &str, cpu: &str, more: Value) -> Pod {
    let mut spec = json!({"containers": [
        {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}},
    ]});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    pod(name, json!({"app": name}), spec)
}

async fn until_placed(cluster: &TestCluster, name: &str) -> String {
    let key = format!("default/{name}");
    let placed = |now: &View| node_of(&now.get::<Pod>(&*key)?).map(str::to_owned);
    cluster
        .until(&format!("{name} has a node"), |now| placed(now).is_some())
        .await;
    node_of(&cluster.get::<Pod>(&*key).unwrap())
        .unwrap()
        .to_owned()
}

fn message_of(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mut conditions = conditions.iter();
    let scheduled = conditions.find(|condition| condition.type_ == "PodScheduled")?;
    scheduled.message.as_deref()
}

async fn until_it_says(cluster: &TestCluster, name: &str, message: &str) {
    let key = format!("default/{name}");
    cluster
        .until(&format!("{name} says {message}"), |now| {
            now.get::<Pod>(&*key)
                .is_some_and(|pod| message_of(&pod) == Some(message))
        })
        .await;
}

#[sendo_test::test]
async fn pods_that_repel_each_other_get_a_node_each(cluster: TestCluster) {
    let apart = json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": {"app": "x"}},
            "topologyKey": "kubernetes.io/hostname",
        }],
    }}});
    for name in ["a", "b"] {
        cluster
            .create(&pod(name, json!({"app": "x"}), apart.clone()))
            .await;
    }
    let nodes = [
        until_placed(&cluster, "a").await,
        until_placed(&cluster, "b").await,
    ];
    assert_ne!(nodes[0], nodes[1]);
    cluster.create(&pod("c", json!({"app": "x"}), apart)).await;
    let message = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. \
                   no new claims to deallocate, preemption: 0/2 nodes are available: \
                   2 No preemption victims found for incoming pod.";
    until_it_says(&cluster, "c", message).await;
    // A pod that has no rules itself is kept away by those of the others.
    cluster
        .create(&pod("d", json!({"app": "x"}), json!({})))
        .await;
    let message = "0/2 nodes are available: \
                   2 node(s) didn't satisfy existing pods anti-affinity rules. \
                   no new claims to deallocate, preemption: 0/2 nodes are available: \
                   2 No preemption victims found for incoming pod.";
    until_it_says(&cluster, "d", message).await;
    cluster
        .delete(&cluster.get::<Pod>("default/a").unwrap())
        .await;
    until_placed(&cluster, "c").await;
}

#[sendo_test::test]
async fn a_pod_runs_beside_those_that_it_wants(cluster: TestCluster) {
    let beside = json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": {"app": "db"}},
            "namespaceSelector": {},
            "topologyKey": "kubernetes.io/hostname",
        }],
    }}});
    cluster
        .create(&pod("web", json!({"app": "web"}), beside))
        .await;
    let message = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules. \
                   no new claims to deallocate, preemption: 0/2 nodes are available: \
                   2 Preemption is not helpful for scheduling.";
    until_it_says(&cluster, "web", message).await;
    let fixed = json!({"nodeSelector": {"kubernetes.io/hostname": "node-1"}});
    cluster
        .create(&pod("db", json!({"app": "db"}), fixed))
        .await;
    assert_eq!(until_placed(&cluster, "web").await, "node-1");
}

#[sendo_test::test]
async fn pods_are_spread_as_evenly_as_they_ask(cluster: TestCluster) {
    let even = json!({"topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "nodeTaintsPolicy": "Ignore",
    }]});
    let node = cluster.get::<Node>("node-0").unwrap();
    cluster
        .patch(&node, json!({"spec": {"unschedulable": true}}))
        .await;
    cluster
        .create(&pod("a", json!({"app": "x"}), even.clone()))
        .await;
    assert_eq!(until_placed(&cluster, "a").await, "node-1");
    cluster.create(&pod("b", json!({"app": "x"}), even)).await;
    let message = "0/2 nodes are available: \
                   1 node(s) didn't match pod topology spread constraints, \
                   1 node(s) were unschedulable. \
                   no new claims to deallocate, preemption: 0/2 nodes are available: \
                   1 No preemption victims found for incoming pod, \
                   1 Preemption is not helpful for scheduling.";
    until_it_says(&cluster, "b", message).await;
    let node = cluster.get::<Node>("node-0").unwrap();
    cluster
        .patch(&node, json!({"spec": {"unschedulable": null}}))
        .await;
    assert_eq!(until_placed(&cluster, "b").await, "node-0");
}

fn class(name: &str, value: i32) -> PriorityClass {
    super::object(json!({"metadata": {"name": name}, "value": value}))
}

#[sendo_test::test]
async fn a_pod_of_lower_priority_makes_way(cluster: TestCluster) {
    cluster.create(&class("low", 1)).await;
    cluster.create(&class("high", 1000)).await;
    for (name, node) in [("middle", "node-0"), ("least", "node-1")] {
        let priority = if name == "middle" {
            json!("low")
        } else {
            json!(null)
        };
        let more = json!({
            "priorityClassName": priority,
            "nodeSelector": {"kubernetes.io/hostname": node},
        });
        cluster.create(&requesting(name, "20", more)).await;
        until_placed(&cluster, name).await;
    }
    let least = cluster.get::<Pod>("default/least").unwrap();
    let high = cluster
        .create(&requesting(
            "high",
            "20",
            json!({"priorityClassName": "high"}),
        ))
        .await;
    assert_eq!(until_placed(&cluster, "high").await, "node-1");
    assert!(cluster.get::<Pod>("default/middle").is_some());
    assert!(cluster.get::<Pod>("default/least").is_none());
    cluster.pass(Duration::from_secs(1)).await;
    let preempted = format!(
        "Preempted Preempted by pod {} on node node-1",
        high.uid().as_str()
    );
    assert!(events_about(&cluster, least.uid().as_str()).contains(&preempted));
    let changes = cluster.changes();
    let mut lines = changes.lines();
    let is_told = |line: &&str| line.contains("\"reason\":\"PreemptionByScheduler\"");
    let told = lines.find(is_told).expect("the condition is written");
    // It stands behind those that were there.
    let place = |type_: &str| told.find(&format!("\"type\":\"{type_}\""));
    assert!(place("PodScheduled") < place("DisruptionTarget"), "{told}");
    let failed = &events_about(&cluster, high.uid().as_str())[0];
    let message = "FailedScheduling 0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(failed, message);
}

#[sendo_test::test]
async fn a_pod_that_must_not_preempt_waits(cluster: TestCluster) {
    let mut polite = class("polite", 1000);
    polite.preemption_policy = Some("Never".to_owned());
    cluster.create(&polite).await;
    for number in 0..2 {
        cluster
            .create(&requesting(&format!("p{number}"), "20", json!({})))
            .await;
        until_placed(&cluster, &format!("p{number}")).await;
    }
    cluster
        .create(&requesting(
            "polite",
            "20",
            json!({"priorityClassName": "polite"}),
        ))
        .await;
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, \
                   preemption: not eligible due to preemptionPolicy=Never.";
    until_it_says(&cluster, "polite", message).await;
    cluster
        .delete(&cluster.get::<Pod>("default/p0").unwrap())
        .await;
    until_placed(&cluster, "polite").await;
}

#[sendo_test::test]
async fn a_gated_pod_waits_for_its_gates(cluster: TestCluster) {
    let gated = json!({"schedulingGates": [{"name": "example.dev/wait"}]});
    let created = cluster.create(&pod("p", json!({}), gated)).await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(node_of(&cluster.get::<Pod>("default/p").unwrap()), None);
    cluster
        .patch(&created, json!({"spec": {"schedulingGates": null}}))
        .await;
    until_placed(&cluster, "p").await;
}

/// Keeps pods off nodes whose label `maintenance` is `today`.
struct Maintenance;

impl Plugin for Maintenance {
    fn name(&self) -> &'static str {
        "Maintenance"
    }

    fn filter(&self, _: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
        match node.label("maintenance") {
            Some("today") => Err(Rejected::unresolvable("node(s) are under maintenance")),
            _ => Ok(()),
        }
    }
}

#[sendo_test::test]
async fn a_scheduler_of_ones_own_has_a_plugin_of_ones_own(cluster: TestCluster) {
    for name in ["node-0", "node-1"] {
        let node = cluster.get::<Node>(name).unwrap();
        let label = json!({"metadata": {"labels": {"maintenance": "today"}}});
        cluster.patch(&node, label).await;
    }
    let profile = Profile::default_plugins("careful").with(Maintenance, 0);
    cluster.run(sendo_scheduler::manager_of([profile])).await;
    let careful = json!({"schedulerName": "careful"});
    cluster.create(&pod("p", json!({}), careful)).await;
    let message = "0/2 nodes are available: 2 node(s) are under maintenance. \
                   no new claims to deallocate, preemption: 0/2 nodes are available: \
                   2 Preemption is not helpful for scheduling.";
    until_it_says(&cluster, "p", message).await;
    let node = cluster.get::<Node>("node-1").unwrap();
    cluster
        .patch(
            &node,
            json!({"metadata": {"labels": {"maintenance": null}}}),
        )
        .await;
    assert_eq!(until_placed(&cluster, "p").await, "node-1");
}
