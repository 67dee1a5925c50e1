//! What every cluster has from its first moment.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::ownership;
use crate::pipeline;
use crate::server::{Server, StartError};
use crate::user::{MASTERS, User};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates what is always there and absent yet, through the pipeline like anybody would.
pub(crate) async fn bootstrap(server: &Arc<Server>) -> Result<(), StartError> {
    for namespace in NAMESPACES {
        let object = json!({"metadata": {"name": namespace}});
        create(server, "/api/v1/namespaces", object).await?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "For pods the cluster needs, on whichever node.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "For pods a node needs, which cannot run elsewhere.",
        ),
    ] {
        let object =
            json!({"metadata": {"name": name}, "value": value, "description": description});
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", object).await?;
    }
    Ok(())
}

async fn create(server: &Arc<Server>, path: &str, object: Value) -> Result<(), StartError> {
    let user = User::new("system:apiserver", [MASTERS]);
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::USER_AGENT, ownership::SERVER)
        .body(Full::new(Bytes::from(object.to_string())))
        .expect("a request of constants is well formed");
    let response = pipeline::handle(server, Some(&user), request).await;
    // Taken: this store has been started on before.
    if matches!(response.status().as_u16(), 201 | 409) {
        return Ok(());
    }
    let Ok(body) = response.into_body().collect().await;
    let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    Err(StartError::Bootstrap {
        object: format!(
            "{path}/{}",
            object["metadata"]["name"].as_str().unwrap_or_default()
        ),
        message: answer["message"].as_str().unwrap_or_default().to_owned(),
    })
}
