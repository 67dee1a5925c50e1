//! The deletion of a resource, its namespace or its kind, and what happens to the bucket.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::json;
use storage_bucket::api::{DeletionPolicy, StorageBucket};
use storage_bucket::manager;

use crate::{Fixture, HOUR, MINUTE};

#[sendo_test::test]
async fn a_deleted_resource_is_not_checked(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture.healthy(&fixture.observed()).await;
    cluster.delete(&made).await;
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR / 2).await;
    assert_eq!(fixture.store.objects("backups"), Some(vec![]));
}

#[sendo_test::test]
async fn a_created_bucket_goes_with_its_resource_once_it_is_empty(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture
        .healthy(&fixture.managed(DeletionPolicy::Delete))
        .await;
    let left_by_a_probe = format!(".storage-bucket-probe-{}", made.uid());
    fixture.store.put_object("new-bucket", &left_by_a_probe, "");
    fixture.store.put_object("new-bucket", "precious", "data");
    cluster.delete(&made).await;
    fixture.until_synced_is("False", "NotEmpty").await;
    cluster.pass(HOUR).await;
    assert!(cluster.get::<StorageBucket>("default/backups").is_some());
    assert_eq!(fixture.events()["Warning DeleteFailed"], 1);

    fixture.store.remove_object("new-bucket", "precious");
    fixture.until_resources_are_gone().await;
    assert_eq!(fixture.store.objects("new-bucket"), None);
    assert_eq!(fixture.events()["Normal Deleted"], 1);
}

#[sendo_test::test]
async fn a_created_bucket_that_is_to_be_retained_stays(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture
        .healthy(&fixture.managed(DeletionPolicy::Retain))
        .await;
    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
    assert_eq!(fixture.store.objects("new-bucket"), Some(vec![]));
}

#[sendo_test::test]
async fn a_bucket_that_was_there_before_stays(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let mut adopted = fixture.managed(DeletionPolicy::Delete);
    adopted.spec.bucket = "backups".to_owned();
    let made = fixture.healthy(&adopted).await;
    fixture.until_synced_is("True", "InPlace").await;
    assert_eq!(fixture.status().creation, None);
    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
    assert_eq!(fixture.store.objects("backups"), Some(vec![]));
}

async fn in_namespace(fixture: &Fixture, name: &str) -> Namespace {
    let namespace = json!({"metadata": {"name": name}});
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    let namespace = fixture.cluster.create(&namespace).await;
    fixture.create_secret(name, "secret").await;
    let mut bucket = fixture.managed(DeletionPolicy::Delete);
    bucket.metadata.namespace = Some(name.to_owned());
    fixture.cluster.create(&bucket).await;
    fixture.cluster.pass(MINUTE).await;
    assert!(fixture.store.objects("new-bucket").is_some());
    namespace
}

/// The Secret is deleted first: the credentials of the last check are used.
#[sendo_test::test]
async fn a_deleted_namespace_takes_its_buckets_along(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let namespace = in_namespace(&fixture, "short").await;
    cluster.delete(&namespace).await;
    cluster
        .until("the namespace is gone", |now| {
            now.get::<Namespace>("short").is_none()
        })
        .await;
    assert_eq!(fixture.store.objects("new-bucket"), None);
}

/// After a restart the credentials of the deleted Secret are not known: the bucket stays, and its
/// resource is deleted.
#[sendo_test::test]
async fn a_resource_without_credentials_is_deleted_and_reports_the_bucket(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    let secret = fixture.create_secret("default", "secret").await;
    let first = manager(fixture.options()).start(cluster.config()).unwrap();
    let made = fixture
        .healthy(&fixture.managed(DeletionPolicy::Delete))
        .await;
    first.stop().await.unwrap();
    cluster.delete(&secret).await;
    cluster.run(manager(fixture.options())).await;
    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
    assert_eq!(fixture.store.objects("new-bucket"), Some(vec![]));
    cluster.pass(MINUTE).await;
    assert_eq!(fixture.events()["Warning Orphaned"], 1);
}

#[sendo_test::test]
async fn a_deleted_definition_takes_resources_and_buckets_along(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    fixture
        .healthy(&fixture.managed(DeletionPolicy::Delete))
        .await;
    let mut retained = fixture.managed(DeletionPolicy::Retain);
    retained.metadata.name = Some("retained".to_owned());
    retained.spec.bucket = "retained".to_owned();
    cluster.create(&retained).await;
    let mut observed = fixture.observed();
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
    assert_eq!(fixture.store.objects("new-bucket"), None);
    assert_eq!(fixture.store.objects("retained"), Some(vec![]));
    assert_eq!(fixture.store.objects("backups"), Some(vec![]));
    let changes = cluster.changes();
    let left = changes
        .lines()
        .filter(|line| line.contains("/storagebuckets/"));
    let deleted = left.filter(|line| line.ends_with("(deleted)")).count();
    assert_eq!(deleted, 3, "none of the three is left in the store");
}
