//! PodDisruptionBudgets: how many pods may be evicted.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use kube::core::Status;
use sendo::{ObjectExt, client};
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, pod, replica_set, until_running, with_faults};

fn budget(spec: Value) -> PodDisruptionBudget {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    object(json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec}))
}

fn status(now: &View) -> PodDisruptionBudgetStatus {
    let budget = now.get::<PodDisruptionBudget>("default/b");
    budget.and_then(|budget| budget.status).unwrap_or_default()
}

async fn until_allowed(cluster: &TestCluster, allowed: i32) -> PodDisruptionBudgetStatus {
    cluster
        .until(&format!("{allowed} disruptions are allowed"), |now| {
            let status = status(now);
            status.disruptions_allowed == Some(allowed) && status.observed_generation == Some(1)
        })
        .await;
    cluster.now(status)
}

async fn evict(cluster: &TestCluster, pod: &Pod) -> Result<Status, client::Error> {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod.name(), "namespace": "default"}});
    let subresource = cluster.client().subresource(pod, "eviction")?;
    subresource.create(&eviction).await
}

#[sendo_test::test]
async fn evictions_keep_within_the_budget(cluster: TestCluster) {
    cluster.create(&replica_set("web", 3)).await;
    let pods = until_running(&cluster, "web", 3).await;
    cluster.create(&budget(json!({"minAvailable": 2}))).await;
    let status = until_allowed(&cluster, 1).await;
    let counts = (
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
    );
    assert_eq!(counts, (Some(3), Some(2), Some(3)));
    evict(&cluster, &pods[0]).await.expect("one may go");
    let refused = evict(&cluster, &pods[1])
        .await
        .expect_err("no other one may go");
    assert_eq!(refused.code(), 429);
    // Once it is replaced, another one may go.
    until_allowed(&cluster, 1).await;
    cluster.pass(Duration::from_secs(180)).await;
    assert_eq!(cluster.now(self::status).disrupted_pods, None);
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn a_percentage_is_of_what_the_controller_wants(cluster: TestCluster) {
    let set = cluster.create(&replica_set("web", 4)).await;
    until_running(&cluster, "web", 4).await;
    cluster
        .create(&budget(json!({"maxUnavailable": "30%"})))
        .await;
    // 30 % of 4 are 2 at most.
    let status = until_allowed(&cluster, 2).await;
    assert_eq!(
        (status.expected_pods, status.desired_healthy),
        (Some(4), Some(2))
    );
    cluster.patch(&set, json!({"spec": {"replicas": 2}})).await;
    let status = until_allowed(&cluster, 1).await;
    assert_eq!(
        (status.expected_pods, status.desired_healthy),
        (Some(2), Some(1))
    );
    assert!(cluster.get::<ReplicaSet>("default/web").is_some());
}

#[sendo_test::test]
async fn pods_without_a_controller_count_only_for_a_number(cluster: TestCluster) {
    cluster
        .create(&pod("p", json!({"app": "web"}), json!({})))
        .await;
    until_running(&cluster, "web", 1).await;
    let made = cluster.create(&budget(json!({"maxUnavailable": 1}))).await;
    let status = until_allowed(&cluster, 0).await;
    assert_eq!(
        (status.current_healthy, status.expected_pods),
        (Some(1), Some(0))
    );
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("UnmanagedPods")),
        "{events:?}"
    );
}

#[sendo_test::test]
async fn a_pod_that_was_not_disrupted_loses_the_condition(cluster: TestCluster) {
    let made = cluster
        .create(&pod("p", json!({"app": "web"}), json!({})))
        .await;
    until_running(&cluster, "web", 1).await;
    let mut marked = cluster.get::<Pod>(made.key()).unwrap();
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(cluster.world().clock().wall());
    let condition =
        json!({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now});
    let conditions = &mut marked.status.as_mut().unwrap().conditions;
    conditions.get_or_insert_default().push(object(condition));
    cluster
        .client()
        .replace_status(&marked)
        .await
        .expect("a status may be written");
    cluster.pass(Duration::from_secs(100)).await;
    let target = |now: &View| {
        let status = now.get::<Pod>("default/p").unwrap().status.unwrap();
        let found = status
            .conditions
            .into_iter()
            .flatten()
            .find(|c| c.type_ == "DisruptionTarget");
        found.map(|condition| condition.status)
    };
    assert_eq!(cluster.now(target).as_deref(), Some("True"));
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(cluster.now(target).as_deref(), Some("False"));
}

#[sendo_test::test(seeds = 3)]
async fn faults_do_not_keep_a_budget_from_being_counted(beside: TestCluster) {
    let (cluster, faults) = with_faults(&beside, "disruption-controller", 0.3).await;
    cluster.create(&replica_set("web", 3)).await;
    cluster.create(&budget(json!({"maxUnavailable": 1}))).await;
    until_running(&cluster, "web", 3).await;
    until_allowed(&cluster, 1).await;
    assert!(faults.injected() > 0);
    cluster.stop().await;
}
