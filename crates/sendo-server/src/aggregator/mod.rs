//! Sends requests to other API servers, those that APIServices name.
//!
//! [`forward`](forward::forward) passes on a client's request, [`Get`] is one of this server's
//! own. Either way the other server is told whose request it is (`X-Remote-User` and the
//! like), and believes it because of the certificate that is shown to it: one of the front
//! proxy's authority, which is in the ConfigMap `extension-apiserver-authentication`.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/status/remote/remote_available_controller.go`: `BuildTransportConfig`
//! - `staging/src/k8s.io/client-go/transport/round_trippers.go`: `SetAuthProxyHeaders`, `headerKeyEscape`

pub(crate) mod forward;
mod upgrade;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use sendo_world::Clock;

use crate::catalog::remote::Backend;
use crate::outbound::{Client, Found, Outbound, Tls, Trust, failure_text};
use crate::request::body::Body;
use crate::request::user::User;

/// How many bytes a document of another server may have.
const DOCUMENT_LIMIT: usize = 64 << 20;

/// Why there is no way to another server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RouteError {
    /// Its certificate cannot be verified with what the APIService says.
    #[error("{0}")]
    Transport(String),
    /// Its Service leads nowhere.
    #[error("{0}")]
    Resolve(String),
}

/// The way to one endpoint of another server.
pub(crate) struct Route {
    /// Host and port.
    pub(crate) authority: String,
    via: Via,
}

/// Which versions of HTTP may be spoken with another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    All,
    /// The one whose connections can become another protocol.
    Http1,
}

enum Via {
    /// It is a service of this process.
    Local(Found),
    Network(Box<Client>),
}

/// A request to another server.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Route {
    /// The way to an endpoint of `backend`.
    pub(crate) async fn to(
        outbound: &Outbound,
        backend: &Backend,
        versions: Versions,
    ) -> Result<Route, RouteError> {
        let host = backend.host();
        if let Some(service) = outbound.local().find(&host, backend.port) {
            return Ok(Route {
                authority: format!("{host}:{}", backend.port),
                via: Via::Local(service),
            });
        }
        let client = outbound.client(&Tls {
            server_name: &host,
            http2: versions == Versions::All,
            trust: match backend.is_insecure {
                true => Trust::Anything,
                false => Trust::Bundle(&backend.ca_bundle),
            },
            as_front_proxy: true,
        });
        let client = client.map_err(RouteError::Transport)?;
        let resolved = outbound.resolve(&backend.namespace, &backend.name, backend.port);
        Ok(Route {
            authority: resolved.await.map_err(RouteError::Resolve)?,
            via: Via::Network(Box::new(client)),
        })
    }

    /// Sends a request, and returns the response when that begins. The error is in the words
    /// of Go.
    pub(crate) async fn send(&self, outgoing: Outgoing<'_>) -> Result<Response<Body>, String> {
        let request = self.request(outgoing)?;
        match &self.via {
            Via::Local(service) => {
                let response = service.call(request).await;
                response.ok_or_else(|| "EOF".to_owned())
            }
            Via::Network(client) => match client.request(request.map(Full::new)).await {
                Ok(response) => Ok(response.map(Body::received)),
                Err(error) => Err(failure_text(&error)),
            },
        }
    }

    /// Sends a request for another protocol, and returns the response when that begins; its
    /// connection can be had if it is a 101. The error is in the words of Go.
    pub(crate) async fn upgrade(
        &self,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<Incoming>, String> {
        let request = self.request(outgoing)?;
        let Via::Network(client) = &self.via else {
            return Err("a service of this process has no connection to upgrade".to_owned());
        };
        let sent = client.request(request.map(Full::new)).await;
        sent.map_err(|error| match error.is_connect() {
            true => format!("error dialing backend: {}", failure_text(&error)),
            false => failure_text(&error),
        })
    }

    fn request(&self, outgoing: Outgoing<'_>) -> Result<Request<Bytes>, String> {
        let mut request = Request::new(outgoing.body);
        *request.method_mut() = outgoing.method;
        *request.headers_mut() = outgoing.headers;
        let uri = format!("https://{}{}", self.authority, outgoing.path);
        *request.uri_mut() = uri
            .parse()
            .map_err(|error| format!("parse {uri:?}: {error}"))?;
        Ok(request)
    }
}

const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_UID: HeaderName = HeaderName::from_static("x-remote-uid");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const REMOTE_EXTRA: &str = "x-remote-extra-";

/// Says whose request it is, in place of what the headers say about that.
pub(crate) fn set_user(headers: &mut HeaderMap, user: &User) {
    remove_where(headers, |name| {
        [REMOTE_USER, REMOTE_UID, REMOTE_GROUP].contains(name)
            || name.as_str().starts_with(REMOTE_EXTRA)
    });
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).ok();
    if let Some(name) = value(&user.name) {
        headers.insert(REMOTE_USER, name);
    }
    if let Some(uid) = value(&user.uid).filter(|uid| !uid.is_empty()) {
        headers.insert(REMOTE_UID, uid);
    }
    for group in user.groups.iter().filter_map(|group| value(group)) {
        headers.append(REMOTE_GROUP, group);
    }
    for (key, values) in &user.extra {
        let name = format!("{REMOTE_EXTRA}{}", escape_header_key(key));
        let Ok(name) = HeaderName::try_from(name) else {
            continue;
        };
        for value in values.iter().filter_map(|text| value(text)) {
            headers.append(name.clone(), value);
        }
    }
}

fn remove_where(headers: &mut HeaderMap, is_wanted: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_wanted(name))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// Escapes what a header's name cannot have, and `%`, as in a URL.
fn escape_header_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// A GET that this server sends itself.
#[derive(Clone, Debug)]
pub(crate) struct Get<'a> {
    pub(crate) path: &'a str,
    pub(crate) accept: &'static str,
    pub(crate) user: &'a User,
    /// How long it may take until the whole response is there.
    pub(crate) limit: Duration,
}

impl Get<'_> {
    /// Sends it over `route`, and reads the whole response.
    ///
    /// # Errors
    /// In the words of Go's HTTP client: `Get "https://…": …`.
    pub(crate) async fn send(
        &self,
        route: &Route,
        clock: &Clock,
    ) -> Result<Response<Bytes>, String> {
        let path = PathAndQuery::try_from(self.path).map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(self.accept));
        set_user(&mut headers, self.user);
        let outgoing = Outgoing {
            method: Method::GET,
            path: &path,
            headers,
            body: Bytes::new(),
        };
        let received = clock.timeout(self.limit, async {
            let (head, body) = route.send(outgoing).await?.into_parts();
            let body = Limited::new(body, DOCUMENT_LIMIT).collect().await;
            let body = body.map_err(|error| error.to_string())?;
            Ok(Response::from_parts(head, body.to_bytes()))
        });
        let received = received
            .await
            .unwrap_or_else(|| Err(OUT_OF_TIME.to_owned()));
        received.map_err(|reason| format!("Get \"https://{}{path}\": {reason}", route.authority))
    }
}

const OUT_OF_TIME: &str =
    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_request_replaces_what_its_headers_claim() {
        let mut headers = HeaderMap::new();
        for name in [
            "x-remote-user",
            "x-remote-group",
            "x-remote-extra-scopes",
            "x-remote-uid",
        ] {
            headers.insert(name, HeaderValue::from_static("forged"));
        }
        headers.insert("x-other", HeaderValue::from_static("kept"));
        let mut user = User::new("jürgen", ["devs"]);
        let scopes = vec!["a".to_owned(), "b".to_owned()];
        user.extra.insert("example.com/scopes".to_owned(), scopes);
        set_user(&mut headers, &user);
        let all = |name: &str| {
            let values = headers.get_all(name).iter();
            let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(all("x-remote-user"), ["jürgen"]);
        assert_eq!(all("x-remote-group"), ["devs", "system:authenticated"]);
        assert_eq!(all("x-remote-extra-example.com%2Fscopes"), ["a", "b"]);
        assert!(all("x-remote-uid").is_empty() && all("x-remote-extra-scopes").is_empty());
        assert_eq!(all("x-other"), ["kept"]);
    }
}
