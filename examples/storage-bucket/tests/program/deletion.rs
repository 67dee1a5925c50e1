//! What is left of a bucket after its resource, its namespace or its kind.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::json;
use storage_bucket::api::{DeletionPolicy, StorageBucket};
use storage_bucket::manager;

use crate::{HOUR, MINUTE, Place};

#[sendo_test::test]
async fn a_deleted_resource_is_left_in_peace(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    let made = place.healthy(&place.observed()).await;
    cluster.delete(&made).await;
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR / 2).await;
    assert_eq!(place.store.objects("backups"), Some(vec![]));
}

#[sendo_test::test]
async fn a_created_bucket_goes_with_its_resource_once_it_is_empty(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    let made = place.healthy(&place.managed(DeletionPolicy::Delete)).await;
    let left_by_a_probe = format!(".storage-bucket-probe-{}", made.uid());
    place.store.put_object("new-bucket", &left_by_a_probe, "");
    place.store.put_object("new-bucket", "precious", "data");
    cluster.delete(&made).await;
    place.until_synced_is("False", "NotEmpty").await;
    cluster.pass(HOUR).await;
    assert!(cluster.get::<StorageBucket>("default/backups").is_some());
    assert_eq!(place.events()["Warning DeleteFailed"], 1);

    place.store.remove_object("new-bucket", "precious");
    place.until_resources_are_gone().await;
    assert_eq!(place.store.objects("new-bucket"), None);
    assert_eq!(place.events()["Normal Deleted"], 1);
}

#[sendo_test::test]
async fn a_created_bucket_that_is_to_be_retained_stays(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    let made = place.healthy(&place.managed(DeletionPolicy::Retain)).await;
    cluster.delete(&made).await;
    place.until_resources_are_gone().await;
    assert_eq!(place.store.objects("new-bucket"), Some(vec![]));
}

#[sendo_test::test]
async fn a_bucket_that_was_there_before_stays(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    let mut adopted = place.managed(DeletionPolicy::Delete);
    adopted.spec.bucket = "backups".to_owned();
    let made = place.healthy(&adopted).await;
    place.until_synced_is("True", "InPlace").await;
    assert_eq!(place.status().creation, None);
    cluster.delete(&made).await;
    place.until_resources_are_gone().await;
    assert_eq!(place.store.objects("backups"), Some(vec![]));
}

async fn in_namespace(place: &Place, name: &str) -> Namespace {
    let namespace = json!({"metadata": {"name": name}});
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    let namespace = place.cluster.create(&namespace).await;
    place.create_secret(name, "secret").await;
    let mut bucket = place.managed(DeletionPolicy::Delete);
    bucket.metadata.namespace = Some(name.to_owned());
    place.cluster.create(&bucket).await;
    place.cluster.pass(MINUTE).await;
    assert!(place.store.objects("new-bucket").is_some());
    namespace
}

/// The Secret goes first: what was in it when the bucket was last checked will do.
#[sendo_test::test]
async fn a_deleted_namespace_takes_its_buckets_along(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    let namespace = in_namespace(&place, "short").await;
    cluster.delete(&namespace).await;
    cluster
        .until("the namespace is gone", |now| {
            now.get::<Namespace>("short").is_none()
        })
        .await;
    assert_eq!(place.store.objects("new-bucket"), None);
}

/// After a restart nobody knows what was in the Secret: the bucket stays, and
/// its resource holds up nobody.
#[sendo_test::test]
async fn a_resource_without_credentials_goes_and_tells_what_stays(cluster: TestCluster) {
    let place = Place::new(&cluster).await;
    let secret = place.create_secret("default", "secret").await;
    let first = manager(place.options()).start(cluster.config()).unwrap();
    let made = place.healthy(&place.managed(DeletionPolicy::Delete)).await;
    first.stop().await.unwrap();
    cluster.delete(&secret).await;
    cluster.run(manager(place.options())).await;
    cluster.delete(&made).await;
    place.until_resources_are_gone().await;
    assert_eq!(place.store.objects("new-bucket"), Some(vec![]));
    cluster.pass(MINUTE).await;
    assert_eq!(place.events()["Warning Orphaned"], 1);
}

#[sendo_test::test]
async fn a_deleted_definition_takes_resources_and_buckets_along(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    place.healthy(&place.managed(DeletionPolicy::Delete)).await;
    let mut retained = place.managed(DeletionPolicy::Retain);
    retained.metadata.name = Some("retained".to_owned());
    retained.spec.bucket = "retained".to_owned();
    cluster.create(&retained).await;
    let mut observed = place.observed();
    observed.metadata.name = Some("observed".to_owned());
    cluster.create(&observed).await;
    cluster.pass(MINUTE).await;

    let name = StorageBucket::crd_name();
    let definition = cluster.get::<CustomResourceDefinition>(name).unwrap();
    cluster.delete(&definition).await;
    cluster
        .until("the definition is gone", |now| {
            now.get::<CustomResourceDefinition>(name).is_none()
        })
        .await;
    assert_eq!(place.store.objects("new-bucket"), None);
    assert_eq!(place.store.objects("retained"), Some(vec![]));
    assert_eq!(place.store.objects("backups"), Some(vec![]));
    let changes = cluster.changes();
    let left = changes
        .lines()
        .filter(|line| line.contains("/storagebuckets/"));
    let deleted = left.filter(|line| line.ends_with("(deleted)")).count();
    assert_eq!(deleted, 3, "none of the three is left in the store");
}
