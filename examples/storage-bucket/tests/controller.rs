//! The whole program on a live cluster, against a real S3 server, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use kube::api::ObjectMeta;
use sendo::metrics::Format;
use sendo_test::{Faults, TestCluster};
use serde_json::json;
use storage_bucket::api::{
    Creation, DeletionPolicy, ManagementPolicy, Probe, SecretReference, StorageBucket,
    StorageBucketSpec, StorageBucketStatus,
};
use storage_bucket::http::Http;
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
        ..StorageBucketSpec::default()
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
    // After 0, 1, 3 and 7 minutes: a bucket that keeps failing is asked for less often.
    assert_eq!(bad.consecutive_failures, 4, "{bad:?}");

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

/// A way to two stores, told apart by the host of the endpoint.
fn http_to(dead: &LocalStore, live: &LocalStore) -> Http {
    let (dead, live) = (dead.clone(), live.clone());
    Http::in_process(tower::service_fn(move |request: http::Request<_>| {
        let store = match request.uri().host() {
            Some("dead.invalid") => dead.clone(),
            _ => live.clone(),
        };
        tower::ServiceExt::oneshot(store, request)
    }))
}

#[sendo_test::test]
async fn a_dead_endpoint_delays_no_other(cluster: TestCluster) {
    let credentials = Credentials::new("key", "secret");
    let [dead, live] = ["dead", "live"].map(|name| {
        let store = LocalStore::in_process(&cluster.world().child(name), &credentials);
        store.create_bucket("backups");
        store
    });
    dead.set_delay(HOUR);
    cluster.install::<StorageBucket>().await;
    cluster
        .run(manager(Options::new(http_to(&dead, &live))))
        .await;
    create_secret(&cluster).await;
    // More than there are workers, of a store that never answers in time.
    for number in 0..40 {
        let mut bucket = backups(&dead);
        bucket.metadata = in_default(&format!("hanging-{number}"));
        bucket.spec.endpoint = "http://dead.invalid".to_owned();
        cluster.create(&bucket).await;
    }
    let mut bucket = backups(&live);
    bucket.spec.endpoint = "http://live.invalid".to_owned();
    cluster.create(&bucket).await;
    let before = cluster.world().clock().now();
    until_ready_is(&cluster, "Healthy").await;
    let waited = cluster.world().clock().now() - before;
    assert!(waited < Duration::from_secs(1), "{waited:?}");

    // In their time, all of the others are found out, too.
    cluster.pass(MINUTE * 2).await;
    for bucket in cluster.list::<StorageBucket>() {
        if bucket.spec.endpoint == "http://dead.invalid" {
            assert_eq!(ready_reason(Some(bucket)), "TimedOut");
        }
    }
}

/// The status and reason of the condition `Synced`.
fn synced(bucket: &StorageBucket) -> String {
    let conditions = bucket.status.iter().flat_map(|status| &status.conditions);
    let mut synced = conditions.filter(|condition| condition.type_ == "Synced");
    let line = synced.next().map(|c| format!("{} {}", c.status, c.reason));
    line.unwrap_or_default()
}

async fn until_synced_is(cluster: &TestCluster, wanted: &str) {
    cluster
        .until(&format!("Synced is {wanted}"), |now| {
            let bucket = now.get::<StorageBucket>("default/backups");
            bucket.is_some_and(|bucket| synced(&bucket) == wanted)
        })
        .await;
}

/// The bucket `new`, which is not there yet, to be managed.
fn managed(store: &LocalStore, policy: DeletionPolicy) -> StorageBucket {
    let mut bucket = backups(store);
    bucket.spec.bucket = "new-bucket".to_owned();
    bucket.spec.management_policy = ManagementPolicy::Manage;
    bucket.spec.deletion_policy = policy;
    bucket
}

#[sendo_test::test]
async fn a_managed_bucket_is_created_and_created_again(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    cluster
        .create(&managed(&store, DeletionPolicy::Retain))
        .await;
    until_ready_is(&cluster, "Healthy").await;
    until_synced_is(&cluster, "True InPlace").await;
    assert_eq!(status(&cluster).creation, Some(Creation::Succeeded));

    store.remove_bucket("new-bucket");
    cluster.pass(MINUTE * 2).await;
    assert_eq!(store.objects("new-bucket"), Some(vec![]));
    assert_eq!(events(&cluster)["Normal Created"], 2);
}

#[sendo_test::test]
async fn a_bucket_that_is_only_observed_is_never_created(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    cluster.create(&backups(&store)).await;
    until_synced_is(&cluster, "True Observed").await;
    store.remove_bucket("backups");
    until_ready_is(&cluster, "NoSuchBucket").await;
    cluster.pass(HOUR).await;
    assert_eq!(store.objects("backups"), None);
    store.create_bucket("backups");
    until_ready_is(&cluster, "Healthy").await;
}

#[sendo_test::test]
async fn the_intent_is_written_before_the_store_is_asked(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    cluster
        .create(&managed(&store, DeletionPolicy::Delete))
        .await;
    until_ready_is(&cluster, "Healthy").await;
    let changes = cluster.changes();
    let of_bucket = changes
        .lines()
        .filter(|line| line.contains("/storagebuckets/"));
    let creations: Vec<_> = of_bucket
        .map(|line| {
            let place = line.find("\"creation\":\"");
            place.map_or("", |at| line[at + 12..].split('"').next().unwrap_or(""))
        })
        .collect();
    let pending = creations.iter().position(|state| *state == "Pending");
    let succeeded = creations.iter().position(|state| *state == "Succeeded");
    assert!(pending.is_some() && pending < succeeded, "{creations:?}");
}

#[sendo_test::test]
async fn a_create_without_an_answer_is_found_out(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    // Answers checks in time, but not the create that follows them in one reconcile.
    let made = cluster
        .create(&managed(&store, DeletionPolicy::Delete))
        .await;
    until_ready_is(&cluster, "Healthy").await;
    store.remove_bucket("new-bucket");
    // As if it had crashed between the create and its answer.
    let pending = json!({"status": {"creation": "Pending"}});
    let patch = sendo::Patch::Merge(pending);
    cluster.client().patch_status(&made, patch).await.unwrap();
    store.create_bucket("new-bucket");
    cluster.pass(MINUTE * 2).await;
    assert_eq!(status(&cluster).creation, Some(Creation::Succeeded));
    assert_eq!(
        events(&cluster)["Normal Created"],
        1,
        "nothing is created twice"
    );
    cluster.delete(&made).await;
    cluster
        .until("it is gone", |now| now.list::<StorageBucket>().is_empty())
        .await;
    assert_eq!(store.objects("new-bucket"), None, "nothing is left behind");
}

#[sendo_test::test]
async fn a_created_bucket_goes_with_its_resource_once_it_is_empty(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let made = cluster
        .create(&managed(&store, DeletionPolicy::Delete))
        .await;
    until_ready_is(&cluster, "Healthy").await;
    store.put_object("new-bucket", "precious", "data");
    cluster.delete(&made).await;
    until_synced_is(&cluster, "False NotEmpty").await;
    cluster.pass(HOUR).await;
    assert!(cluster.get::<StorageBucket>("default/backups").is_some());
    assert_eq!(events(&cluster)["Warning DeleteFailed"], 1);

    store.remove_object("new-bucket", "precious");
    cluster
        .until("it is gone", |now| now.list::<StorageBucket>().is_empty())
        .await;
    assert_eq!(store.objects("new-bucket"), None);
}

#[sendo_test::test]
async fn a_bucket_that_was_there_before_stays(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let mut adopted = managed(&store, DeletionPolicy::Delete);
    adopted.spec.bucket = "backups".to_owned();
    let made = cluster.create(&adopted).await;
    until_synced_is(&cluster, "True InPlace").await;
    assert_eq!(status(&cluster).creation, None);
    cluster.delete(&made).await;
    cluster
        .until("it is gone", |now| now.list::<StorageBucket>().is_empty())
        .await;
    assert_eq!(store.objects("backups"), Some(vec![]));
}

#[sendo_test::test]
async fn a_deleted_namespace_leaves_nothing_in_the_cluster(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "short"}})).unwrap();
    let namespace = cluster.create(&namespace).await;
    let mut public = managed(&store, DeletionPolicy::Delete);
    public.metadata.namespace = Some("short".to_owned());
    cluster.create(&public).await;
    cluster.pass(MINUTE).await;
    cluster.delete(&namespace).await;
    cluster
        .until("the namespace is gone", |now| {
            now.get::<Namespace>("short").is_none()
        })
        .await;
}

#[sendo_test::test]
async fn wrong_credentials_are_told_until_they_are_right(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "credentials", "namespace": "default"},
        "stringData": {"accessKeyID": "key", "secretAccessKey": "guess"},
    }))
    .unwrap();
    let secret = cluster.create(&secret).await;
    cluster
        .create(&managed(&store, DeletionPolicy::Retain))
        .await;
    until_ready_is(&cluster, "AccessDenied").await;
    until_synced_is(&cluster, "Unknown AccessDenied").await;
    cluster
        .patch(
            &secret,
            json!({"stringData": {"secretAccessKey": "secret"}}),
        )
        .await;
    until_ready_is(&cluster, "Healthy").await;
}

#[sendo_test::test]
async fn a_pause_rests_and_its_end_checks_at_once(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let made = cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;
    cluster
        .patch(&made, json!({"spec": {"paused": true}}))
        .await;
    until_synced_is(&cluster, "False Paused").await;
    store.stop().await;
    cluster.stays_quiet_for(HOUR).await;
    cluster
        .patch(&made, json!({"spec": {"paused": false}}))
        .await;
    until_ready_is(&cluster, "Unreachable").await;
}

#[sendo_test::test]
async fn an_annotation_asks_for_a_check_at_once(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let made = cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;
    store.remove_bucket("backups");
    let before = cluster.world().clock().now();
    let ask = json!({"metadata": {"annotations": {"storage.example.dev/check": "1"}}});
    cluster.patch(&made, ask).await;
    until_ready_is(&cluster, "NoSuchBucket").await;
    assert!(cluster.world().clock().now() - before < Duration::from_secs(1));
    assert_eq!(status(&cluster).handled_request.as_deref(), Some("1"));
}

#[sendo_test::test]
async fn a_read_write_probe_leaves_nothing_in_the_bucket(cluster: TestCluster) {
    let store = set_up(&cluster).await;
    create_secret(&cluster).await;
    let mut bucket = backups(&store);
    bucket.spec.probe = Probe::ReadWrite;
    cluster.create(&bucket).await;
    until_ready_is(&cluster, "Healthy").await;
    assert_eq!(
        status(&cluster).message.as_deref(),
        Some("an object was written, read and deleted")
    );
    assert_eq!(store.objects("backups"), Some(vec![]));
}

#[sendo_test::test]
async fn each_bucket_is_counted_while_it_is_there(cluster: TestCluster) {
    let credentials = Credentials::new("key", "secret");
    let store = LocalStore::in_process(cluster.world(), &credentials);
    store.create_bucket("backups");
    cluster.install::<StorageBucket>().await;
    let options = Options::new(store.http());
    let running = manager(options).start(cluster.config()).unwrap();
    create_secret(&cluster).await;
    let made = cluster.create(&backups(&store)).await;
    until_ready_is(&cluster, "Healthy").await;
    let page = || running.metrics().encode(Format::Prometheus);
    for line in [
        "storage_bucket_healthy{name=\"backups\",namespace=\"default\"} 1\n",
        "storage_bucket_checks_total{name=\"backups\",namespace=\"default\",result=\"healthy\"} 1\n",
    ] {
        assert!(page().contains(line), "{line}\n{}", page());
    }

    cluster.delete(&made).await;
    cluster.pass(MINUTE).await;
    assert!(!page().contains("name=\"backups\""));
    running.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_replica_takes_over_without_a_missed_or_doubled_check(cluster: TestCluster) {
    let credentials = Credentials::new("key", "secret");
    let store = LocalStore::in_process(cluster.world(), &credentials);
    cluster.install::<StorageBucket>().await;
    create_secret(&cluster).await;
    let start = |name: &str| {
        let config = cluster.replica(name, "storage-bucket");
        manager(Options::new(store.http())).start(config).unwrap()
    };
    let (first, second) = (start("first"), start("second"));
    first.ready().await;
    second.ready().await;
    cluster
        .create(&managed(&store, DeletionPolicy::Retain))
        .await;
    until_ready_is(&cluster, "Healthy").await;
    cluster.pass(MINUTE * 10).await;
    first.stop().await.unwrap();
    cluster.pass(MINUTE * 10).await;

    // The times of all checks: one a minute, whoever made it.
    let changes = cluster.changes();
    let checks: Vec<sendo::Timestamp> = changes
        .lines()
        .filter(|line| line.contains("/storagebuckets/"))
        .filter_map(|line| {
            let at = line.find("\"lastCheckTime\":\"")?;
            line[at + 17..].split('"').next()?.parse().ok()
        })
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    assert!(checks.len() >= 19, "{checks:?}");
    for pair in checks.windows(2) {
        let gap = pair[1].duration_since(pair[0]).as_secs();
        assert!((55..=75).contains(&gap), "{gap} s between two checks");
    }
    assert_eq!(events(&cluster)["Normal Created"], 1);
    second.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_second_run_on_a_bucket_at_rest_writes_nothing(cluster: TestCluster) {
    let credentials = Credentials::new("key", "secret");
    let store = LocalStore::in_process(cluster.world(), &credentials);
    cluster.install::<StorageBucket>().await;
    create_secret(&cluster).await;
    let start = |name: &str| {
        let config = cluster.replica(name, "storage-bucket");
        manager(Options::new(store.http())).start(config).unwrap()
    };
    let first = start("first");
    let mut bucket = managed(&store, DeletionPolicy::Delete);
    // Between two checks, which are a day apart, there is nothing to write.
    bucket.spec.check_every_seconds = 86400;
    cluster.create(&bucket).await;
    until_ready_is(&cluster, "Healthy").await;
    cluster.pass(MINUTE).await;
    first.stop().await.unwrap();

    let before = cluster.changes().len();
    let second = start("second");
    second.ready().await;
    cluster.stays_quiet_for(HOUR).await;
    let changes = cluster.changes();
    let lines = changes[before..].lines();
    let renewals = lines.filter(|line| line.contains("/leases/default/storage-bucket"));
    assert!(renewals.count() > 1000, "it led, and renewed its lease");
    second.stop().await.unwrap();
}

/// Whatever happens to its requests, the program comes to the same end.
#[sendo_test::test(seeds = 10)]
async fn failures_of_the_api_delay_but_do_not_mislead(cluster: TestCluster) {
    let credentials = Credentials::new("key", "secret");
    let store = LocalStore::in_process(cluster.world(), &credentials);
    cluster.install::<StorageBucket>().await;
    create_secret(&cluster).await;
    let faults = Faults::new(cluster.world(), 0.3);
    let program = manager(Options::new(store.http()));
    let running = program.start(cluster.faulty(&faults)).unwrap();
    let made = cluster
        .create(&managed(&store, DeletionPolicy::Delete))
        .await;
    cluster.pass(MINUTE * 5).await;
    store.stop().await;
    cluster.pass(MINUTE * 5).await;
    store.start().unwrap();
    assert!(faults.injected() > 0);
    faults.end();
    until_ready_is(&cluster, "Healthy").await;
    assert_eq!(status(&cluster).creation, Some(Creation::Succeeded));

    cluster.delete(&made).await;
    cluster
        .until("it is gone", |now| now.list::<StorageBucket>().is_empty())
        .await;
    assert_eq!(store.objects("new-bucket"), None);
    running.stop().await.unwrap();
}
