//! Counts each request that is served, when its response has been sent.
//!
//! Requests that are refused before they reach what they are about, by authentication or
//! authorisation or because nothing is served at their path, are not counted, as in Kubernetes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go`: `MonitorRequest`, `CanonicalVerb`, `CleanVerb`,
//!   `CleanScope`, `cleanDryRun`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go`: `registerResourceHandlers`
//! - `staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go`: `InstallPathHandler`
//! - `staging/src/k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator/aggregator.go`: `register`

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{Method, Response};
use sendo_world::Moment;

use crate::catalog::Resource;
use crate::metrics::requests::{APISERVER, Labels, LongRunning, Outcome};
use crate::request::Request;
use crate::request::body::Body;
use crate::request::negotiate::{self, Discovery};
use crate::request::path::{ResourcePath, Target, Verb};
use crate::state::Server;

/// The user that the server sends requests to itself as.
const SELF: &str = "system:apiserver";

/// Subresources that lead to something else than the API.
const CONNECTS: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

/// What a request is counted as, once it is known.
#[derive(Clone, Debug, Default)]
pub(crate) enum Seen {
    /// It is not counted.
    #[default]
    Nothing,
    /// It is about a resource.
    Resource(Arc<Resource>),
    /// It is for a page of this name, which a part of the server answers.
    Page(&'static str, &'static str),
    /// It was refused because too many others are served.
    Dropped,
}

impl Seen {
    fn is_deprecated(&self) -> bool {
        matches!(self, Seen::Resource(resource) if resource.deprecation().is_some())
    }

    /// What a request for a path that names no resource is counted as.
    pub(crate) fn page(request: &Request) -> Seen {
        let aggregated = |name| match negotiate::discovery(request.accept().as_deref()) {
            Some(Discovery::Aggregated(_)) => Seen::Page(name, APISERVER),
            _ => Seen::Nothing,
        };
        match request.path.as_str() {
            "/healthz" => Seen::Page("/healthz", ""),
            "/livez" => Seen::Page("/livez", ""),
            "/readyz" => Seen::Page("/readyz", ""),
            "/openapi/v3" => Seen::Page("openapi/v3", ""),
            "/api" => aggregated("/api"),
            "/apis" => aggregated("/apis"),
            path if path.starts_with("/openapi/v3/") => Seen::Page("openapi/v3/", ""),
            _ => Seen::Nothing,
        }
    }
}

/// Counts a request: now, or when the stream that answers it ends.
pub(crate) fn monitor(
    server: &Arc<Server>,
    request: &Request,
    seen: Seen,
    began: Moment,
    response: Response<Body>,
) -> Response<Body> {
    let monitored = Monitored {
        verb: reported_verb(request),
        dry_run: dry_run(request),
        seen,
    };
    let code = response.status().as_u16();
    let labels = match monitored.seen {
        Seen::Nothing => return response,
        Seen::Dropped => {
            let requests = &server.metrics.requests;
            return with(request, &monitored, |labels| {
                requests.dropped(labels, code);
                response
            });
        }
        _ => &monitored,
    };
    let webhook_time = request.webhook_time();
    let counts_size = counts_size(request, &labels.seen);
    let whole = http_body::Body::size_hint(response.body()).exact();
    if let Some(size) = whole {
        let outcome = Outcome {
            code,
            time: server.world.clock().now() - began,
            webhook_time,
            size: counts_size.then_some(size),
        };
        let is_deprecated = labels.seen.is_deprecated();
        with(request, labels, |labels| {
            let requests = &server.metrics.requests;
            requests.observe(labels, &outcome);
            if is_deprecated {
                requests.deprecated(labels);
            }
            if request.user.name == SELF {
                requests.of_itself(labels);
            }
        });
        return response;
    }
    let long_running = (request.verb == Verb::Watch).then(|| {
        with(request, labels, |labels| {
            server.metrics.requests.lasts(labels)
        })
    });
    let counted = Counted {
        server: Arc::clone(server),
        path: match &request.target {
            Target::Resource(path) => Some(path.clone()),
            Target::Other => None,
        },
        outcome: Outcome {
            code,
            time: std::time::Duration::ZERO,
            webhook_time,
            size: counts_size.then_some(0),
        },
        began,
        _long_running: long_running,
        monitored: Monitored {
            dry_run: Cow::Owned(monitored.dry_run.into_owned()),
            ..monitored
        },
    };
    response.map(|body| Body::stream(counted.count(body.into_stream())))
}

/// A request that is counted.
struct Monitored<'a> {
    verb: &'static str,
    dry_run: Cow<'a, str>,
    seen: Seen,
}

/// Calls `observe` with the labels of a request.
fn with<R>(
    request: &Request,
    monitored: &Monitored<'_>,
    observe: impl FnOnce(&Labels<'_>) -> R,
) -> R {
    match &request.target {
        Target::Resource(path) => observe(&labels(monitored, Some(path))),
        Target::Other => observe(&labels(monitored, None)),
    }
}

fn labels<'a>(monitored: &'a Monitored<'_>, path: Option<&'a ResourcePath>) -> Labels<'a> {
    let base = Labels {
        verb: monitored.verb,
        dry_run: &monitored.dry_run,
        component: APISERVER,
        ..Labels::default()
    };
    match (&monitored.seen, path) {
        (Seen::Resource(_) | Seen::Dropped, Some(path)) => Labels {
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            scope: scope(path, monitored.verb == "POST"),
            ..base
        },
        (Seen::Page(name, component), _) => Labels {
            subresource: name,
            component,
            ..base
        },
        _ => base,
    }
}

/// What a request is about: one object, a namespace's objects, or the cluster's.
fn scope(path: &ResourcePath, creates: bool) -> &'static str {
    let is_set = |part: &Option<String>| part.as_deref().is_some_and(|part| !part.is_empty());
    if is_set(&path.name) || creates {
        "resource"
    } else if is_set(&path.namespace) {
        "namespace"
    } else {
        "cluster"
    }
}

/// The verb that a request is counted under, which is mostly its method.
pub(crate) fn reported_verb(request: &Request) -> &'static str {
    let path = match &request.target {
        Target::Resource(path) => Some(path),
        Target::Other => None,
    };
    let connects = |path: &ResourcePath| {
        let subresource = path.subresource.as_deref();
        subresource.is_some_and(|name| CONNECTS.contains(&name))
    };
    if path.is_some_and(connects) {
        return "CONNECT";
    }
    if request.verb == Verb::Watch {
        return "WATCH";
    }
    match request.method {
        Method::GET | Method::HEAD => match path {
            Some(path) if scope(path, false) != "resource" => "LIST",
            _ => "GET",
        },
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH if request.header(CONTENT_TYPE) == "application/apply-patch+yaml" => "APPLY",
        Method::PATCH => "PATCH",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

fn dry_run(request: &Request) -> Cow<'_, str> {
    let mut values = request.query.all("dryRun");
    let Some(first) = values.next() else {
        return Cow::Borrowed("");
    };
    match first == "All" && values.all(|value| value == "All") {
        true => Cow::Borrowed("All"),
        false => Cow::Borrowed("invalid"),
    }
}

/// Whether the bytes of the response are counted: those of reads, and of watches where they are
/// requested like a list.
fn counts_size(request: &Request, seen: &Seen) -> bool {
    let Seen::Resource(resource) = seen else {
        return matches!(seen, Seen::Page(..));
    };
    let is_old_path = matches!(&request.target, Target::Resource(path) if path.prefix.is_some());
    match request.verb {
        Verb::Get | Verb::List => true,
        Verb::Watch => resource.custom.is_none() && !is_old_path,
        _ => false,
    }
}

/// A request whose response is a stream. It is counted when that ends, or when the client
/// has left.
struct Counted {
    server: Arc<Server>,
    monitored: Monitored<'static>,
    path: Option<ResourcePath>,
    outcome: Outcome,
    began: Moment,
    _long_running: Option<LongRunning>,
}

impl Counted {
    fn count(self, body: impl Stream<Item = Bytes> + Send + 'static) -> impl Stream<Item = Bytes> {
        let mut counted = self;
        body.inspect(move |bytes| {
            // The whole of it moves here, not a copy of its size.
            let counted = &mut counted;
            if let Some(size) = &mut counted.outcome.size {
                *size += bytes.len() as u64;
            }
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.outcome.time = self.server.world.clock().now() - self.began;
        let labels = labels(&self.monitored, self.path.as_ref());
        let requests = &self.server.metrics.requests;
        requests.observe(&labels, &self.outcome);
        if self.monitored.seen.is_deprecated() {
            requests.deprecated(&labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(line: &str, media_type: &str) -> &'static str {
        let (method, uri) = line.split_once(' ').unwrap();
        let builder = http::Request::builder().method(method).uri(uri);
        let builder = builder.header(CONTENT_TYPE, media_type);
        reported_verb(&Request::new(&builder.body(()).unwrap().into_parts().0))
    }

    #[test]
    fn a_request_is_counted_under_its_method_or_what_is_more_precise() {
        let json = "application/json";
        assert_eq!(verb("GET /api/v1/nodes", json), "LIST");
        assert_eq!(verb("GET /api/v1/nodes/a", json), "GET");
        assert_eq!(verb("HEAD /api/v1/namespaces/a/pods", json), "LIST");
        assert_eq!(verb("GET /api/v1/nodes?watch=1", json), "WATCH");
        assert_eq!(verb("GET /api/v1/watch/nodes", json), "WATCH");
        assert_eq!(verb("DELETE /api/v1/nodes", json), "DELETE");
        assert_eq!(verb("PATCH /api/v1/nodes/a", json), "PATCH");
        let apply = "application/apply-patch+yaml";
        assert_eq!(verb("PATCH /api/v1/nodes/a", apply), "APPLY");
        let exec = "POST /api/v1/namespaces/a/pods/b/exec";
        assert_eq!(verb(exec, json), "CONNECT");
        assert_eq!(verb("BREW /api/v1/nodes", json), "other");
        assert_eq!(verb("GET /healthz", json), "GET");
    }
}
