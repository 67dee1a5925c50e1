//! Requests for another protocol, which are for the API server that an APIService names.

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Served;
use super::aggregated::aggregate;
use super::connections::connect_as;
use super::heads::token;

/// What the other server answers a request for another protocol: that it agrees, but for the paths
/// `refused` and `ignored`.
pub(super) fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if path.ends_with("/refused") {
        let mut response = Response::new(Full::from("not today"));
        *response.status_mut() = StatusCode::FORBIDDEN;
        return response;
    }
    if path.ends_with("/ignored") {
        return Response::new(Full::from("just a page"));
    }
    let headers = request.headers();
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, &headers[UPGRADE])
        .header("x-user", &headers["x-remote-user"])
        .header("x-version", format!("{:?}", request.version()))
        .header("x-query", request.uri().query().unwrap_or_default())
        .header(
            "x-authorized",
            headers.contains_key("authorization").to_string(),
        )
        .body(Full::default())
        .unwrap()
}

/// What it says then: at `/greeting` a word, and it hangs up; elsewhere it repeats what it hears.
pub(super) async fn speak(path: &str, client: Upgraded) -> std::io::Result<()> {
    let mut client = TokioIo::new(client);
    if path.ends_with("/greeting") {
        client.write_all(b"welcome").await?;
        return client.shutdown().await;
    }
    let (mut reads, mut writes) = tokio::io::split(client);
    tokio::io::copy(&mut reads, &mut writes).await?;
    writes.shutdown().await
}

/// Asks for another protocol at a path below the other server's version.
async fn ask(served: &Served, path: &str) -> Response<Incoming> {
    let stream = TokioIo::new(connect_as(&served.serving, b"http/1.1").await);
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    let connection = connection.with_upgrades();
    let tasks = served.world.tasks();
    tasks.spawn("connection", async { drop(connection.await) });
    let request = Request::get(format!("/apis/remote.dev/v1/{path}"))
        .header("host", "a")
        .header("authorization", format!("Bearer {}", token(served)))
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "echo/1")
        .body(Full::<Bytes>::default());
    sender.send_request(request.unwrap()).await.unwrap()
}

/// The connection of a response that says that it is no longer HTTP.
async fn upgraded(response: Response<Incoming>) -> TokioIo<Upgraded> {
    assert_eq!(response.status(), 101);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

async fn served() -> Served {
    let served = Served::in_real_time().await;
    aggregate(&served, &served.client().await).await;
    served
}

#[tokio::test]
async fn bytes_go_both_ways_after_an_upgrade() {
    let served = served().await;
    let response = ask(&served, "echo?a=b").await;
    for (name, expected) in [
        ("connection", "Upgrade"),
        ("upgrade", "echo/1"),
        ("x-user", "kubernetes-admin"),
        ("x-version", "HTTP/1.1"),
        ("x-query", "a=b"),
        ("x-authorized", "false"),
    ] {
        assert_eq!(response.headers()[name], expected, "{name}");
    }
    let mut connection = upgraded(response).await;
    for word in ["ping", "pong"] {
        connection.write_all(word.as_bytes()).await.unwrap();
        let mut heard = [0; 4];
        connection.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, word.as_bytes());
    }
    // More than any buffer on the way holds.
    let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i % 251) as u8).collect();
    let (mut reads, mut writes) = tokio::io::split(connection);
    let mut heard = vec![0; sent.len()];
    let (written, read) = futures::join!(writes.write_all(&sent), reads.read_exact(&mut heard));
    written.unwrap();
    read.unwrap();
    assert!(heard == sent);
    served.server.shutdown().await;
    served.world.tasks().stop().await;
}

#[tokio::test]
async fn both_connections_end_when_one_side_does() {
    let served = served().await;
    let mut connection = upgraded(ask(&served, "greeting").await).await;
    let mut heard = String::new();
    connection.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "welcome");
    // The other server waits for what the client says, and hears that it has gone.
    let mut connection = upgraded(ask(&served, "echo").await).await;
    connection.write_all(b"x").await.unwrap();
    connection.read_u8().await.unwrap();
    connection.shutdown().await.unwrap();
    let read = connection.read(&mut [0]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    served.server.shutdown().await;
    served.world.tasks().stop().await;
}

#[tokio::test]
async fn an_upgraded_connection_is_cut_when_the_server_stops() {
    let served = served().await;
    let mut connection = upgraded(ask(&served, "echo").await).await;
    connection.write_all(b"x").await.unwrap();
    connection.read_u8().await.unwrap();
    served.server.shutdown().await;
    let read = connection.read(&mut [0]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    served.world.tasks().stop().await;
}

#[tokio::test]
async fn the_answer_of_a_server_that_does_not_upgrade_is_told() {
    let served = served().await;
    for (path, code, text) in [
        ("refused", 403, "not today"),
        (
            "ignored",
            503,
            "invalid upgrade response: status code 200\n",
        ),
    ] {
        let response = ask(&served, path).await;
        assert_eq!(response.status(), code, "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, text, "{path}");
    }
    served.server.shutdown().await;
    served.world.tasks().stop().await;
}
