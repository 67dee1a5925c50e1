//! Buckets that are created, and created again.

use std::convert::Infallible;
use std::future::pending;

use bytes::Bytes;
use http_body_util::Full;
use sendo::Config;
use sendo_test::TestCluster;
use storage_bucket::api::{Creation, DeletionPolicy};
use storage_bucket::http::Http;
use storage_bucket::{Options, manager};
use tower::ServiceExt;

use crate::{HOUR, MINUTE, Place};

#[sendo_test::test]
async fn a_managed_bucket_is_created_and_created_again(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    place.healthy(&place.managed(DeletionPolicy::Retain)).await;
    place.until_synced_is("True", "InPlace").await;
    assert_eq!(place.status().creation, Some(Creation::Succeeded));

    place.store.remove_bucket("new-bucket");
    cluster.pass(MINUTE * 2).await;
    assert_eq!(place.store.objects("new-bucket"), Some(vec![]));
    assert_eq!(place.events()["Normal Created"], 2);
}

#[sendo_test::test]
async fn a_bucket_that_is_only_observed_is_never_created(cluster: TestCluster) {
    let place = Place::at_work(&cluster).await;
    cluster.create(&place.observed()).await;
    place.until_synced_is("True", "Observed").await;
    place.store.remove_bucket("backups");
    place.until_ready_is("NoSuchBucket").await;
    cluster.pass(HOUR).await;
    assert_eq!(place.store.objects("backups"), None);
    place.store.create_bucket("backups");
    place.until_ready_is("Healthy").await;
}

/// Where the program is when it crashes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    BeforeTheStoreHears,
    BeforeTheAnswer,
}

/// A program that is cut off in the middle of creating a bucket, and one that
/// comes after it.
async fn crash_while_creating(cluster: &TestCluster, crash: Crash) {
    let place = Place::new(cluster).await;
    place.create_secret("default", "secret").await;
    let store = place.store.clone();
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
    let made = cluster.create(&place.managed(DeletionPolicy::Delete)).await;
    cluster.pass(MINUTE).await;
    assert_eq!(
        place.status().creation,
        Some(Creation::Pending),
        "{crash:?}"
    );
    let there = place.store.objects("new-bucket").is_some();
    assert_eq!(there, crash == Crash::BeforeTheAnswer);
    first.stop().await.unwrap();

    cluster.run(manager(place.options())).await;
    place.until_ready_is("Healthy").await;
    assert_eq!(place.status().creation, Some(Creation::Succeeded));
    let created = place.events().get("Normal Created").copied();
    let expected = (crash == Crash::BeforeTheStoreHears).then_some(1);
    assert_eq!(created, expected, "nothing is created twice");
    cluster.delete(&made).await;
    place.until_resources_are_gone().await;
    assert_eq!(
        place.store.objects("new-bucket"),
        None,
        "nothing is left behind"
    );
}

#[sendo_test::test]
async fn a_crash_before_the_store_hears_of_a_bucket_loses_nothing(cluster: TestCluster) {
    crash_while_creating(&cluster, Crash::BeforeTheStoreHears).await;
}

#[sendo_test::test]
async fn a_crash_before_the_answer_neither_leaks_nor_doubles_a_bucket(cluster: TestCluster) {
    crash_while_creating(&cluster, Crash::BeforeTheAnswer).await;
}

#[sendo_test::test]
async fn a_name_that_is_taken_is_told_of_once(cluster: TestCluster) {
    let place = Place::new(&cluster).await;
    place.create_secret("default", "secret").await;
    // Somebody else's bucket is not to be seen, and cannot be created.
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
    let made = cluster.create(&place.managed(DeletionPolicy::Delete)).await;
    place.until_synced_is("False", "NameTaken").await;
    cluster.pass(HOUR).await;
    assert_eq!(place.events()["Warning CreateFailed"], 1);
    assert_eq!(place.status().creation, None, "it is not this resource's");
    cluster.delete(&made).await;
    place.until_resources_are_gone().await;
}
