//! Forwards a request that asks for another protocol, such as WebSocket or SPDY.
//!
//! The other server is asked over a connection of its own, with HTTP/1.1. If it agrees, both
//! connections are joined; what it says else is passed on.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go`: `tryUpgrade`
//! - `staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go`: `proxyHandler`, `responder`

use http::{Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use sendo_apimachinery::Status;

use super::forward::{error, identify, in_time, pass_on, path_of, route};
use super::{Outgoing, Versions};
use crate::catalog::remote::RemoteVersion;
use crate::read::answer::ApiResponse;
use crate::request::Request;
use crate::request::body::Body;
use crate::state::Server;

/// Forwards the request, and joins the connections if the other server agrees.
pub(super) async fn upgrade(
    server: &Server,
    request: &Request,
    remote: &RemoteVersion,
) -> Result<ApiResponse, Status> {
    let Some(connection) = &request.upgrade else {
        let text = "only a connection of HTTP/1.1 can be upgraded to another protocol";
        return Ok(error(StatusCode::NOT_IMPLEMENTED, text));
    };
    let asked = in_time(server, request, ask(server, request, remote)).await?;
    let (response, upgraded) = match asked {
        Ok(asked) => asked,
        Err(answer) => return Ok(answer),
    };
    let Some(upgraded) = upgraded else {
        let response = pass_on(response.map(Body::received));
        return Ok(ApiResponse::Forwarded(Box::new(response)));
    };
    connection.arrange(upgraded);
    // The headers about the connection are those of the new protocol.
    let response = response.map(|_| Body::empty());
    Ok(ApiResponse::Forwarded(Box::new(response)))
}

/// What the other server says, and its connection if it agrees; or what the client is answered.
async fn ask(
    server: &Server,
    request: &Request,
    remote: &RemoteVersion,
) -> Result<(Response<Incoming>, Option<Upgraded>), ApiResponse> {
    let route = route(server, remote, Versions::Http1).await?;
    let mut headers = request.headers.clone();
    identify(&mut headers, request);
    let outgoing = Outgoing {
        method: request.method.clone(),
        path: &path_of(request),
        headers,
        body: request.body.clone(),
    };
    let unavailable = |why: String| error(StatusCode::SERVICE_UNAVAILABLE, &why);
    let mut response = route.upgrade(outgoing).await.map_err(unavailable)?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            let upgraded = hyper::upgrade::on(&mut response).await;
            let upgraded = upgraded.map_err(|error| unavailable(error.to_string()))?;
            Ok((response, Some(upgraded)))
        }
        code if code.as_u16() < 400 => Err(unavailable(format!(
            "invalid upgrade response: status code {}",
            code.as_u16()
        ))),
        _ => Ok((response, None)),
    }
}
