//! The agents of the nodes, as the API server asks them: the paths of a kubelet.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/server/server.go`: `getContainerLogs`

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sendo_node::{LogOptions, NodeApi};
use sendo_server::{ApiServer, Body, LocalService};
use sendo_world::{Clock, Timestamp};

/// Has requests for a node answered by its agent, for as long as the returned value is kept.
pub(crate) fn serve(server: &ApiServer, node: &str, api: NodeApi, clock: Clock) -> LocalService {
    let client = kube::Client::new(server.client_service(), "default");
    let agent = NodeAgent { api, client, clock };
    let services = server.local_services();
    services.register_node_agent(node, move |request| {
        let agent = agent.clone();
        async move { agent.answer(request).await }
    })
}

#[derive(Clone)]
struct NodeAgent {
    api: NodeApi,
    client: kube::Client,
    clock: Clock,
}

impl NodeAgent {
    async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
        let ["containerLogs", namespace, pod, container] = path[..] else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned());
        };
        let options = log_options(request.uri().query().unwrap_or_default(), self.clock.wall());
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = match pods.get(pod).await {
            Ok(pod) => pod,
            Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        match self.api.log(&pod, container, options, &self.clock) {
            Ok(log) => {
                let pieces = log.filter(|piece| futures::future::ready(!piece.is_empty()));
                respond(StatusCode::OK, Body::stream(pieces.map(Bytes::from)))
            }
            Err(why) => text(StatusCode::BAD_REQUEST, why),
        }
    }
}

fn text(code: StatusCode, text: String) -> Response<Body> {
    respond(code, Bytes::from(text).into())
}

fn respond(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// What the query asks for. The API server has checked it, and resolved what was escaped.
fn log_options(query: &str, now: Timestamp) -> LogOptions {
    let mut options = LogOptions::default();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let holds = value == "true";
        let number = value.parse::<usize>().ok();
        match name {
            "follow" => options.follow = holds,
            "previous" => options.previous = holds,
            "timestamps" => options.timestamps = holds,
            "tailLines" => options.tail = number,
            "limitBytes" => options.limit_bytes = number,
            "sinceSeconds" => {
                let seconds = value.parse().ok().map(std::time::Duration::from_secs);
                options.since = seconds.map(|seconds| now - seconds);
            }
            "sinceTime" => options.since = value.parse().ok(),
            _ => {}
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_the_query() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let query = "follow=true&tailLines=5&timestamps=false&limitBytes=10&sinceSeconds=60";
        let options = LogOptions {
            follow: true,
            tail: Some(5),
            limit_bytes: Some(10),
            since: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            ..LogOptions::default()
        };
        assert_eq!(log_options(query, now), options);
        let since = log_options("previous=true&sinceTime=2026-01-01T00:00:30Z", now);
        assert_eq!(since.since, Some("2026-01-01T00:00:30Z".parse().unwrap()));
        assert!(since.previous);
    }
}
