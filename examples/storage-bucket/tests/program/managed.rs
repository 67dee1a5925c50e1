//! Managed buckets: creation, crashes during it, creation after a deletion.

use std::convert::Infallible;
use std::future::pending;

use bytes::Bytes;
use http_body_util::Full;
use sendo::Config;
use sendo::manager::DidNotStop;
use sendo_test::TestCluster;
use storage_bucket::api::{Creation, DeletionPolicy};
use storage_bucket::http::Http;
use storage_bucket::{Options, manager};
use tower::ServiceExt;

use crate::{Fixture, HOUR, MINUTE};

#[sendo_test::test]
async fn a_managed_bucket_is_created_and_created_again(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    fixture
        .healthy(&fixture.managed(DeletionPolicy::Retain))
        .await;
    fixture.until_synced_is("True", "InPlace").await;
    assert_eq!(fixture.status().creation, Some(Creation::Succeeded));

    fixture.store.remove_bucket("new-bucket");
    cluster.pass(MINUTE * 2).await;
    assert_eq!(fixture.store.objects("new-bucket"), Some(vec![]));
    assert_eq!(fixture.events()["Normal Created"], 2);
}

#[sendo_test::test]
async fn a_bucket_that_is_only_observed_is_never_created(cluster: TestCluster) {
    let fixture = Fixture::at_work(&cluster).await;
    cluster.create(&fixture.observed()).await;
    fixture.until_synced_is("True", "Observed").await;
    fixture.store.remove_bucket("backups");
    fixture.until_ready_is("NoSuchBucket").await;
    cluster.pass(HOUR).await;
    assert_eq!(fixture.store.objects("backups"), None);
    fixture.store.create_bucket("backups");
    fixture.until_ready_is("Healthy").await;
}

/// When the program crashes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    BeforeTheStoreHears,
    BeforeTheAnswer,
}

/// A program that is cut off in the middle of creating a bucket, and one that
/// comes after it.
async fn crash_while_creating(cluster: &TestCluster, crash: Crash) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_secret("default", "secret").await;
    let store = fixture.store.clone();
    let hangs_on_create = Http::in_process(tower::service_fn(move |request: http::Request<_>| {
        let store = store.clone();
        async move {
            let creates = request.method() == http::Method::PUT;
            if creates && crash == Crash::BeforeTheStoreHears {
                return pending().await;
            }
            let answer = store.oneshot(request).await;
            match creates {
                true => pending().await,
                false => answer,
            }
        }
    }));
    let options = Options {
        timeout: HOUR,
        ..Options::new(hangs_on_create)
    };
    let config = Config {
        shutdown_timeout: Default::default(),
        ..cluster.config()
    };
    let first = manager(options).start(config).unwrap();
    let made = cluster
        .create(&fixture.managed(DeletionPolicy::Delete))
        .await;
    cluster.pass(MINUTE).await;
    assert_eq!(
        fixture.status().creation,
        Some(Creation::Pending),
        "{crash:?}"
    );
    let there = fixture.store.objects("new-bucket").is_some();
    assert_eq!(there, crash == Crash::BeforeTheAnswer);
    let cut_off = first.stop().await.unwrap_err();
    assert!(cut_off.downcast_ref::<DidNotStop>().is_some(), "{cut_off}");

    cluster.run(manager(fixture.options())).await;
    fixture.until_ready_is("Healthy").await;
    assert_eq!(fixture.status().creation, Some(Creation::Succeeded));
    let created = fixture.events().get("Normal Created").copied();
    let expected = (crash == Crash::BeforeTheStoreHears).then_some(1);
    assert_eq!(created, expected, "nothing is created twice");
    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
    assert_eq!(
        fixture.store.objects("new-bucket"),
        None,
        "nothing is left behind"
    );
}

#[sendo_test::test]
async fn a_crash_before_the_create_request_loses_no_bucket(cluster: TestCluster) {
    crash_while_creating(&cluster, Crash::BeforeTheStoreHears).await;
}

#[sendo_test::test]
async fn a_crash_before_the_response_neither_leaks_nor_duplicates_a_bucket(cluster: TestCluster) {
    crash_while_creating(&cluster, Crash::BeforeTheAnswer).await;
}

#[sendo_test::test]
async fn a_name_in_use_is_reported_once(cluster: TestCluster) {
    let fixture = Fixture::new(&cluster).await;
    fixture.create_secret("default", "secret").await;
    // The bucket of another owner is not visible, and cannot be created.
    let taken = Http::in_process(tower::service_fn(async |request: http::Request<_>| {
        let (status, code) = match *request.method() {
            http::Method::PUT => (409, "BucketAlreadyExists"),
            _ => (404, "NoSuchBucket"),
        };
        let text = format!("<Error><Code>{code}</Code></Error>");
        let answer = http::Response::builder().status(status);
        Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(text))).unwrap())
    }));
    cluster.run(manager(Options::new(taken))).await;
    let made = cluster
        .create(&fixture.managed(DeletionPolicy::Delete))
        .await;
    fixture.until_synced_is("False", "NameTaken").await;
    cluster.pass(HOUR).await;
    assert_eq!(fixture.events()["Warning CreateFailed"], 1);
    assert_eq!(fixture.status().creation, None, "it is not this resource's");
    cluster.delete(&made).await;
    fixture.until_resources_are_gone().await;
}
