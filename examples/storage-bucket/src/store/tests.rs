//! Checks against a real S3 server.
use super::*;
use crate::local_store::LocalStore;
use sendo::World;
use std::convert::Infallible;

const TIMEOUT: Duration = Duration::from_secs(5);

fn keys() -> Credentials {
    Credentials::new("key", "secret")
}

fn spec(store: &LocalStore) -> StorageBucketSpec {
    StorageBucketSpec {
        endpoint: store.endpoint(),
        bucket: "logs".to_owned(),
        region: "us-east-1".to_owned(),
        probe: Probe::List,
        ..StorageBucketSpec::default()
    }
}

fn reason(health: &Health) -> Option<Reason> {
    health.problem().map(|problem| problem.reason)
}

/// The health of a bucket whose store answers every request like this.
async fn health_if_answered(status: u16, body: &'static str) -> Health {
    let service = tower::service_fn(move |_| async move {
        let answer = Response::builder().status(status);
        Ok::<_, Infallible>(
            answer
                .body(Full::new(Bytes::from_static(body.as_bytes())))
                .unwrap(),
        )
    });
    let world = World::seeded(1);
    let spec = spec(&LocalStore::in_process(&world, &keys()));
    let store = Store::new(Http::in_process(service), TIMEOUT);
    store
        .bucket(&spec, None, world.clock())
        .check("probe")
        .await
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_can_be_listed_is_healthy() {
    let world = World::seeded(1);
    let local = LocalStore::in_process(&world, &keys());
    local.create_bucket("logs");
    local.set_delay(Duration::from_millis(40));
    let store = Store::new(local.http(), TIMEOUT);
    let (spec, keys) = (spec(&local), keys());
    let bucket = store.bucket(&spec, Some(&keys), world.clock());
    let latency = Duration::from_millis(40);
    let probe = Probe::List;
    assert_eq!(
        bucket.check("probe").await,
        Health::Healthy { latency, probe }
    );
}

#[tokio::test(start_paused = true)]
async fn each_problem_has_its_reason() {
    let world = World::seeded(1);
    let local = LocalStore::in_process(&world, &keys());
    let store = Store::new(local.http(), TIMEOUT);
    let spec = spec(&local);
    let check = async |credentials: Option<Credentials>| {
        let bucket = store.bucket(&spec, credentials.as_ref(), world.clock());
        reason(&bucket.check("probe").await)
    };

    assert_eq!(check(Some(keys())).await, Some(Reason::NoSuchBucket));
    local.create_bucket("logs");
    assert_eq!(check(Some(keys())).await, None);
    assert_eq!(check(None).await, Some(Reason::AccessDenied));
    for wrong in [
        Credentials::new("key", "guess"),
        Credentials::new("who", "secret"),
    ] {
        assert_eq!(check(Some(wrong)).await, Some(Reason::AccessDenied));
    }
    local.set_delay(TIMEOUT * 2);
    assert_eq!(check(Some(keys())).await, Some(Reason::TimedOut));
    local.stop().await;
    assert_eq!(check(Some(keys())).await, Some(Reason::Unreachable));
    local.start().unwrap();
    local.set_delay(Duration::ZERO);
    assert_eq!(check(Some(keys())).await, None);
}

#[tokio::test]
async fn a_store_on_a_socket_goes_and_comes_back() {
    let world = World::real();
    let local = LocalStore::on_loopback(&world, &keys(), 0).unwrap();
    local.create_bucket("logs");
    let store = Store::new(
        Http::over_sockets(Default::default()).unwrap(),
        Duration::from_secs(60),
    );
    let spec = spec(&local);
    let keys = keys();
    let bucket = store.bucket(&spec, Some(&keys), world.clock());
    let check = async || bucket.check("probe").await;

    assert_eq!(reason(&check().await), None);
    local.stop().await;
    let Health::Unhealthy(problem) = check().await else {
        panic!("a stopped store cannot be healthy");
    };
    assert_eq!(problem.reason, Reason::Unreachable);
    assert!(
        problem.message.contains("Connection refused"),
        "{}",
        problem.message
    );
    local.start().unwrap();
    assert_eq!(reason(&check().await), None);
    world.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_no_store_gives_is_a_bad_one() {
    for (status, body) in [
        (200, "<html>Please log in</html>"),
        (404, "<html>not found</html>"),
        (301, "<Error><Code>PermanentRedirect</Code></Error>"),
        (503, ""),
    ] {
        let health = health_if_answered(status, body).await;
        assert_eq!(reason(&health), Some(Reason::BadAnswer), "{status} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_store_s_own_words_are_in_the_message() {
    let body = "<Error><Code>AccessDenied</Code><Message>not for &quot;you&quot; &amp;lt;</Message></Error>";
    let Health::Unhealthy(problem) = health_if_answered(403, body).await else {
        panic!("healthy");
    };
    assert_eq!(
        problem.message,
        "the store answers 403 Forbidden: AccessDenied: not for \"you\" &lt;"
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut() {
    let body: &'static str = format!("<Code>{}</Code>", "é".repeat(1000)).leak();
    let Health::Unhealthy(problem) = health_if_answered(500, body).await else {
        panic!("healthy");
    };
    assert_eq!(
        problem.message.chars().count(),
        crate::problem::LONGEST_MESSAGE + 1
    );
}

#[tokio::test(start_paused = true)]
async fn each_probe_asks_for_more() {
    let world = World::seeded(1);
    let local = LocalStore::in_process(&world, &keys());
    let store = Store::new(local.http(), TIMEOUT);
    let keys = keys();
    let check = async |probe: Probe, credentials: Option<&Credentials>| {
        let spec = StorageBucketSpec {
            probe,
            ..spec(&local)
        };
        let bucket = store.bucket(&spec, credentials, world.clock());
        reason(&bucket.check("probe").await)
    };
    assert_eq!(check(Probe::Reachable, None).await, None);
    assert_eq!(
        check(Probe::ReadWrite, Some(&keys)).await,
        Some(Reason::NoSuchBucket)
    );
    local.create_bucket("logs");
    assert_eq!(check(Probe::ReadWrite, Some(&keys)).await, None);
    assert_eq!(
        check(Probe::ReadWrite, None).await,
        Some(Reason::AccessDenied)
    );
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_created_once_and_deleted_when_empty() {
    let world = World::seeded(1);
    let local = LocalStore::in_process(&world, &keys());
    let store = Store::new(local.http(), TIMEOUT);
    let (spec, keys) = (spec(&local), keys());
    let bucket = store.bucket(&spec, Some(&keys), world.clock());
    assert_eq!(bucket.create().await, Ok(Created::New));
    assert_eq!(bucket.create().await, Ok(Created::AlreadyOurs));
    local.put_object("logs", "a", "something");
    let refused = bucket.delete("probe").await.unwrap_err();
    assert_eq!(refused.reason, Reason::NotEmpty);
    local.remove_object("logs", "a");
    // What a probe that was cut off has left is no reason to keep it.
    local.put_object("logs", "probe", "written at some time");
    assert_eq!(bucket.delete("probe").await, Ok(()));
    assert_eq!(bucket.delete("probe").await, Ok(()));
    let nobody = store.bucket(&spec, None, world.clock());
    assert_eq!(
        nobody.create().await.unwrap_err().reason,
        Reason::BadCredentials
    );
}

#[tokio::test]
async fn an_endpoint_of_metadata_is_refused() {
    let world = World::real();
    let store = Store::new(Http::over_sockets(Default::default()).unwrap(), TIMEOUT);
    // Of the ways to write an address, too, that only a resolver reads as one.
    for endpoint in [
        "http://169.254.169.254",
        "http://[::ffff:169.254.169.254]",
        "http://2852039166",
        "http://0xa9.0376.43518",
    ] {
        let spec = StorageBucketSpec {
            endpoint: endpoint.to_owned(),
            bucket: "logs".to_owned(),
            ..StorageBucketSpec::default()
        };
        let bucket = store.bucket(&spec, None, world.clock());
        let health = bucket.check("probe").await;
        assert_eq!(reason(&health), Some(Reason::EndpointRefused), "{health:?}");
    }
    world.tasks().stop().await;
}
