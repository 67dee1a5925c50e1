//! Forwards a client's request to the server of its version.
//!
//! The response is passed on as it comes, so that a watch is one. A request's body is read
//! first, with the limit that all have. A request that asks for another protocol is for
//! [`upgrade`](super::upgrade).
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go`: `proxyHandler`
//! - `staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go`: `ServeHTTP`
//! - `staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go`: `RoundTrip`
//! - `staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go`: `NewRequestForProxy`
//! - `staging/src/k8s.io/apiserver/pkg/server/filters/timeout.go`: `WithTimeoutForNonLongRunningRequests`
//! - `$GOROOT/src/net/http/httputil/reverseproxy.go`: `ServeHTTP`, `removeHopByHopHeaders`

use std::time::Duration;

use futures::StreamExt;
use http::header::{
    self, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION,
};
use http::uri::PathAndQuery;
use http::{Method, Response, StatusCode};
use sendo_apimachinery::Status;

use super::upgrade::upgrade;
use super::{Outgoing, Route, RouteError, Versions, remove_where, set_user};
use crate::catalog::remote::RemoteVersion;
use crate::read::answer::ApiResponse;
use crate::request::Request;
use crate::request::body::Body;
use crate::request::in_flight::lasts;
use crate::request::path::Target;
use crate::state::Server;

/// How long a request may take that does not last as long as its client wants.
const LIMIT: Duration = Duration::from_secs(60);
/// How long discovery of a version may take.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(5);

/// Headers about a connection, which are not passed on.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Forwards a request whose user is known and allowed, and passes the response on.
pub(crate) async fn forward(
    server: &Server,
    request: &Request,
    remote: &RemoteVersion,
) -> Result<ApiResponse, Status> {
    if !remote.is_available {
        return Ok(ApiResponse::unavailable());
    }
    if request.asks_for_upgrade() {
        return upgrade(server, request, remote).await;
    }
    let clock = server.world.clock();
    let until = limit(request).0.map(|limit| clock.now() + limit);
    let response = match in_time(server, request, send(server, request, remote)).await? {
        Ok(response) => pass_on(response),
        Err(answer) => return Ok(answer),
    };
    let Some(until) = until else {
        return Ok(ApiResponse::Forwarded(Box::new(response)));
    };
    // What comes too late is cut off.
    let clock = clock.clone();
    let late = Box::pin(async move { clock.sleep_until(until).await });
    let response = match http_body::Body::is_end_stream(response.body()) {
        true => response,
        false => response.map(|body| Body::stream(body.into_stream().take_until(late))),
    };
    Ok(ApiResponse::Forwarded(Box::new(response)))
}

/// What `sending` gives within the time that the response may take, or what the client is
/// answered instead.
pub(super) async fn in_time<T>(
    server: &Server,
    request: &Request,
    sending: impl Future<Output = Result<T, ApiResponse>>,
) -> Result<Result<T, ApiResponse>, Status> {
    let (limit, is_discovery) = limit(request);
    let sent = match limit {
        Some(limit) => server.world.clock().timeout(limit, sending).await,
        None => Some(sending.await),
    };
    match sent {
        Some(sent) => Ok(sent),
        None if is_discovery => Ok(Err(unreachable("context deadline exceeded"))),
        None => Err(Status::timeout(
            "request did not complete within the allotted timeout",
            0,
        )),
    }
}

/// How long the response may take, and whether the request is one of discovery.
fn limit(request: &Request) -> (Option<Duration>, bool) {
    let segments = request.path.trim_matches('/').split('/').count();
    match &request.target {
        Target::Other if segments == 3 => (Some(DISCOVERY_LIMIT), true),
        _ if lasts(request) => (None, false),
        _ => (Some(LIMIT), false),
    }
}

/// Sends the request, and gives the response, or what the client is answered instead.
async fn send(
    server: &Server,
    request: &Request,
    remote: &RemoteVersion,
) -> Result<Response<Body>, ApiResponse> {
    let route = route(server, remote, Versions::All).await?;
    let outgoing = Outgoing {
        method: request.method.clone(),
        path: &path_of(request),
        headers: headers(request, &route),
        body: request.body.clone(),
    };
    let sent = route.send(outgoing).await;
    sent.map_err(|why| unreachable(&why))
}

/// The way to the other server, or what the client is answered if there is none.
pub(super) async fn route(
    server: &Server,
    remote: &RemoteVersion,
    versions: Versions,
) -> Result<Route, ApiResponse> {
    match Route::to(&server.outbound, &remote.backend, versions).await {
        Ok(route) => Ok(route),
        Err(RouteError::Resolve(reason)) => {
            let api_service = remote.api_service();
            tracing::warn!(api_service, reason, "a request cannot be forwarded");
            Err(ApiResponse::unavailable())
        }
        Err(RouteError::Transport(why)) => Err(error(StatusCode::INTERNAL_SERVER_ERROR, &why)),
    }
}

/// Path and query of a request.
pub(super) fn path_of(request: &Request) -> PathAndQuery {
    let path = request.uri.path_and_query().cloned();
    path.unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// The headers of a request as the other server is to see them.
fn headers(request: &Request, route: &Route) -> HeaderMap {
    let mut headers = request.headers.clone();
    remove_hop_by_hop(&mut headers);
    identify(&mut headers, request);
    let value = |text: &str| HeaderValue::from_str(text).ok();
    if let (Some(path), Some(host)) = (value(request.uri.path()), value(&route.authority)) {
        headers.insert(FORWARDED_URI, path);
        headers.insert(FORWARDED_HOST, host);
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
    }
    headers
}

/// Says in the headers whose request it is and where it came from, which has been found out.
pub(super) fn identify(headers: &mut HeaderMap, request: &Request) {
    remove_where(headers, |name| {
        [AUTHORIZATION, HOST, CONTENT_LENGTH].contains(name)
            || name.as_str().starts_with("impersonate-")
    });
    set_user(headers, &request.user);
    let Some(peer) = request.peer else {
        return;
    };
    let before = headers.get_all(FORWARDED_FOR).iter();
    let before = before.filter_map(|value| value.to_str().ok().map(str::to_owned));
    let chain: Vec<String> = before.chain([peer.to_string()]).collect();
    if let Ok(chain) = HeaderValue::from_str(&chain.join(", ")) {
        headers.insert(FORWARDED_FOR, chain);
    }
}

/// Removes what is about a connection, and what the header `Connection` says is.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let values = headers.get_all(CONNECTION).iter();
    let named: Vec<String> = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    remove_where(headers, |name| {
        HOP_BY_HOP.contains(name) || named.iter().any(|named| named == name.as_str())
    });
}

/// A response as the client is to see it.
pub(super) fn pass_on(response: Response<Body>) -> Response<Body> {
    if response.status().is_redirection() && response.headers().contains_key(LOCATION) {
        let text = "the backend attempted to redirect this request, which is not permitted";
        let mut refusal = Response::new(Body::from(text));
        *refusal.status_mut() = StatusCode::BAD_GATEWAY;
        return refusal;
    }
    let (head, body) = response.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    remove_hop_by_hop(response.headers_mut());
    response
}

/// What Go's `http.Error` answers.
pub(super) fn error(code: StatusCode, text: &str) -> ApiResponse {
    ApiResponse::Text(code, format!("{text}\n"))
}

fn unreachable(why: &str) -> ApiResponse {
    let text = format!("error trying to reach service: {why}");
    error(StatusCode::SERVICE_UNAVAILABLE, &text)
}

/// Whether a request with this method may have a body that is to be forwarded.
pub(crate) fn may_have_a_body(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn headers_of_a_connection_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("accept", "application/json"),
        ] {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        remove_hop_by_hop(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
    }

    #[test]
    fn a_redirection_is_refused() {
        let response = Response::builder()
            .status(302)
            .header(LOCATION, "https://elsewhere.example")
            .body(Body::from(Bytes::new()));
        assert_eq!(pass_on(response.unwrap()).status(), 502);
        let unchanged = Response::builder().status(304).body(Body::empty());
        assert_eq!(pass_on(unchanged.unwrap()).status(), 304);
    }
}
