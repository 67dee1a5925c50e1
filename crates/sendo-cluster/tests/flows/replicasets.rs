//! ReplicaSets: as many pods as their spec says, whatever happens to them.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::json;

use super::{events_about, object, phase, pod, pods_of, replica_set, until_running};

#[sendo_test::test]
async fn three_replicas_reach_running(cluster: TestCluster) {
    let set = cluster.create(&replica_set("web", 3)).await;
    let pods = until_running(&cluster, "web", 3).await;
    for pod in &pods {
        assert_eq!(pod.controller(), Some(set.uid()));
        assert!(pod.name().starts_with("web-"), "{}", pod.name());
    }
    cluster
        .until("the status counts them", |now| {
            let set = now.get::<ReplicaSet>("default/web");
            let status = set.and_then(|set| set.status).unwrap_or_default();
            status.replicas == 3
                && status.ready_replicas == Some(3)
                && status.available_replicas == Some(3)
                && status.fully_labeled_replicas == Some(3)
                && status.observed_generation == Some(1)
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    let mut expected: Vec<_> = pods
        .iter()
        .map(|pod| format!("SuccessfulCreate Created pod: {}", pod.name()))
        .collect();
    expected.sort();
    let mut events = events_about(&cluster, set.uid().as_str());
    events.sort();
    assert_eq!(events, expected);
}

#[sendo_test::test]
async fn a_deleted_pod_is_replaced(cluster: TestCluster) {
    cluster.create(&replica_set("web", 3)).await;
    let before = until_running(&cluster, "web", 3).await;
    cluster.delete(&before[0]).await;
    let gone = before[0].key();
    cluster
        .until("it is gone", |now| now.get::<Pod>(&gone).is_none())
        .await;
    let after = until_running(&cluster, "web", 3).await;
    let names = |pods: &[Pod]| {
        pods.iter()
            .map(|p| p.name().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&before).intersection(&names(&after)).count(), 2);
}

#[sendo_test::test]
async fn scaling_down_deletes_by_rank(cluster: TestCluster) {
    let set = cluster.create(&replica_set("web", 4)).await;
    let pods = until_running(&cluster, "web", 4).await;
    let cheap = [&pods[1], &pods[3]];
    for pod in cheap {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}});
        cluster.patch(pod, cost).await;
    }
    cluster.patch(&set, json!({"spec": {"replicas": 2}})).await;
    let left = until_running(&cluster, "web", 2).await;
    for pod in left {
        assert!(
            !cheap.iter().any(|c| c.name() == pod.name()),
            "{} was cheap",
            pod.name()
        );
    }
}

#[sendo_test::test]
async fn deleting_the_set_leaves_nothing(cluster: TestCluster) {
    let set = cluster.create(&replica_set("web", 3)).await;
    until_running(&cluster, "web", 3).await;
    cluster.delete(&set).await;
    cluster
        .until("nothing is left", |now| {
            now.list::<Pod>().is_empty() && now.list::<ReplicaSet>().is_empty()
        })
        .await;
}

#[sendo_test::test]
async fn an_orphan_that_matches_is_adopted_instead_of_a_new_pod(cluster: TestCluster) {
    let orphan = cluster
        .create(&pod("old", json!({"app": "web"}), json!({})))
        .await;
    let set = cluster.create(&replica_set("web", 2)).await;
    let pods = until_running(&cluster, "web", 2).await;
    let adopted = pods.iter().find(|pod| pod.uid() == orphan.uid());
    assert_eq!(adopted.and_then(|pod| pod.controller()), Some(set.uid()));
}

#[sendo_test::test]
async fn a_pod_whose_labels_change_is_released_and_replaced(cluster: TestCluster) {
    cluster.create(&replica_set("web", 2)).await;
    let pods = until_running(&cluster, "web", 2).await;
    cluster
        .patch(&pods[0], json!({"metadata": {"labels": {"app": "other"}}}))
        .await;
    until_running(&cluster, "web", 2).await;
    let released = cluster
        .get::<Pod>(pods[0].key())
        .expect("it is still there");
    assert_eq!(released.controller(), None);
    assert_eq!(phase(&released), "Running");
}

#[sendo_test::test]
async fn a_pod_counts_as_available_after_min_ready_seconds(cluster: TestCluster) {
    let mut set = replica_set("web", 1);
    set.spec.as_mut().unwrap().min_ready_seconds = Some(60);
    cluster.create(&set).await;
    until_running(&cluster, "web", 1).await;
    let status = |cluster: &TestCluster| {
        let set = cluster.get::<ReplicaSet>("default/web");
        set.and_then(|set| set.status).unwrap_or_default()
    };
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(status(&cluster).ready_replicas, Some(1));
    assert_eq!(status(&cluster).available_replicas.unwrap_or(0), 0);
    cluster.pass(Duration::from_secs(31)).await;
    assert_eq!(status(&cluster).available_replicas, Some(1));
}

#[sendo_test::test]
async fn a_set_at_rest_writes_nothing(cluster: TestCluster) {
    cluster.create(&replica_set("web", 3)).await;
    until_running(&cluster, "web", 3).await;
    cluster.pass(Duration::from_secs(60)).await;
    cluster.stays_quiet_for(Duration::from_secs(3600)).await;
}

#[sendo_test::test]
async fn finished_pods_are_replaced_and_not_counted(cluster: TestCluster) {
    cluster.create(&replica_set("web", 1)).await;
    let pods = until_running(&cluster, "web", 1).await;
    let failed: Pod = object(json!({
        "metadata": pods[0].metadata,
        "spec": pods[0].spec,
        "status": {"phase": "Failed"},
    }));
    cluster
        .client()
        .replace_status(&failed)
        .await
        .expect("a status may be written");
    cluster
        .until("another runs", |now| {
            let pods = pods_of(now, "web");
            pods.iter()
                .any(|pod| phase(pod) == "Running" && pod.uid() != failed.uid())
        })
        .await;
}
