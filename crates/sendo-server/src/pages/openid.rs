//! OpenID Connect discovery: the issuer and public keys with which other programs verify tokens of
//! this cluster.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/serviceaccount/openidmetadata.go`: `openIDConfigJSON`, `openIDKeysetJSON`
//! - `pkg/routes/openidmetadata.go`

use http::{Method, StatusCode};
use sendo_apimachinery::Status;
use serde_json::{Value, json};

use crate::access::tokens::ISSUER;
use crate::read::answer::{self, ApiResponse};
use crate::request::Request;
use crate::state::Server;

const JSON: &str = "application/json";
const KEYS: &str = "application/jwk-set+json";

/// `/.well-known/openid-configuration`.
pub(crate) async fn configuration(
    server: &Server,
    request: &Request,
) -> Result<ApiResponse, Status> {
    check(request, JSON)?;
    let key = server.access.credentials.key().await?;
    let document = json!({
        "issuer": ISSUER,
        "jwks_uri": format!("{}/openid/v1/jwks", address(request)),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [key.algorithm()],
    });
    Ok(typed(JSON, &document))
}

/// `/openid/v1/jwks`.
pub(crate) async fn keys(server: &Server, request: &Request) -> Result<ApiResponse, Status> {
    check(request, KEYS)?;
    let key = server.access.credentials.key().await?;
    Ok(typed(KEYS, &json!({"keys": [key.public()]})))
}

/// The address at which the client reached this server.
fn address(request: &Request) -> String {
    match request.header(http::header::HOST) {
        "" => ISSUER.to_owned(),
        host => format!("https://{host}"),
    }
}

fn typed(media_type: &'static str, document: &Value) -> ApiResponse {
    ApiResponse::Typed(StatusCode::OK, media_type, answer::to_bytes(document))
}

fn check(request: &Request, media_type: &str) -> Result<(), Status> {
    if request.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let accept = request.accept().unwrap_or_default();
    let mut named = accept
        .split(',')
        .filter_map(|clause| clause.split(';').next())
        .map(str::trim);
    if accept.is_empty() || named.any(|own| own == "*/*" || own == media_type) {
        return Ok(());
    }
    Err(Status::not_acceptable(&[media_type]))
}
