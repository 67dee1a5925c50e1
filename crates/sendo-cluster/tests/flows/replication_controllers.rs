//! ReplicationControllers: as many pods as their spec says, like ReplicaSets.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::json;

use super::{object, pod, until_running};

fn controller(replicas: i32) -> ReplicationController {
    object(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"app": "web"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.dev/app:1"}]},
            },
        },
    }))
}

#[sendo_test::test]
async fn pods_are_created_adopted_and_deleted(cluster: TestCluster) {
    let orphan = cluster
        .create(&pod("old", json!({"app": "web"}), json!({})))
        .await;
    let made = cluster.create(&controller(3)).await;
    let pods = until_running(&cluster, "web", 3).await;
    assert!(pods.iter().all(|pod| pod.controller() == Some(made.uid())));
    assert!(pods.iter().any(|pod| pod.uid() == orphan.uid()));
    cluster
        .until("the status counts them", |now| {
            let found = now.get::<ReplicationController>("default/web");
            let status = found.and_then(|found| found.status).unwrap_or_default();
            status.replicas == 3 && status.available_replicas == Some(3)
        })
        .await;
    cluster.patch(&made, json!({"spec": {"replicas": 1}})).await;
    until_running(&cluster, "web", 1).await;
    cluster
        .until("one is left", |now| now.list::<Pod>().len() == 1)
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}
