//! An API server on a free loopback port, with a kubeconfig written to the path given:
//!
//! ```text
//! cargo run -p sendo-server --example serve -- /tmp/kubeconfig
//! kubectl --kubeconfig /tmp/kubeconfig get namespaces
//! ```
//!
//! No controllers run beside it, so the two objects that every new namespace
//! gets from them (`default` ServiceAccount, `kube-root-ca.crt`) are made here.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use sendo_server::{ApiServer, Authority, Caller, Options};
use sendo_store::Memory;
use sendo_world::World;
use serde_json::{Value, json};
use tower::ServiceExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("give the path of the kubeconfig to write")?;
    let world = World::real();
    let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
    let options = Options {
        require_service_accounts: true,
        ..Options::new(store, world.clone())
    };
    let server = ApiServer::start(options).await?;
    let authority = Authority::new(world.clock().wall())?;
    let serving = server.serve(([127, 0, 0, 1], 0).into(), authority).await?;
    write_private(&path, &serving.kubeconfig())?;
    println!(
        "listening on https://{}, kubeconfig in {path}",
        serving.address()
    );

    let caller = server.client_service();
    for node in ["node-0", "node-1"] {
        post(
            &caller,
            "/api/v1/nodes",
            json!({"metadata": {"name": node}}),
        )
        .await;
    }
    furnish_namespaces(caller, serving.authority().pem()).await;
    Ok(())
}

/// Puts into every namespace what controllers would.
async fn furnish_namespaces(caller: Caller, authority: String) {
    loop {
        let request =
            http::Request::get("/api/v1/namespaces?watch=1").body(Full::<Bytes>::default());
        let Ok(response) = caller.clone().oneshot(request.expect("a constant")).await;
        let mut body = response.into_body();
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.into_data().unwrap_or_default();
            for line in bytes
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                let event: Value = serde_json::from_slice(line).expect("events are JSON");
                if event["type"] == "ADDED" {
                    let name = event["object"]["metadata"]["name"]
                        .as_str()
                        .unwrap_or_default();
                    let root = format!("/api/v1/namespaces/{name}");
                    post(
                        &caller,
                        &format!("{root}/serviceaccounts"),
                        json!({"metadata": {"name": "default"}}),
                    )
                    .await;
                    let map = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority}});
                    post(&caller, &format!("{root}/configmaps"), map).await;
                }
            }
        }
    }
}

/// Writes a new file that only its owner can read: it holds the administrator's key.
fn write_private(path: &str, content: &str) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content.as_bytes())
}

async fn post(caller: &Caller, path: &str, object: Value) {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(object.to_string())))
        .expect("a path and an object");
    let Ok(response) = caller.clone().oneshot(request).await;
    if !response.status().is_success() {
        eprintln!("{path}: {}", response.status());
    }
}
