//! Serves the subresources that connect to nodes, pods and services: log, exec, attach,
//! portforward and proxy.
//!
//! Logs are asked of the agent of the pod's node, if that is in this process. No agent is reached
//! over the network: where a node's containers are simulated, a valid request is answered with an
//! error that says so; elsewhere it is answered as Kubernetes answers when it cannot reach an agent.

use std::net::IpAddr;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::{GroupKind, GroupResource, Status, go_quote};
use serde_json::{Value, json};

use crate::catalog::keys::Keys;
use crate::outbound::Found;
use crate::read::answer::ApiResponse;
use crate::request::path::Verb;
use crate::request::query::Query;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::create_permission;
use crate::write::admission::{self, Attributes};

/// Runs admission for a connection, before any object is read
/// (`ConnectResource` in `k8s.io/apiserver/pkg/endpoints/handlers/rest.go`).
pub(super) async fn admit(call: &Call<'_>, subresource: &str) -> Result<(), Status> {
    let mut options = options(call, subresource);
    let attributes = Attributes::of_connection(call);
    admission::mutate(&attributes, &mut options).await?;
    admission::validate(&attributes, &options, &mut Claims::default()).await
}

/// The options of a connection, which are the object that admission sees.
fn options(call: &Call<'_>, subresource: &str) -> Value {
    let query = &call.request.query;
    let kind = match (subresource, call.resource.facts.kind.as_str()) {
        ("exec", _) => "PodExecOptions",
        ("attach", _) => "PodAttachOptions",
        ("portforward", _) => "PodPortForwardOptions",
        (_, "Pod") => "PodProxyOptions",
        (_, "Service") => "ServiceProxyOptions",
        _ => "NodeProxyOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    match subresource {
        "exec" | "attach" => {
            for stream in ["stdin", "stdout", "stderr", "tty"] {
                if let Some(wanted) = query.optional_flag(stream) {
                    options[stream] = wanted.into();
                }
            }
            if let Some(container) = query.first("container") {
                options["container"] = container.into();
            }
            let command: Vec<&str> = query.all("command").collect();
            if !command.is_empty() {
                options["command"] = command.into();
            }
        }
        "portforward" => {
            let ports = query.all("ports").flat_map(|ports| ports.split(','));
            let ports: Vec<u16> = ports.filter_map(|port| port.parse().ok()).collect();
            if !ports.is_empty() {
                options["ports"] = ports.into();
            }
        }
        _ if call.path.rest.is_empty() => {}
        _ => options["path"] = call.path.rest.join("/").into(),
    }
    options
}

/// The prefix of the container runtime's version on nodes whose containers are simulated.
const SIMULATED: &str = "simulated://";

/// `pods/<name>/log`.
pub(super) async fn log(call: &Call<'_>) -> Result<ApiResponse, Status> {
    check_log_options(call)?;
    let pod = call.decode(&*call.entry().await?);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let container = container(call, &pod, &lists)?;
    let Some(node) = node_of(&pod) else {
        return Ok(ApiResponse::Empty(StatusCode::NO_CONTENT));
    };
    if let Some(agent) = call.server.outbound.local().find_node_agent(node) {
        return log_of_agent(call, &agent, &container).await;
    }
    Err(match NodeAgent::find(call, node).await? {
        NodeAgent::Simulated => NodeAgent::simulated(
            node,
            &format!("container {} has no logs", go_quote(&container)),
        ),
        NodeAgent::At(address) => Status::unclassified(format!(
            "Get \"https://{address}/containerLogs/{}/{}/{container}\": {}",
            call.namespace().unwrap_or_default(),
            call.name(),
            refused(&address)
        )),
    })
}

/// Passes on the log that the agent of a node of this process has.
async fn log_of_agent(
    call: &Call<'_>,
    agent: &Found,
    container: &str,
) -> Result<ApiResponse, Status> {
    let namespace = call.namespace().unwrap_or_default();
    let query = log_query(&call.request.query);
    let path = format!(
        "/containerLogs/{namespace}/{}/{container}?{query}",
        call.name()
    );
    let request = http::Request::get(path).body(Bytes::new());
    let request = request.map_err(Status::internal_error)?;
    let Some(response) = agent.call(request).await else {
        return Err(Status::unclassified("the agent of the node has failed"));
    };
    if response.status() == StatusCode::OK {
        return Ok(ApiResponse::Forwarded(Box::new(response)));
    }
    let is_bad_request = response.status() == StatusCode::BAD_REQUEST;
    let Ok(text) = response.into_body().collect().await;
    let text = String::from_utf8_lossy(&text.to_bytes()).into_owned();
    Err(match is_bad_request {
        true => Status::bad_request(text),
        false => Status::unclassified(text),
    })
}

/// The options of a log, as `LogLocation` in k8s.io/kubernetes (pkg/registry/core/pod/strategy.go)
/// hands them on.
fn log_query(query: &Query) -> String {
    let flags = ["follow", "previous", "timestamps"].into_iter();
    let flags = flags
        .filter(|name| query.flag(name))
        .map(|name| format!("{name}=true"));
    let values = ["sinceSeconds", "sinceTime", "tailLines", "limitBytes"].into_iter();
    let values = values.filter_map(|name| Some(format!("{name}={}", query.first(name)?)));
    flags.chain(values).collect::<Vec<_>>().join("&")
}

/// `pods/<name>/exec`, `attach` and `portforward`.
///
/// A request with GET, as WebSockets send it, needs the permission to create too:
/// `ensureAuthorizedForVerb` in k8s.io/kubernetes (pkg/registry/core/pod/rest/authorize.go).
pub(super) async fn stream(call: &Call<'_>, name: &str, verb: Verb) -> Result<ApiResponse, Status> {
    if verb != Verb::Create {
        create_permission::demand_create_too(call).await?;
    }
    let pod = call.decode(&*call.entry().await?);
    let lacks = if name == "portforward" {
        format!("pod {} has no ports to forward", go_quote(call.name()))
    } else {
        let container = go_quote(&container(call, &pod, &["containers"])?);
        match name {
            "exec" => format!("no command can be executed in container {container}"),
            _ => format!("container {container} has no process to attach to"),
        }
    };
    let Some(node) = node_of(&pod) else {
        return Err(Status::bad_request(format!(
            "pod {} does not have a host assigned",
            call.name()
        )));
    };
    let agent = NodeAgent::find(call, node).await?;
    if !call.request.asks_for_upgrade() {
        return Err(Status::bad_request("Upgrade request required"));
    }
    Err(match agent {
        NodeAgent::Simulated => NodeAgent::simulated(node, &lacks),
        NodeAgent::At(address) => no_upgrade(&address),
    })
}

/// `proxy` of pods, services and nodes.
pub(super) async fn proxy(call: &Call<'_>, verb: Verb) -> Result<ApiResponse, Status> {
    let parts: Vec<&str> = call.name().split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => ("?", "", ""),
    };
    let singular = &call.resource.facts.singular;
    if !["", "http", "https"].contains(&scheme) {
        return Err(Status::bad_request(format!(
            "invalid {singular} request {}",
            go_quote(call.name())
        )));
    }
    let key = call.key(name)?;
    let stored = call.stored(&key).await?;
    let entry = stored.ok_or_else(|| call.not_found(name))?;
    let object = call.decode(&entry);
    match singular.as_str() {
        "service" => Err(Status::service_unavailable(format!(
            "no endpoints available for service {}",
            go_quote(name)
        ))),
        "pod" => forward(call, verb, &address_of(&object, scheme, port)?),
        _ => match NodeAgent::find(call, name).await? {
            NodeAgent::Simulated => {
                let lacks = format!("node {} has no agent that listens", go_quote(name));
                Err(NodeAgent::simulated(name, &lacks))
            }
            NodeAgent::At(address) => forward(call, verb, &address),
        },
    }
}

/// The answer to a request that is forwarded to an address where no process listens.
fn forward(call: &Call<'_>, verb: Verb, address: &str) -> Result<ApiResponse, Status> {
    let request = call.request;
    if request.asks_for_upgrade() {
        return Err(no_upgrade(address));
    }
    if verb == Verb::Get && call.path.rest.is_empty() && !request.path.ends_with('/') {
        let query = request.uri.query().map(|query| format!("?{query}"));
        let to = format!("{}/{}", request.path, query.unwrap_or_default());
        return Ok(ApiResponse::Redirect(to));
    }
    Err(Status::service_unavailable(format!(
        "error trying to reach service: {}",
        refused(address)
    )))
}

/// Where a pod listens: on the port requested, else the first its containers name, else that of its scheme.
fn address_of(pod: &Value, scheme: &str, port: &str) -> Result<String, Status> {
    let ip = pod["status"]["podIP"].as_str();
    let ip: IpAddr = ip
        .and_then(|ip| ip.parse().ok())
        .ok_or_else(|| Status::bad_request("address not allowed"))?;
    let containers = pod["spec"]["containers"].as_array();
    let declared = containers
        .into_iter()
        .flatten()
        .find_map(|container| container["ports"][0]["containerPort"].as_u64());
    let port = match (port, declared, scheme) {
        ("", Some(declared), _) => declared.to_string(),
        ("", None, "https") => "443".to_owned(),
        ("", None, _) => "80".to_owned(),
        (requested, ..) => requested.to_owned(),
    };
    Ok(match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    })
}

fn refused(address: &str) -> String {
    format!("dial tcp {address}: connect: connection refused")
}

fn no_upgrade(address: &str) -> Status {
    Status::unclassified(format!("error dialing backend: {}", refused(address)))
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty())
}

/// The container a request is about: the one it names, or the only one.
fn container(call: &Call<'_>, pod: &Value, lists: &[&str]) -> Result<String, Status> {
    let names: Vec<&str> = lists
        .iter()
        .flat_map(|list| {
            pod["spec"][list]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
        })
        .filter_map(|container| container["name"].as_str())
        .collect();
    let requested = call.request.query.text("container");
    match names.as_slice() {
        _ if names.contains(&requested) => Ok(requested.to_owned()),
        _ if !requested.is_empty() => Err(Status::bad_request(format!(
            "container {requested} is not valid for pod {}",
            call.name()
        ))),
        [only] => Ok((*only).to_owned()),
        _ => Err(Status::bad_request(format!(
            "a container name must be specified for pod {}, choose one of: [{}]",
            call.name(),
            names.join(" ")
        ))),
    }
}

fn check_log_options(call: &Call<'_>) -> Result<(), Status> {
    let query = &call.request.query;
    let number = |name: &str| query.number(name).map_err(Status::bad_request);
    let mut errors = Vec::new();
    if let Some(lines) = number("tailLines")?.filter(|lines| *lines < 0) {
        errors.push(Error::invalid(
            &Path::new("tailLines"),
            lines,
            "must be greater than or equal to 0",
        ));
    }
    if let Some(bytes) = number("limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.push(Error::invalid(
            &Path::new("limitBytes"),
            bytes,
            "must be greater than 0",
        ));
    }
    match (number("sinceSeconds")?, query.first("sinceTime")) {
        (Some(_), Some(_)) => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(Error::forbidden(&Path::new(""), why));
        }
        (Some(seconds), None) if seconds < 1 => {
            errors.push(Error::invalid(
                &Path::new("sinceSeconds"),
                seconds,
                "must be greater than 0",
            ));
        }
        _ => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        &GroupKind::new("", "PodLogOptions"),
        call.name(),
        &errors,
    ))
}

/// Where the agent of a node would be.
enum NodeAgent {
    /// There is none: the node's containers are simulated.
    Simulated,
    /// At an address where no process listens.
    At(String),
}

impl NodeAgent {
    async fn find(call: &Call<'_>, node: &str) -> Result<NodeAgent, Status> {
        let key = Keys::new("", "nodes", false).object(None, node);
        let Some(entry) = call.stored(&key).await? else {
            return Err(Status::not_found(&GroupResource::new("", "nodes"), node));
        };
        let object: Value =
            serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
        let runtime = &object["status"]["nodeInfo"]["containerRuntimeVersion"];
        let runtime = runtime.as_str().unwrap_or_default();
        if runtime.starts_with(SIMULATED) {
            return Ok(NodeAgent::Simulated);
        }
        let addresses = object["status"]["addresses"].as_array();
        let address = addresses
            .into_iter()
            .flatten()
            .find_map(|address| address["address"].as_str());
        match address {
            Some(address) => Ok(NodeAgent::At(format!("{address}:10250"))),
            None => Err(Status::unclassified(
                "no preferred addresses found; known addresses: []",
            )),
        }
    }

    /// The error of a simulated node that `lacks` what is requested.
    fn simulated(node: &str, lacks: &str) -> Status {
        Status::unclassified(format!(
            "{lacks}: the containers of node {} are simulated, nothing runs in them",
            go_quote(node)
        ))
    }
}
