//! What every cluster has from its first moment.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use sendo_apimachinery::Status;
use serde_json::json;

use crate::pipeline;
use crate::server::{Server, StartError};
use crate::user::User;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates the namespaces that are always there, through the pipeline like anybody would.
pub(crate) async fn namespaces(server: &Arc<Server>) -> Result<(), StartError> {
    let user = User::new("system:apiserver", [crate::user::MASTERS]);
    for namespace in NAMESPACES {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let request = http::Request::post("/api/v1/namespaces")
            .header(http::header::USER_AGENT, "sendo")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a request of constants is well formed");
        let response = pipeline::handle(server, Some(&user), request).await;
        let code = response.status().as_u16();
        // Taken: this store has been started on before.
        if code != 201 && code != 409 {
            let status = Status::new(
                code,
                sendo_apimachinery::status::Reason::Unknown,
                format!("{:?}", response.body()),
            );
            return Err(StartError::Namespace { namespace, status });
        }
    }
    Ok(())
}
