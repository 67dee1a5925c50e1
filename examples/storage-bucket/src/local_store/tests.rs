//! Tests of the S3 server: its operations, signatures, stop and start.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Method, S3Action, UrlStyle};

use super::*;
use crate::http::HttpError;

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

fn keys() -> Credentials {
    Credentials::new("key", "secret")
}

/// An S3 client with rusty-s3.
struct Client {
    http: Http,
    world: World,
    credentials: Credentials,
    bucket: Bucket,
}

impl Client {
    fn new(store: &LocalStore, world: &World, http: Http) -> Self {
        let endpoint = store.endpoint().parse().unwrap();
        Client {
            http,
            world: world.clone(),
            credentials: keys(),
            bucket: Bucket::new(endpoint, UrlStyle::Path, "logs", "us-east-1").unwrap(),
        }
    }

    async fn send<'a, A: S3Action<'a>>(
        &self,
        action: A,
        body: &'static str,
    ) -> (StatusCode, String) {
        let now = self.world.clock().wall();
        self.send_signed_at(action, body, now).await
    }

    async fn send_signed_at<'a, A: S3Action<'a>>(
        &self,
        action: A,
        body: &'static str,
        time: sendo::Timestamp,
    ) -> (StatusCode, String) {
        let url = action.sign_with_time(self.http.signature_lifetime(), &time);
        let method = match A::METHOD {
            Method::Head => http::Method::HEAD,
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Delete => http::Method::DELETE,
        };
        let request = Request::builder().method(method).uri(url.as_str());
        let request = request.body(Full::new(Bytes::from_static(body.as_bytes())));
        let answer = self.http.send(request.unwrap()).await.unwrap();
        let body = String::from_utf8(answer.body().to_vec()).unwrap();
        (answer.status(), body)
    }

    async fn list(
        &self,
        change: impl FnOnce(&mut ListObjectsV2<'_>),
    ) -> (Vec<String>, Option<String>) {
        let mut list = self.bucket.list_objects_v2(Some(&self.credentials));
        change(&mut list);
        let (status, body) = self.send(list, "").await;
        assert_eq!(status, 200, "{body}");
        let listing = ListObjectsV2::parse_response(&body).unwrap();
        let names = listing.contents.into_iter().map(|object| object.key);
        (names.collect(), listing.next_continuation_token)
    }
}

/// The operations of S3 with any transport.
async fn check_operations(client: Client) {
    let Client {
        bucket,
        credentials,
        ..
    } = &client;
    let some = Some(credentials);

    assert_eq!(client.send(bucket.head_bucket(some), "").await.0, 404);
    assert_eq!(
        client.send(bucket.create_bucket(credentials), "").await.0,
        200
    );
    assert_eq!(
        client.send(bucket.create_bucket(credentials), "").await.0,
        409
    );
    assert_eq!(client.send(bucket.head_bucket(some), "").await.0, 200);
    assert_eq!(client.list(|_| ()).await.0, [""; 0]);

    for (name, text) in [("a/1", "one"), ("a/2", "two"), ("b & c", "three")] {
        let (status, body) = client.send(bucket.put_object(some, name), text).await;
        assert_eq!(status, 200, "{body}");
        let get = client.send(bucket.get_object(some, name), "").await;
        assert_eq!(get, (StatusCode::OK, text.to_owned()));
    }
    assert_eq!(client.list(|_| ()).await.0, ["a/1", "a/2", "b & c"]);
    assert_eq!(client.list(|l| l.with_prefix("a/")).await.0, ["a/1", "a/2"]);
    assert_eq!(
        client.list(|l| l.with_start_after("a/1")).await.0,
        ["a/2", "b & c"]
    );

    let (first, token) = client.list(|l| l.with_max_keys(2)).await;
    let (rest, end) = client
        .list(|l| l.with_continuation_token(token.unwrap()))
        .await;
    assert_eq!(
        (first.len(), rest, end),
        (2, vec!["b & c".to_owned()], None)
    );

    assert_eq!(
        client.send(bucket.delete_bucket(credentials), "").await.0,
        409
    );
    for name in ["a/1", "a/2", "b & c"] {
        assert_eq!(
            client.send(bucket.delete_object(some, name), "").await.0,
            204
        );
    }
    assert_eq!(client.send(bucket.get_object(some, "a/1"), "").await.0, 404);
    assert_eq!(
        client.send(bucket.delete_bucket(credentials), "").await.0,
        204
    );
    assert_eq!(client.send(bucket.head_bucket(some), "").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn operations_work_in_process() {
    let world = World::seeded(1);
    let store = LocalStore::in_process(&world, &keys());
    check_operations(Client::new(&store, &world, store.http())).await;
}

#[tokio::test]
async fn operations_work_over_a_socket() {
    let world = World::real();
    let store = LocalStore::on_loopback(&world, &keys(), 0).unwrap();
    let http = Http::over_sockets(Default::default()).unwrap();
    check_operations(Client::new(&store, &world, http)).await;
    world.tasks().stop().await;
    assert_eq!(world.tasks().running(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_request_signed_for_another_time_is_refused() {
    let world = World::seeded(1);
    let store = LocalStore::in_process(&world, &keys());
    store.create_bucket("logs");
    let client = Client::new(&store, &world, store.http());
    let list = || client.bucket.list_objects_v2(Some(&client.credentials));

    world.clock().sleep(WEEK).await;
    let now = world.clock().wall();
    for (time, status) in [
        (now, 200),
        (now - Duration::from_secs(14 * 60), 200),
        (now - Duration::from_secs(16 * 60), 403),
        (now + Duration::from_secs(16 * 60), 403),
    ] {
        let (got, body) = client.send_signed_at(list(), "", time).await;
        assert_eq!(got, status, "{body}");
        assert_eq!(
            body.contains("<Code>RequestTimeTooSkewed</Code>"),
            status == 403
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_refuses_requests_and_keeps_its_buckets() {
    let world = World::seeded(1);
    let store = LocalStore::in_process(&world, &keys());
    store.create_bucket("logs");
    let client = Client::new(&store, &world, store.http());

    store.stop().await;
    let request = Request::get(store.endpoint())
        .body(Full::default())
        .unwrap();
    let error = store.http().send(request).await.unwrap_err();
    assert!(matches!(&error, HttpError::Unreachable(_)), "{error:?}");

    store.start().unwrap();
    let head = client.bucket.head_bucket(Some(&client.credentials));
    assert_eq!(client.send(head, "").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_slow_answer() {
    let world = World::seeded(1);
    let store = LocalStore::in_process(&world, &keys());
    store.set_delay(WEEK);
    let request = Request::get(store.endpoint())
        .body(Full::default())
        .unwrap();
    let http = store.http();
    let asking = world
        .tasks()
        .spawn("client", async move { http.send(request).await });

    world.clock().sleep(Duration::from_secs(1)).await;
    let before = world.clock().now();
    store.stop().await;
    assert!(matches!(
        asking.output().await,
        Some(Err(HttpError::Unreachable(_)))
    ));
    assert_eq!(world.clock().now(), before);
}

#[tokio::test(start_paused = true)]
async fn two_runs_log_the_same() {
    let log = || async {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .without_time()
            .with_writer(log.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        tracing::info!("begin");
        let world = World::seeded(1);
        let store = LocalStore::in_process(&world, &keys());
        let client = Client::new(&store, &world, store.http());
        let list = client.bucket.list_objects_v2(Some(&client.credentials));
        assert_eq!(client.send(list, "").await.0, 404);
        log.text()
    };
    let first = log().await;
    assert!(first.contains("begin"));
    assert_eq!(first, log().await);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Log;
    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}
