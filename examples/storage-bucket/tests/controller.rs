//! The whole program on a live cluster, against a real S3 server, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::ObjectMeta;
use sendo_test::TestCluster;
use serde_json::json;
use storage_bucket::api::{SecretReference, StorageBucket, StorageBucketSpec, StorageBucketStatus};
use storage_bucket::local_store::LocalStore;
use storage_bucket::store::Credentials;
use storage_bucket::{Options, manager};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A store with the bucket `backups`, and the controller at work.
async fn set_up(cluster: &TestCluster) -> LocalStore {
    let credentials = Credentials::new("key", "secret");
    let store = LocalStore::in_process(cluster.world(), &credentials);
    store.create_bucket("backups");
    cluster.install::<StorageBucket>().await;
    cluster.run(manager(Options::new(store.http()))).await;
    store
}

async fn create_secret(cluster: &TestCluster) {
    let data = [("accessKeyID", "key"), ("secretAccessKey", "secret")];
    let data = data.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secret = Secret {
        metadata: in_default("credentials"),
        string_data: Some(data.into()),
        ..Secret::default()
    };
    cluster.create(&secret).await;
}

fn in_default(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    }
}

fn backups(store: &LocalStore) -> StorageBucket {
    let spec = StorageBucketSpec {
        endpoint: store.endpoint(),
        bucket: "backups".to_owned(),
        region: "us-east-1".to_owned(),
        credentials_secret_ref: Some(SecretReference {
            name: "credentials".to_owned(),
        }),
        check_every_seconds: 60,
    };
    let mut bucket = StorageBucket::new("backups", spec);
    bucket.metadata = in_default("backups");
    bucket
}

fn status(cluster: &TestCluster) -> StorageBucketStatus {
    let bucket = cluster.get::<StorageBucket>("default/backups");
    bucket.and_then(|bucket| bucket.status).unwrap_or_default()
}

/// The reason of the condition `Ready`; empty before the first check.
fn ready_reason(bucket: Option<StorageBucket>) -> String {
    let conditions = bucket
        .and_then(|bucket| bucket.status)
        .map(|s| s.conditions);
    let mut conditions = conditions.unwrap_or_default().into_iter();
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.map(|ready| ready.reason).unwrap_or_default()
}

async fn until_ready_is(cluster: &TestCluster, reason: &str) {
    cluster
        .until(&format!("Ready for the reason {reason}"), |now| {
            ready_reason(now.get("default/backups")) == reason
        })
        .await;
}

/// How often each Event about the bucket was recorded, by type and reason.
fn events(cluster: &TestCluster) -> BTreeMap<String, i32> {
    let mut counts = BTreeMap::new();
    for event in cluster.list::<Event>() {
        if event.involved_object.kind.as_deref() == Some("StorageBucket") {
            let kind = event.type_.unwrap_or_default();
            let reason = event.reason.unwrap_or_default();
            *counts.entry(format!("{kind} {reason}")).or_default() += event.count.unwrap_or(1);
        }
    }
    counts
}

/// How often the bucket has been written since the changes were `before` long.
fn writes_since(cluster: &TestCluster, before: usize) -> usize {
    let changes = cluster.changes();
    let of_bucket = |line: &&str| line.contains("/storagebuckets/");
    changes[before..].lines().filter(of_bucket).count()
}

#[sendo_test::test]
async fn a_bucket_goes_bad_with_its_store_and_comes_back(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;

    store.stop().await;
    until_ready_is(&cluster, "Unreachable").await;
    cluster.pass(MINUTE * 10).await;
    let bad = status(&cluster);
    assert_eq!((bad.healthy, bad.latency_ms), (Some(false), None));
    assert!((10..=11).contains(&bad.consecutive_failures), "{bad:?}");

    store.start().unwrap();
    until_ready_is(&cluster, "Healthy").await;
    let good = status(&cluster);
    assert_eq!((good.healthy, good.consecutive_failures), (Some(true), 0));
    assert!(good.last_transition_time > bad.last_transition_time);

    cluster.pass(HOUR).await;
    let expected = [("Normal Healthy", 2), ("Warning Unreachable", 1)];
    let expected = expected.map(|(event, count)| (event.to_owned(), count));
    assert_eq!(events(&cluster), expected.into());
}

#[sendo_test::test]
async fn each_bucket_is_checked_once_an_interval(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let bucket = cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;
    // Off the beat of the ticker, so that no tick falls on the end of an hour.
    cluster.pass(Duration::from_secs(1)).await;

    let before = cluster.changes().len();
    cluster.pass(HOUR).await;
    assert_eq!(writes_since(&cluster, before), 60);

    let change = json!({"spec": {"checkEverySeconds": 5}});
    cluster.patch(&bucket, change).await;
    cluster.pass(MINUTE).await;
    let before = cluster.changes().len();
    cluster.pass(HOUR).await;
    assert_eq!(writes_since(&cluster, before), 720);
}

#[sendo_test::test]
async fn a_changed_spec_is_checked_at_once(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let bucket = cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;

    let before = cluster.world().clock().now();
    cluster
        .patch(&bucket, json!({"spec": {"bucket": "elsewhere"}}))
        .await;
    until_ready_is(&cluster, "NoSuchBucket").await;
    assert!(cluster.world().clock().now() - before < Duration::from_secs(1));
    assert_eq!(status(&cluster).observed_generation, Some(2));
}

#[sendo_test::test]
async fn a_missing_secret_is_named_until_it_is_there(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "BadCredentials").await;
    let message = status(&cluster).message.unwrap();
    assert_eq!(
        message,
        "the Secret default/credentials cannot be used: it does not exist"
    );

    create_secret(&cluster).await;
    until_ready_is(&cluster, "Healthy").await;
}

#[sendo_test::test]
async fn a_deleted_bucket_is_left_in_peace(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let bucket = cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;
    cluster.delete(&bucket).await;
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR / 2).await;
}

#[sendo_test::test]
async fn a_wrong_spec_is_refused(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    type Spoil = fn(&mut StorageBucketSpec);
    let wrong: [(&str, Spoil); 3] = [
        ("spec.endpoint", |spec| {
            spec.endpoint = "ftp://store".to_owned()
        }),
        ("spec.bucket", |spec| spec.bucket = "No".to_owned()),
        ("spec.checkEverySeconds", |spec| {
            spec.check_every_seconds = 1
        }),
    ];
    for (field, spoil) in wrong {
        let mut bucket = backups(&store);
        spoil(&mut bucket.spec);
        let refusal = cluster.client().create(&bucket).await.unwrap_err();
        assert!(refusal.to_string().contains(field), "{refusal}");
    }
}

#[sendo_test::test]
async fn stores_that_hang_hold_up_no_other_for_long(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    // Sixteen buckets, of which the store answers none in time.
    store.set_delay(HOUR);
    for number in 0..16 {
        let mut bucket = backups(&store);
        bucket.metadata = in_default(&format!("hanging-{number}"));
        cluster.create(&bucket).await;
    }
    cluster.pass(Duration::from_secs(12)).await;
    let buckets = cluster.list::<StorageBucket>();
    assert_eq!(buckets.len(), 16);
    for bucket in buckets {
        assert_eq!(ready_reason(Some(bucket)), "TimedOut");
    }
}
