//! `metrics.k8s.io`, as the metrics server of Kubernetes serves it, in this process.
//!
//! Simulated containers use what their pods say ([`sendo_node::usage`]). The API server calls this
//! one through its aggregator, as any other that an APIService names: `kubectl top` and autoscalers
//! see no difference.
//!
//! Follows the metrics server 0.8: `pkg/api/pod.go`, `pkg/api/node.go`, its manifests.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, ObjectList, PostParams};
use sendo_node::usage::{self, Usage};
use sendo_server::{ApiServer, LocalService, User};
use sendo_world::World;
use serde_json::{Value, json};

use crate::identities;

const GROUP_VERSION: &str = "metrics.k8s.io/v1beta1";
const API_SERVICE: &str = "v1beta1.metrics.k8s.io";
/// The name of the Service, and of the account.
const NAME: &str = "metrics-server";
/// Marks the APIService of this module: one of a real metrics server stays as it is.
const EMBEDDED: &str = "sendo.dev/embedded";
/// The time over which usage is said to be measured: how often the metrics server asks kubelets.
const WINDOW: &str = "15s";

/// Serves the API until the returned value is dropped.
///
/// # Errors
/// If its APIService or roles cannot be written.
pub(crate) async fn serve(
    server: &ApiServer,
    administrator: &kube::Client,
    world: &World,
) -> kube::Result<LocalService> {
    let user = User::service_account(identities::SYSTEM, NAME);
    let metrics = Arc::new(MetricsApi {
        client: kube::Client::new(server.as_user(user), "default"),
        world: world.clone(),
    });
    let host = format!("{NAME}.{}.svc", identities::SYSTEM);
    let services = server.local_services();
    let registered = services.register(&host, 443, move |request| {
        let metrics = Arc::clone(&metrics);
        async move { metrics.respond(&request).await }
    });
    identities::grant_metrics_server(administrator, NAME).await?;
    let services: Api<APIService> = Api::all(administrator.clone());
    match services
        .create(&PostParams::default(), &api_service())
        .await
    {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
        created => drop(created?),
    }
    Ok(registered)
}

/// Removes what an earlier cluster on the same store has left: an API without its server.
///
/// # Errors
/// If the APIService cannot be read or deleted.
pub(crate) async fn withdraw(administrator: &kube::Client) -> kube::Result<()> {
    let services: Api<APIService> = Api::all(administrator.clone());
    let known = services.get_opt(API_SERVICE).await?;
    let labels = known.and_then(|known| known.metadata.labels);
    if labels.is_some_and(|labels| labels.contains_key(EMBEDDED)) {
        services
            .delete(API_SERVICE, &DeleteParams::default())
            .await?;
    }
    Ok(())
}

fn api_service() -> APIService {
    let service = json!({
        "metadata": {"name": API_SERVICE, "labels": {EMBEDDED: "true", "k8s-app": NAME}},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": identities::SYSTEM, "name": NAME, "port": 443},
        },
    });
    serde_json::from_value(service).expect("an APIService")
}

struct MetricsApi {
    client: kube::Client,
    world: World,
}

/// The response to a request that is refused.
struct Refused(StatusCode, &'static str, String);

impl MetricsApi {
    async fn respond(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let answer = match *request.method() {
            Method::GET => self.answer(request).await,
            _ => Err(Refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource".to_owned(),
            )),
        };
        let (code, body) = match answer {
            Ok(body) => (StatusCode::OK, body),
            Err(Refused(code, reason, message)) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "message": message, "reason": reason,
                    "code": code.as_u16()});
                (code, status)
            }
        };
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = code;
        let json = http::HeaderValue::from_static("application/json");
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, json);
        response
    }

    async fn answer(&self, request: &Request<Bytes>) -> Result<Value, Refused> {
        let path = request.uri().path().trim_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let query = selection(request.uri().query().unwrap_or_default());
        match parts[..] {
            ["apis", "metrics.k8s.io"] => Ok(group()),
            ["apis", "metrics.k8s.io", "v1beta1"] => Ok(resources()),
            ["apis", "metrics.k8s.io", "v1beta1", "nodes"] => self.nodes(&query).await,
            ["apis", "metrics.k8s.io", "v1beta1", "nodes", name] => self.node(name).await,
            ["apis", "metrics.k8s.io", "v1beta1", "pods"] => self.pods("", &query).await,
            [
                "apis",
                "metrics.k8s.io",
                "v1beta1",
                "namespaces",
                namespace,
                "pods",
            ] => self.pods(&format!("namespaces/{namespace}/"), &query).await,
            [
                "apis",
                "metrics.k8s.io",
                "v1beta1",
                "namespaces",
                namespace,
                "pods",
                name,
            ] => self.pod(namespace, name).await,
            _ => Err(Refused(
                StatusCode::NOT_FOUND,
                "NotFound",
                "the server could not find the requested resource".to_owned(),
            )),
        }
    }

    async fn pods(&self, scope: &str, query: &str) -> Result<Value, Refused> {
        let list: ObjectList<Pod> = self.read(&format!("/api/v1/{scope}pods?{query}")).await?;
        let running = list.items.iter().filter(|pod| is_running(pod));
        let items: Vec<Value> = running.map(|pod| self.of_pod(pod)).collect();
        Ok(
            json!({"kind": "PodMetricsList", "apiVersion": GROUP_VERSION, "metadata": {},
            "items": items}),
        )
    }

    async fn pod(&self, namespace: &str, name: &str) -> Result<Value, Refused> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let pod: Result<Pod, Refused> = self.read(&path).await;
        match pod {
            Ok(pod) if is_running(&pod) => Ok(self.with_kind("PodMetrics", self.of_pod(&pod))),
            Ok(_) | Err(Refused(StatusCode::NOT_FOUND, ..)) => {
                Err(not_found("podmetrics", &format!("{namespace}/{name}")))
            }
            Err(refused) => Err(refused),
        }
    }

    async fn nodes(&self, query: &str) -> Result<Value, Refused> {
        let list: ObjectList<Node> = self.read(&format!("/api/v1/nodes?{query}")).await?;
        let pods: ObjectList<Pod> = self.read("/api/v1/pods").await?;
        let nodes = list.items.iter();
        let items: Vec<Value> = nodes.map(|node| self.of_node(node, &pods.items)).collect();
        Ok(
            json!({"kind": "NodeMetricsList", "apiVersion": GROUP_VERSION, "metadata": {},
            "items": items}),
        )
    }

    async fn node(&self, name: &str) -> Result<Value, Refused> {
        let node: Result<Node, Refused> = self.read(&format!("/api/v1/nodes/{name}")).await;
        let node = node.map_err(|refused| match refused {
            Refused(StatusCode::NOT_FOUND, ..) => not_found("nodemetrics", name),
            refused => refused,
        })?;
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{name}");
        let pods: ObjectList<Pod> = self.read(&path).await?;
        Ok(self.with_kind("NodeMetrics", self.of_node(&node, &pods.items)))
    }

    fn of_pod(&self, pod: &Pod) -> Value {
        let containers: Vec<Value> = used(pod)
            .map(|(name, usage)| json!({"name": name, "usage": shown(&usage)}))
            .collect();
        let mut metrics = self.measured(&pod.metadata);
        metrics["containers"] = json!(containers);
        metrics
    }

    fn of_node(&self, node: &Node, pods: &[Pod]) -> Value {
        let mut sum = Usage::none();
        let is_here = |pod: &&Pod| {
            let spec = pod.spec.as_ref();
            let bound = spec.and_then(|spec| spec.node_name.as_deref());
            is_running(pod) && bound == node.metadata.name.as_deref()
        };
        for (_, usage) in pods.iter().filter(is_here).flat_map(used) {
            sum.add(&usage);
        }
        let mut metrics = self.measured(&node.metadata);
        metrics["usage"] = shown(&sum);
        metrics
    }

    fn measured(&self, metadata: &kube::core::ObjectMeta) -> Value {
        let now = self.world.clock().wall();
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut own = json!({"name": metadata.name, "creationTimestamp": now});
        if let Some(namespace) = &metadata.namespace {
            own["namespace"] = json!(namespace);
        }
        if let Some(labels) = &metadata.labels {
            own["labels"] = json!(labels);
        }
        json!({"metadata": own, "timestamp": now, "window": WINDOW})
    }

    fn with_kind(&self, kind: &str, mut metrics: Value) -> Value {
        metrics["kind"] = json!(kind);
        metrics["apiVersion"] = json!(GROUP_VERSION);
        metrics
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Refused> {
        let internal = |error: &dyn std::fmt::Display| {
            let message = format!("Internal error occurred: {error}");
            Refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
        };
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| internal(&error))?;
        self.client
            .request(request)
            .await
            .map_err(|error| match error {
                kube::Error::Api(status) if status.code == 404 => {
                    Refused(StatusCode::NOT_FOUND, "NotFound", status.message)
                }
                kube::Error::Api(status) if status.code == 400 => {
                    Refused(StatusCode::BAD_REQUEST, "BadRequest", status.message)
                }
                error => internal(&error),
            })
    }
}

fn not_found(resource: &str, name: &str) -> Refused {
    let message = format!("{resource}.metrics.k8s.io {name:?} not found");
    Refused(StatusCode::NOT_FOUND, "NotFound", message)
}

/// The selectors of a query, as they are.
fn selection(query: &str) -> String {
    let is_selector =
        |part: &&str| part.starts_with("labelSelector=") || part.starts_with("fieldSelector=");
    let selectors: Vec<&str> = query.split('&').filter(is_selector).collect();
    selectors.join("&")
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// What the containers of a pod use that run beside each other.
fn used(pod: &Pod) -> impl Iterator<Item = (&str, Usage)> {
    let annotations = pod.metadata.annotations.as_ref();
    let containers = pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        let sidecars = init.filter(|init| init.restart_policy.as_deref() == Some("Always"));
        spec.containers.iter().chain(sidecars)
    });
    containers.map(move |container| {
        let name = container.name.as_str();
        (name, usage::of_container(annotations, name))
    })
}

fn shown(usage: &Usage) -> Value {
    json!({"cpu": usage.cpu.to_string(), "memory": usage.memory.to_string()})
}

fn group() -> Value {
    let version = json!({"groupVersion": GROUP_VERSION, "version": "v1beta1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": "metrics.k8s.io",
        "versions": [version], "preferredVersion": version})
}

fn resources() -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| {
        json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind,
            "verbs": ["get", "list"]})
    };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION,
        "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)]})
}
