//! Namespaces: what a new one is given, and how an old one goes.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use sendo_test::TestCluster;
use serde_json::json;

use super::{object, replica_set, until_running};

fn namespace(name: &str) -> Namespace {
    object(json!({"metadata": {"name": name}}))
}

#[sendo_test::test]
async fn a_new_namespace_gets_its_service_account_and_the_root_certificate(cluster: TestCluster) {
    cluster.create(&namespace("team")).await;
    cluster
        .until("both are there", |now| {
            now.get::<ServiceAccount>("team/default").is_some()
                && now.get::<ConfigMap>("team/kube-root-ca.crt").is_some()
        })
        .await;
}

#[sendo_test::test]
async fn both_come_back_when_deleted(cluster: TestCluster) {
    cluster.create(&namespace("team")).await;
    let there = |now: &sendo_test::View| now.get::<ServiceAccount>("team/default");
    cluster
        .until("it is there", |now| there(now).is_some())
        .await;
    let first = cluster.get::<ServiceAccount>("team/default").unwrap();
    cluster.delete(&first).await;
    cluster
        .until("another is there", |now| {
            there(now).is_some_and(|account| account.metadata.uid != first.metadata.uid)
        })
        .await;
    let map = cluster.get::<ConfigMap>("team/kube-root-ca.crt").unwrap();
    let described = &map.metadata.annotations.as_ref().unwrap()["kubernetes.io/description"];
    assert!(described.starts_with("Contains a CA bundle "));
    for damage in [
        json!({"data": {"ca.crt": "forged"}}),
        json!({"data": {"more": "1"}}),
        json!({"metadata": {"annotations": null}}),
    ] {
        cluster.patch(&map, damage).await;
        cluster
            .until("it is repaired", |now| {
                let repaired = now.get::<ConfigMap>("team/kube-root-ca.crt");
                repaired.is_some_and(|repaired| {
                    repaired.data == map.data
                        && repaired.metadata.annotations == map.metadata.annotations
                })
            })
            .await;
    }
}

#[sendo_test::test]
async fn a_deleted_namespace_takes_everything_with_it(cluster: TestCluster) {
    let team = cluster.create(&namespace("team")).await;
    cluster
        .until("it is furnished", |now| {
            now.get::<ServiceAccount>("team/default").is_some()
        })
        .await;
    let mut set = replica_set("web", 3);
    set.metadata.namespace = Some("team".to_owned());
    cluster.create(&set).await;
    until_running(&cluster, "web", 3).await;
    cluster.delete(&team).await;
    cluster
        .until("it is gone", |now| now.get::<Namespace>("team").is_none())
        .await;
    assert!(cluster.list::<Pod>().is_empty());
    assert!(cluster.get::<ConfigMap>("team/kube-root-ca.crt").is_none());
}

#[sendo_test::test]
async fn the_conditions_of_a_namespace_say_what_holds_it_up(cluster: TestCluster) {
    let team = cluster.create(&namespace("team")).await;
    let held: ConfigMap = object(json!({"metadata": {
        "name": "held", "namespace": "team", "finalizers": ["example.dev/hold"],
    }}));
    let held = cluster.create(&held).await;
    cluster.delete(&team).await;
    cluster
        .until("its conditions say why", |now| {
            let team = now.get::<Namespace>("team").expect("it is held");
            let conditions = team.status.and_then(|status| status.conditions).unwrap_or_default();
            conditions.iter().any(|condition| {
                condition.message.as_deref()
                    == Some("Some content in the namespace has finalizers remaining: example.dev/hold in 1 resource instances")
            })
        })
        .await;
    cluster
        .patch(&held, json!({"metadata": {"finalizers": null}}))
        .await;
    cluster
        .until("it is gone", |now| now.get::<Namespace>("team").is_none())
        .await;
}
