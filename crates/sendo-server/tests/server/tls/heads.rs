//! A HEAD is answered like a GET, without a body, in both versions of HTTP.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::Served;
use super::connections::connect_as;

/// Paths with documents, with a text, and with a refusal.
const PATHS: [&str; 5] = [
    "/version",
    "/healthz",
    "/api",
    "/nothing",
    "/api/v1/nodes?watch=1",
];

fn request(method: &str, path: &str, token: &str) -> http::Request<Full<Bytes>> {
    http::Request::builder()
        .method(method)
        .uri(format!("https://a{path}"))
        .header("host", "a")
        .header("authorization", format!("Bearer {token}"))
        .body(Full::default())
        .unwrap()
}

/// The token in the administrator's kubeconfig.
pub(super) fn token(served: &Served) -> String {
    let config = served.serving.kubeconfig();
    let (_, token) = config.split_once("token: ").unwrap();
    token.lines().next().unwrap().to_owned()
}

macro_rules! heads_are_like_gets {
    ($served:ident, $sender:ident) => {
        let token = token(&$served);
        for path in PATHS {
            $sender.ready().await.unwrap();
            let head = $sender
                .send_request(request("HEAD", path, &token))
                .await
                .unwrap();
            let (head, body) = head.into_parts();
            let body = body
                .collect()
                .await
                .expect("nothing is sent that must not be")
                .to_bytes();
            assert_eq!(body, "", "{path}");
            if path.ends_with("watch=1") {
                continue;
            }
            $sender.ready().await.unwrap();
            let get = $sender
                .send_request(request("GET", path, &token))
                .await
                .unwrap();
            let (get, body) = get.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            if path != "/version" && path != "/api" {
                assert_eq!(head.status, get.status, "{path}");
                assert_eq!(
                    head.headers["content-length"],
                    body.len().to_string(),
                    "{path}"
                );
            }
        }
    };
}

#[tokio::test]
async fn a_head_over_http_2_has_no_body() {
    let served = Served::in_real_time().await;
    let stream = TokioIo::new(connect_as(&served.serving, b"h2").await);
    let handshake = http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = handshake.unwrap();
    let tasks = served.world.tasks();
    tasks.spawn("connection", async { drop(connection.await) });
    heads_are_like_gets!(served, sender);
    served.server.shutdown().await;
}

#[tokio::test]
async fn a_head_over_http_1_has_no_body() {
    let served = Served::in_real_time().await;
    let stream = TokioIo::new(connect_as(&served.serving, b"http/1.1").await);
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    let tasks = served.world.tasks();
    tasks.spawn("connection", async { drop(connection.await) });
    heads_are_like_gets!(served, sender);
    served.server.shutdown().await;
}
