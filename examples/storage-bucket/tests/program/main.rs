//! The whole program on a live cluster, against a real S3 server, in virtual time.

mod checks;
mod day;
mod deletion;
mod managed;
mod manifests;
mod refusals;
mod replicas;
mod samples;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Secret};
use sendo::conditions;
use sendo_test::{TestCluster, View};
use serde_json::json;
use storage_bucket::api::{DeletionPolicy, ManagementPolicy, StorageBucket, StorageBucketStatus};
use storage_bucket::local_store::LocalStore;
use storage_bucket::store::Credentials;
use storage_bucket::{Options, manager};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A cluster with the definition of StorageBuckets, and a store with the bucket `backups`.
pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    pub(crate) store: LocalStore,
}

impl Fixture {
    pub(crate) async fn new(cluster: &TestCluster) -> Self {
        let store = store(cluster, "store");
        store.create_bucket("backups");
        cluster.install::<StorageBucket>().await;
        Fixture {
            cluster: cluster.clone(),
            store,
        }
    }

    /// The same with the controller running, and the Secret that buckets name.
    pub(crate) async fn at_work(cluster: &TestCluster) -> Self {
        let fixture = Fixture::new(cluster).await;
        fixture.create_secret("default", "secret").await;
        cluster.run(manager(fixture.options())).await;
        fixture
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(self.store.http())
    }

    pub(crate) async fn create_secret(&self, namespace: &str, secret: &str) -> Secret {
        let secret = serde_json::from_value(json!({
            "metadata": {"name": "credentials", "namespace": namespace},
            "stringData": {"accessKeyID": "key", "secretAccessKey": secret},
        }));
        let secret: Secret = secret.unwrap();
        self.cluster.create(&secret).await
    }

    /// A resource `backups` that observes the bucket of that name.
    pub(crate) fn observed(&self) -> StorageBucket {
        let bucket = serde_json::from_value(json!({
            "metadata": {"name": "backups", "namespace": "default"},
            "spec": {
                "endpoint": self.store.endpoint(),
                "bucket": "backups",
                "credentialsSecretRef": {"name": "credentials"},
                "checkEverySeconds": 60,
            },
        }));
        bucket.unwrap()
    }

    /// A resource `backups` that manages the bucket `new-bucket`, which does not exist yet.
    pub(crate) fn managed(&self, policy: DeletionPolicy) -> StorageBucket {
        let mut bucket = self.observed();
        bucket.spec.bucket = "new-bucket".to_owned();
        bucket.spec.management_policy = ManagementPolicy::Manage;
        bucket.spec.deletion_policy = policy;
        bucket
    }

    /// Creates the resource and waits until its bucket is healthy.
    pub(crate) async fn healthy(&self, bucket: &StorageBucket) -> StorageBucket {
        let made = self.cluster.create(bucket).await;
        self.until_ready_is("Healthy").await;
        made
    }

    pub(crate) fn status(&self) -> StorageBucketStatus {
        let bucket = self.cluster.get::<StorageBucket>("default/backups");
        bucket.and_then(|bucket| bucket.status).unwrap_or_default()
    }

    /// Waits until the condition `Ready` has this reason.
    pub(crate) async fn until_ready_is(&self, reason: &str) {
        self.until(&format!("Ready for the reason {reason}"), |now| {
            let bucket = now.get::<StorageBucket>("default/backups");
            bucket.is_some_and(|bucket| condition(&bucket, "Ready").1 == reason)
        })
        .await;
    }

    /// Waits until the condition `Synced` has this status and reason.
    pub(crate) async fn until_synced_is(&self, status: &str, reason: &str) {
        self.until(&format!("Synced is {status} for {reason}"), |now| {
            let bucket = now.get::<StorageBucket>("default/backups");
            bucket.is_some_and(|bucket| condition(&bucket, "Synced") == (status, reason))
        })
        .await;
    }

    pub(crate) async fn until_resources_are_gone(&self) {
        self.until("all resources are gone", |now| {
            now.list::<StorageBucket>().is_empty()
        })
        .await;
    }

    async fn until(&self, what: &str, holds: impl Fn(&View) -> bool) {
        self.cluster.until(what, holds).await;
    }

    /// How often each Event about a StorageBucket was recorded, by type and reason.
    pub(crate) fn events(&self) -> BTreeMap<String, i32> {
        let mut counts = BTreeMap::new();
        for event in self.cluster.list::<Event>() {
            if event.involved_object.kind.as_deref() == Some("StorageBucket") {
                let kind = event.type_.unwrap_or_default();
                let reason = event.reason.unwrap_or_default();
                *counts.entry(format!("{kind} {reason}")).or_default() += event.count.unwrap_or(1);
            }
        }
        counts
    }

    /// The values of a text field in the changes of StorageBuckets, in order.
    pub(crate) fn values_of(&self, field: &str) -> Vec<String> {
        let changes = self.cluster.changes();
        let of_bucket = changes
            .lines()
            .filter(|line| line.contains("/storagebuckets/"));
        let start = format!("\"{field}\":\"");
        let value = |line: &str| Some(line.split_once(&start)?.1.split('"').next()?.to_owned());
        of_bucket.filter_map(value).collect()
    }
}

/// A store of its own, which takes one pair of credentials.
pub(crate) fn store(cluster: &TestCluster, name: &str) -> LocalStore {
    let credentials = Credentials::new("key", "secret");
    LocalStore::in_process(&cluster.world().child(name), &credentials)
}

/// The status and the reason of a condition; empty if it is not there.
pub(crate) fn condition<'a>(bucket: &'a StorageBucket, kind: &str) -> (&'a str, &'a str) {
    let status = bucket.status.as_ref();
    let found = status.and_then(|status| conditions::get(&status.conditions, kind));
    found.map_or(("", ""), |c| (&c.status, &c.reason))
}
