//! Objects are stored anew in another version, and the definition forgets the old one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use sendo::{Kind, ObjectKey};
use sendo_cluster::ClusterOptions;
use sendo_test::TestCluster;
use sendo_workloads::storage_version_migration::StorageVersionMigration;
use serde_json::{Value, json};

use super::object;

/// A definition of widgets with two versions, of which the one that is named is stored.
fn definition(stored: &str) -> CustomResourceDefinition {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    object(json!({
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")],
        },
    }))
}

fn migration(name: &str, resource: Value) -> StorageVersionMigration {
    object(json!({
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": resource},
    }))
}

async fn cluster() -> TestCluster {
    let options = ClusterOptions {
        storage_version_migration: true,
        ..ClusterOptions::default()
    };
    TestCluster::start_with(1, options).await
}

/// Waits until a migration is over; returns the conditions that are true.
async fn until_over(cluster: &TestCluster, name: &str) -> Vec<String> {
    let conditions = |now: &sendo_test::View| {
        let status = now.get::<StorageVersionMigration>(name)?.status?;
        let is =
            |kind: &str,
             status: &str,
             own: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
                own.type_ == kind && own.status == status
            };
        let all = status.conditions;
        let stopped = all.iter().any(|own| is("Running", "False", own));
        let failed = all.iter().any(|own| is("Failed", "True", own));
        (stopped || failed).then(|| {
            let holding = all.iter().filter(|own| own.status == "True");
            holding.map(|own| own.type_.clone()).collect()
        })
    };
    let about = format!("{name} is over");
    cluster.until(&about, |now| conditions(now).is_some()).await;
    cluster.now(conditions).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_migration_stores_objects_anew_and_the_old_version_may_go() {
    let cluster = cluster().await;
    cluster.create(&definition("v1")).await;
    let kind = |version: &str| Kind {
        group: "example.dev".to_owned(),
        version: version.to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let client = cluster.client();
    let old = client.of_kind::<DynamicObject>(kind("v1"));
    for name in ["a", "b"] {
        let widget = object(json!({
            "apiVersion": "example.dev/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"color": "red"},
        }));
        old.create(&widget).await.unwrap();
    }
    let key = ObjectKey::cluster("widgets.example.dev");
    let store_the_other = |known: &mut CustomResourceDefinition| {
        known
            .spec
            .versions
            .clone_from(&definition("v2").spec.versions);
    };
    let changed = client.modify::<CustomResourceDefinition, ()>(&key, store_the_other);
    changed.await.unwrap();

    let resource = json!({"group": "example.dev", "resource": "widgets"});
    cluster.create(&migration("first", resource.clone())).await;
    cluster.create(&migration("second", resource)).await;
    for name in ["first", "second"] {
        assert_eq!(until_over(&cluster, name).await, ["Succeeded"]);
    }
    let definition: CustomResourceDefinition = cluster.get("widgets.example.dev").unwrap();
    let status = definition.status.unwrap();
    assert_eq!(status.stored_versions.unwrap(), ["v2"]);
    let migrating = status.conditions.unwrap();
    let migrating = migrating.iter().find(|own| own.type_ == "StorageMigrating");
    let message = migrating.and_then(|own| own.message.clone()).unwrap();
    assert_eq!(
        message,
        "The migration has succeeded and the stored versions have been updated"
    );

    // Nothing is left in the old version.
    let drop_the_old = |known: &mut CustomResourceDefinition| {
        known.spec.versions.retain(|version| version.name == "v2");
    };
    let changed = client.modify::<CustomResourceDefinition, ()>(&key, drop_the_old);
    changed.await.unwrap();
    let new = client.of_kind::<DynamicObject>(kind("v2"));
    let found = new.live_get(&ObjectKey::namespaced("default", "a")).await;
    assert_eq!(
        found.unwrap().unwrap().data["spec"],
        json!({"color": "red"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_migration_of_a_resource_that_is_not_served_fails_after_a_minute() {
    let cluster = cluster().await;
    let resource = json!({"group": "example.dev", "resource": "nothings"});
    cluster.create(&migration("lost", resource)).await;
    assert_eq!(until_over(&cluster, "lost").await, ["Failed"]);
}

#[sendo_test::test]
async fn a_default_cluster_serves_no_migrations(cluster: TestCluster) {
    let live = cluster.client().live();
    let found = live.get::<StorageVersionMigration>("any").await;
    assert!(found.unwrap_err().is_not_served());
}
