//! A day of checks in virtual time, twice: the same seed gives the same day, to the byte.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Secret};
use sendo_test::{TestCluster, record};
use serde_json::json;
use storage_bucket::api::StorageBucket;
use storage_bucket::local_store::LocalStore;
use storage_bucket::store::Credentials;
use storage_bucket::{Options, manager};

const HOUR: Duration = Duration::from_secs(3600);

/// Checks every five minutes; the store is down from 9 to 10 o'clock.
async fn a_day(cluster: TestCluster) {
    let credentials = Credentials::new("key", "secret");
    let store = LocalStore::in_process(cluster.world(), &credentials);
    store.create_bucket("backups");
    cluster.install::<StorageBucket>().await;
    let options = Options {
        tick_every: Duration::from_secs(60),
        ..Options::new(store.http())
    };
    cluster.run(manager(options)).await;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "backups-credentials", "namespace": "default"},
        "stringData": {"accessKeyID": "key", "secretAccessKey": "secret"},
    }))
    .unwrap();
    cluster.create(&secret).await;
    let bucket: StorageBucket = serde_json::from_value(json!({
        "metadata": {"name": "backups", "namespace": "default"},
        "spec": {
            "endpoint": store.endpoint(),
            "bucket": "backups",
            "credentialsSecretRef": {"name": "backups-credentials"},
            "checkEverySeconds": 300,
        },
    }))
    .unwrap();
    cluster.create(&bucket).await;

    let healthy = || {
        let bucket = cluster.get::<StorageBucket>("default/backups").unwrap();
        bucket.status.unwrap_or_default().healthy
    };
    cluster.pass(9 * HOUR).await;
    assert_eq!(healthy(), Some(true));
    store.stop().await;
    cluster.pass(HOUR).await;
    assert_eq!(healthy(), Some(false));
    store.start().unwrap();
    cluster.pass(14 * HOUR).await;
    assert_eq!(healthy(), Some(true));

    let reasons: Vec<_> = cluster
        .list::<Event>()
        .into_iter()
        .filter(|event| event.involved_object.name.as_deref() == Some("backups"))
        .map(|event| (event.reason.unwrap_or_default(), event.count))
        .collect();
    assert_eq!(
        reasons.len(),
        2,
        "healthy twice, unreachable once: {reasons:?}"
    );
}

#[test]
fn a_seed_gives_the_same_day_to_the_byte() {
    let first = record(1, a_day);
    let second = record(1, a_day);
    assert!(
        first.changes.lines().count() > 288,
        "a check every five minutes leaves a trace"
    );
    assert!(first.log == second.log, "the logs differ");
    assert!(first.changes == second.changes, "the changes differ");
}
