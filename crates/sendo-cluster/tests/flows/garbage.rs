//! Garbage: what is collected, what waits, what is left behind.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::ObjectExt;
use sendo::client::Propagation;
use sendo_test::TestCluster;
use serde_json::json;

use super::object;

fn config_map(name: &str, owners: &[(&ConfigMap, bool)]) -> ConfigMap {
    let reference = |(owner, blocks): &(&ConfigMap, bool)| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "name": owner.name(), "uid": owner.uid().as_str(), "blockOwnerDeletion": blocks,
        })
    };
    let owners: Vec<_> = owners.iter().map(reference).collect();
    object(json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": owners}}))
}

async fn until_gone(cluster: &TestCluster, name: &str) {
    let key = format!("default/{name}");
    cluster
        .until(&format!("{name} is gone"), |now| {
            now.get::<ConfigMap>(key.as_str()).is_none()
        })
        .await;
}

#[sendo_test::test]
async fn dependents_go_after_their_owner(cluster: TestCluster) {
    let owner = cluster.create(&config_map("owner", &[])).await;
    let child = cluster
        .create(&config_map("child", &[(&owner, false)]))
        .await;
    cluster
        .create(&config_map("grandchild", &[(&child, false)]))
        .await;
    cluster.delete(&owner).await;
    until_gone(&cluster, "grandchild").await;
    assert!(cluster.get::<ConfigMap>("default/child").is_none());
}

#[sendo_test::test]
async fn a_dependent_with_an_owner_left_stays_and_loses_the_dead_reference(cluster: TestCluster) {
    let a = cluster.create(&config_map("a", &[])).await;
    let b = cluster.create(&config_map("b", &[])).await;
    cluster
        .create(&config_map("child", &[(&a, false), (&b, false)]))
        .await;
    cluster.delete(&a).await;
    cluster
        .until("only b is left as an owner", |now| {
            let child = now.get::<ConfigMap>("default/child").expect("it stays");
            let owners = child.metadata.owner_references.unwrap_or_default();
            owners.len() == 1 && owners[0].name == "b"
        })
        .await;
}

#[sendo_test::test]
async fn an_owner_deleted_in_the_foreground_waits_for_those_that_block_it(cluster: TestCluster) {
    let owner = cluster.create(&config_map("owner", &[])).await;
    let mut held = config_map("held", &[(&owner, true)]);
    held.metadata.finalizers = Some(vec!["example.dev/hold".to_owned()]);
    let held = cluster.create(&held).await;
    let deletion = cluster
        .client()
        .delete(&owner)
        .propagation(Propagation::Foreground);
    deletion.await.expect("it can be deleted");
    cluster
        .until("the dependent is being deleted", |now| {
            now.get::<ConfigMap>("default/held")
                .is_some_and(|held| held.is_being_deleted())
        })
        .await;
    cluster.pass(Duration::from_secs(300)).await;
    assert!(
        cluster.get::<ConfigMap>("default/owner").is_some(),
        "it still waits"
    );
    cluster
        .patch(&held, json!({"metadata": {"finalizers": null}}))
        .await;
    until_gone(&cluster, "owner").await;
}

#[sendo_test::test]
async fn an_owner_deleted_with_orphan_leaves_its_dependents(cluster: TestCluster) {
    let owner = cluster.create(&config_map("owner", &[])).await;
    cluster
        .create(&config_map("child", &[(&owner, true)]))
        .await;
    cluster
        .client()
        .delete(&owner)
        .propagation(Propagation::Orphan)
        .await
        .expect("it can be deleted");
    until_gone(&cluster, "owner").await;
    cluster.pass(Duration::from_secs(60)).await;
    let child = cluster
        .get::<ConfigMap>("default/child")
        .expect("it is left");
    assert_eq!(child.metadata.owner_references, None);
}

#[sendo_test::test]
async fn an_owner_that_never_was_counts_as_gone(cluster: TestCluster) {
    let mut ghost = config_map("ghost", &[]);
    ghost.metadata.uid = Some("5b0b1b1e-0000-4000-8000-000000000000".to_owned());
    cluster
        .create(&config_map("child", &[(&ghost, false)]))
        .await;
    until_gone(&cluster, "child").await;
}

#[sendo_test::test]
async fn an_owner_of_a_kind_nobody_serves_is_given_the_benefit_of_the_doubt(cluster: TestCluster) {
    let child: ConfigMap = object(json!({"metadata": {
        "name": "child", "namespace": "default",
        "ownerReferences": [{"apiVersion": "example.dev/v1", "kind": "Unknown", "name": "x", "uid": "1"}],
    }}));
    cluster.create(&child).await;
    cluster.pass(Duration::from_secs(120)).await;
    assert!(cluster.get::<ConfigMap>("default/child").is_some());
}
