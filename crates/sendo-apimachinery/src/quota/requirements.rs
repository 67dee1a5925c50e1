//! What a pod asks for as a whole.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/component-helpers/resource/helpers.go`: `PodRequests`, `PodLimits`

use serde_json::Value;

use super::amounts::{self, Amounts};

/// The resources that a pod as a whole can ask for.
pub(super) fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Whether a pod asks for something as a whole.
pub(super) fn asks_as_a_whole(pod: &Value) -> bool {
    let resources = &pod["spec"]["resources"];
    let lists = [&resources["requests"], &resources["limits"]];
    lists.into_iter().flat_map(super::names).any(is_of_pods)
}

/// Which of the two lists is summed up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Requests,
    Limits,
}

impl List {
    fn member(self) -> &'static str {
        match self {
            List::Requests => "requests",
            List::Limits => "limits",
        }
    }
}

/// The sum over a pod's containers and sidecars, or more if an init container needs it; what the
/// pod asks for as a whole takes the place of that; its overhead is added. While a resize is under
/// way, the larger of what is asked for and what is in force counts.
pub(super) fn of_pod(pod: &Value, list: List) -> Amounts {
    let spec = &pod["spec"];
    let mut total = of_containers(pod, list);
    if asks_as_a_whole(pod) {
        let whole = amounts::read(&spec["resources"][list.member()]);
        total.extend(whole.into_iter().filter(|(name, _)| is_of_pods(name)));
    }
    let mut overhead = amounts::read(&spec["overhead"]);
    if list == List::Limits {
        // What is not limited stays so.
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    amounts::add(&mut total, &overhead);
    total
}

fn of_containers(pod: &Value, list: List) -> Amounts {
    let items = |member: &str| {
        let items = pod["spec"][member].as_array();
        items.map_or(&[][..], Vec::as_slice)
    };
    let mut total = Amounts::new();
    for container in items("containers") {
        amounts::add(&mut total, &in_force(pod, container, list));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in items("initContainers") {
        if container["restartPolicy"] == "Always" {
            let own = in_force(pod, container, list);
            amounts::add(&mut total, &own);
            amounts::add(&mut sidecars, &own);
            amounts::raise(&mut most, &sidecars);
        } else {
            let mut own = amounts::read(&container["resources"][list.member()]);
            amounts::add(&mut own, &sidecars);
            amounts::raise(&mut most, &own);
        }
    }
    amounts::raise(&mut total, &most);
    total
}

/// What a container asks for, and what it has, if its status says: whatever is more.
fn in_force(pod: &Value, container: &Value, list: List) -> Amounts {
    let asked = amounts::read(&container["resources"][list.member()]);
    let Some(status) = status_of(pod, container).filter(|status| !status["resources"].is_null())
    else {
        return asked;
    };
    let mut most = match is_infeasible(pod) {
        true => Amounts::new(),
        false => asked,
    };
    amounts::raise(
        &mut most,
        &amounts::read(&status["resources"][list.member()]),
    );
    if list == List::Requests {
        amounts::raise(&mut most, &amounts::read(&status["allocatedResources"]));
    }
    most
}

fn status_of<'a>(pod: &'a Value, container: &Value) -> Option<&'a Value> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let lists = lists
        .iter()
        .filter_map(|list| pod["status"][list].as_array());
    lists
        .flatten()
        .find(|status| status["name"] == container["name"])
}

/// Whether the node has no room for what a resize asks for.
fn is_infeasible(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut pending = conditions.filter(|condition| condition["type"] == "PodResizePending");
    pending
        .next()
        .is_some_and(|condition| condition["reason"] == "Infeasible")
}
