//! Checks: their results, their times, and their events.

use std::time::Duration;

use sendo::metrics::Format;
use sendo_test::TestCluster;
use serde_json::json;
use storage_bucket::api::{Probe, StorageBucket};
use storage_bucket::http::Http;
use storage_bucket::local_store::LocalStore;
use storage_bucket::{Options, manager};

use crate::{Fixture, HOUR, MINUTE, SECOND, condition, store};

#[sendo_test::test]
async fn a_bucket_goes_bad_with_its_store_and_comes_back(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    fixture.healthy(&fixture.observed()).await;

    fixture.store.stop().await;
    fixture.until_ready_is("Unreachable").await;
    cluster.pass(MINUTE * 10).await;
    let bad = fixture.status();
    assert_eq!((bad.healthy, bad.latency_ms), (Some(false), None));
    // After 0, 1, 3 and 7 minutes: the interval grows with consecutive failures.
    assert_eq!(bad.consecutive_failures, 4, "{bad:?}");

    fixture.store.start().unwrap();
    fixture.until_ready_is("Healthy").await;
    let good = fixture.status();
    assert_eq!((good.healthy, good.consecutive_failures), (Some(true), 0));
    assert!(good.last_transition_time > bad.last_transition_time);

    cluster.pass(HOUR).await;
    let expected = [("Normal Healthy", 2), ("Warning Unreachable", 1)];
    let expected = expected.map(|(event, count)| (event.to_owned(), count));
    assert_eq!(fixture.events(), expected.into(), "on turns only");
}

#[sendo_test::test]
async fn a_slow_store_is_healthy_and_one_that_hangs_is_not(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    fixture.store.set_delay(SECOND * 4);
    fixture.healthy(&fixture.observed()).await;
    let latency = fixture.status().latency_ms.unwrap();
    assert!((4000..5000).contains(&latency), "{latency} ms");
    fixture.store.set_delay(SECOND * 6);
    fixture.until_ready_is("TimedOut").await;
}

#[sendo_test::test]
async fn each_bucket_is_checked_once_an_interval(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture.healthy(&fixture.observed()).await;
    // Not aligned to the ticker, so that no tick is at the end of an hour.
    cluster.pass(SECOND).await;

    let checks = || fixture.values_of("lastCheckTime").len();
    let before = checks();
    cluster.pass(HOUR).await;
    assert_eq!(checks() - before, 60);

    let change = json!({"spec": {"checkEverySeconds": 5}});
    cluster.patch(&made, change).await;
    cluster.pass(MINUTE).await;
    let before = checks();
    cluster.pass(HOUR).await;
    assert_eq!(checks() - before, 720);
}

#[sendo_test::test]
async fn a_changed_spec_is_checked_at_once(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture.healthy(&fixture.observed()).await;
    let before = cluster.world().clock().now();
    let change = json!({"spec": {"bucket": "elsewhere"}});
    cluster.patch(&made, change).await;
    fixture.until_ready_is("NoSuchBucket").await;
    assert!(cluster.world().clock().now() - before < SECOND);
    assert_eq!(fixture.status().observed_generation, Some(2));
}

#[sendo_test::test]
async fn an_annotation_asks_for_a_check_at_once(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture.healthy(&fixture.observed()).await;
    fixture.store.remove_bucket("backups");
    let before = cluster.world().clock().now();
    let ask = json!({"metadata": {"annotations": {"storage.example.dev/check": "1"}}});
    cluster.patch(&made, ask).await;
    fixture.until_ready_is("NoSuchBucket").await;
    assert!(cluster.world().clock().now() - before < SECOND);
    assert_eq!(fixture.status().handled_request.as_deref(), Some("1"));
}

#[sendo_test::test]
async fn a_pause_rests_and_its_end_checks_at_once(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let made = fixture.healthy(&fixture.observed()).await;
    cluster
        .patch(&made, json!({"spec": {"paused": true}}))
        .await;
    fixture.until_synced_is("False", "Paused").await;
    fixture.store.stop().await;
    cluster.stays_quiet_for(HOUR).await;
    cluster
        .patch(&made, json!({"spec": {"paused": false}}))
        .await;
    fixture.until_ready_is("Unreachable").await;
}

#[sendo_test::test]
async fn a_missing_secret_is_named_until_it_is_there(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    cluster.run(manager(fixture.options())).await;
    cluster.create(&fixture.observed()).await;
    fixture.until_ready_is("BadCredentials").await;
    let message = fixture.status().message.unwrap();
    let expected = "the Secret default/credentials cannot be used: it does not exist";
    assert_eq!(message, expected);

    fixture.create_secret("default", "secret").await;
    fixture.until_ready_is("Healthy").await;
}

#[sendo_test::test]
async fn wrong_credentials_are_reported_until_they_are_right(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    cluster.run(manager(fixture.options())).await;
    let secret = fixture.create_secret("default", "guess").await;
    cluster.create(&fixture.managed(Default::default())).await;
    fixture.until_ready_is("AccessDenied").await;
    fixture.until_synced_is("Unknown", "AccessDenied").await;
    let right = json!({"stringData": {"secretAccessKey": "secret"}});
    cluster.patch(&secret, right).await;
    fixture.until_ready_is("Healthy").await;
}

#[sendo_test::test]
async fn a_read_write_probe_leaves_nothing_in_the_bucket(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    let mut bucket = fixture.observed();
    bucket.spec.probe = Probe::ReadWrite;
    fixture.healthy(&bucket).await;
    let message = fixture.status().message;
    let expected = "an object was written, read and deleted";
    assert_eq!(message.as_deref(), Some(expected));
    assert_eq!(fixture.store.objects("backups"), Some(vec![]));
}

#[sendo_test::test]
async fn each_bucket_is_counted_while_it_is_there(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    fixture.create_secret("default", "secret").await;
    let program = manager(fixture.options());
    let running = program.start(cluster.config()).unwrap();
    let made = fixture.healthy(&fixture.observed()).await;
    let page = || running.metrics().encode(Format::Prometheus);
    for line in [
        "storage_bucket_healthy{name=\"backups\",namespace=\"default\"} 1\n",
        "storage_bucket_checks_total{name=\"backups\",namespace=\"default\",result=\"healthy\"} 1\n",
    ] {
        assert!(page().contains(line), "{line}\n{}", page());
    }
    cluster.delete(&made).await;
    cluster.pass(SECOND).await;
    assert!(!page().contains("name=\"backups\""));
    running.stop().await.unwrap();
}

/// A client for two stores, chosen by the host of the endpoint.
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
    let fixture = Fixture::new(&cluster).await;
    fixture.create_secret("default", "secret").await;
    let dead = store(&cluster, "dead");
    let options = Options::new(http_to(&dead, &fixture.store));
    cluster.run(manager(options)).await;
    // More buckets than workers, in a store that does not respond in time.
    let mut hanging = Vec::new();
    for number in 0..40 {
        let mut bucket = fixture.managed(storage_bucket::api::DeletionPolicy::Delete);
        bucket.metadata.name = Some(format!("hanging-{number}"));
        bucket.spec.bucket = format!("hanging-{number}");
        bucket.spec.endpoint = "http://dead.invalid".to_owned();
        hanging.push(cluster.create(&bucket).await);
    }
    let all_are = |ready: &str| {
        let buckets = cluster.list::<StorageBucket>().into_iter();
        let mut hanging = buckets.filter(|bucket| bucket.spec.endpoint == "http://dead.invalid");
        hanging.all(|bucket| condition(&bucket, "Ready").1 == ready)
    };
    cluster.pass(MINUTE * 2).await;
    assert!(all_are("Healthy"));
    dead.set_delay(HOUR);
    cluster.pass(MINUTE * 2).await;
    assert!(all_are("TimedOut"));

    // Neither its checks nor its deletions delay those of another store.
    for (name, delete) in [("checked", false), ("while-deleting", true)] {
        if delete {
            for bucket in &hanging {
                cluster.delete(bucket).await;
            }
        } else {
            cluster.pass(MINUTE - SECOND).await;
        }
        let mut bucket = fixture.observed();
        bucket.metadata.name = Some(name.to_owned());
        bucket.spec.endpoint = "http://live.invalid".to_owned();
        cluster.create(&bucket).await;
        let before = cluster.world().clock().now();
        let healthy = |now: &sendo_test::View| {
            let bucket = now.get::<StorageBucket>(format!("default/{name}"));
            bucket.is_some_and(|bucket| condition(&bucket, "Ready").1 == "Healthy")
        };
        cluster.until(name, healthy).await;
        let waited = cluster.world().clock().now() - before;
        assert!(waited < Duration::from_secs(1), "{name}: {waited:?}");
    }
    dead.set_delay(Duration::ZERO);
    cluster.pass(MINUTE * 2).await;
    assert_eq!(cluster.list::<StorageBucket>().len(), 2);
    assert_eq!(dead.objects("hanging-7"), None);
}
