//! Ways through the server to nodes, pods and services: logs, commands, ports, proxies.
//!
//! No node has an agent that could be reached. Where a node's containers are
//! simulated, what is right with a request is told so; elsewhere it ends where
//! Kubernetes ends when it cannot reach an agent.

use http::StatusCode;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::{GroupKind, GroupResource, Status, go_quote};
use serde_json::Value;

use crate::answer::Answer;
use crate::call::Call;
use crate::keys::Keys;

/// How the container runtime of a node is called whose containers are only told of.
const SIMULATED: &str = "simulated://";

/// `pods/<name>/log`.
pub(super) async fn log(call: &Call<'_>) -> Result<Answer, Status> {
    check_log_options(call)?;
    let pod = call.decode(&*call.entry().await?);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let container = container(call, &pod, &lists)?;
    match node_of(&pod) {
        None => Ok(Answer::Empty(StatusCode::NO_CONTENT)),
        Some(node) => {
            let path = format!("containerLogs/{}/{container}", place(call));
            let lacks = format!("container {} has no logs", go_quote(&container));
            Err(unreachable(call, node, &path, &lacks).await?)
        }
    }
}

/// `pods/<name>/exec`, `attach` and `portforward`.
pub(super) async fn stream(call: &Call<'_>, name: &str) -> Result<Answer, Status> {
    let pod = call.decode(&*call.entry().await?);
    let (path, lacks) = if name == "portforward" {
        let lacks = format!("pod {} has no ports to forward", go_quote(call.name()));
        (format!("portForward/{}", place(call)), lacks)
    } else {
        let container = container(call, &pod, &["containers"])?;
        let path = format!("{name}/{}/{container}", place(call));
        let quoted = go_quote(&container);
        let lacks = match name {
            "exec" => format!("no command can be executed in container {quoted}"),
            _ => format!("container {quoted} has no process to attach to"),
        };
        (path, lacks)
    };
    match node_of(&pod) {
        None => Err(Status::bad_request(format!(
            "pod {} does not have a host assigned",
            call.name()
        ))),
        Some(node) => Err(unreachable(call, node, &path, &lacks).await?),
    }
}

/// `proxy` of pods, services and nodes.
pub(super) async fn proxy(call: &Call<'_>) -> Result<Answer, Status> {
    let parts: Vec<&str> = call.name().split(':').collect();
    let (scheme, name) = match parts.as_slice() {
        [name] | [name, _] => ("", *name),
        [scheme, name, _] => (*scheme, *name),
        _ => ("?", ""),
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
    let unavailable = |why: String| Err(Status::service_unavailable(why));
    match singular.as_str() {
        "service" => unavailable(format!(
            "no endpoints available for service {}",
            go_quote(name)
        )),
        "pod" => match object["status"]["podIP"]
            .as_str()
            .filter(|ip| !ip.is_empty())
        {
            None => Err(Status::bad_request("address not allowed")),
            Some(ip) => unavailable(format!(
                "error trying to reach service: dial tcp {ip}: connect: connection refused"
            )),
        },
        _ => {
            let lacks = format!("node {} has no agent that listens", go_quote(name));
            Err(unreachable(call, name, "", &lacks).await?)
        }
    }
}

fn place(call: &Call<'_>) -> String {
    format!("{}/{}", call.namespace().unwrap_or_default(), call.name())
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
    let asked = call.request.query.text("container");
    match names.as_slice() {
        _ if names.contains(&asked) => Ok(asked.to_owned()),
        _ if !asked.is_empty() => Err(Status::bad_request(format!(
            "container {asked} is not valid for pod {}",
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

/// What is said of a node whose agent cannot be reached; `lacks` of one with simulated containers.
async fn unreachable(
    call: &Call<'_>,
    node: &str,
    path: &str,
    lacks: &str,
) -> Result<Status, Status> {
    let key = Keys::new("", "nodes", false).object(None, node);
    let Some(entry) = call.stored(&key).await? else {
        return Ok(Status::not_found(&GroupResource::new("", "nodes"), node));
    };
    let object: Value =
        serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours");
    let runtime = &object["status"]["nodeInfo"]["containerRuntimeVersion"];
    if runtime
        .as_str()
        .is_some_and(|runtime| runtime.starts_with(SIMULATED))
    {
        return Ok(Status::unclassified(format!(
            "{lacks}: the containers of node {} are simulated, nothing runs in them",
            go_quote(node)
        )));
    }
    let addresses = object["status"]["addresses"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let address = addresses
        .iter()
        .find_map(|address| address["address"].as_str());
    Ok(match address {
        None => Status::unclassified("no preferred addresses found; known addresses: []"),
        Some(address) => Status::unclassified(format!(
            "Get \"https://{address}:10250/{path}\": dial tcp {address}:10250: connect: connection refused"
        )),
    })
}
