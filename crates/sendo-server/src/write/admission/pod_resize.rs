//! PodResizeValidator: a pod can be resized to what its node can allocate.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/podresize/admission.go`: `Validate`

use std::cmp::Ordering;

use sendo_apimachinery::status::Cause;
use sendo_apimachinery::{Meta, Status, go_quote};
use serde_json::Value;

use super::{Attributes, Operation, Plugin, limit_ranger, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::resources::amount;
use crate::kinds::value::Read;

pub(super) const POD_RESIZE_VALIDATOR: Plugin = Plugin {
    name: "PodResizeValidator",
    handles: |attributes| {
        attributes.operation == Operation::Update && attributes.is_of("", "pods", "resize")
    },
    mutate: None,
    validate: Some(|attributes, pod, _| Box::pin(validate(attributes, pod))),
};

/// Refuses a change of a pod's resources that its node cannot hold.
///
/// What other pods of the node take is left to the node itself.
async fn validate(attributes: &Attributes<'_>, new: &Value) -> Result<(), Status> {
    let Some(old) = attributes.old else {
        return Ok(());
    };
    let name = new.at("spec").text("nodeName");
    if name.is_empty() || Meta::new(new).generation() == Meta::new(old).generation() {
        return Ok(());
    }
    let keys = Keys::new("", "nodes", false);
    let Some(node) = lookup::get(attributes.call, &keys, None, name).await? else {
        let why = format!("node {} not found", go_quote(name));
        return Err(attributes.forbid(new, why));
    };
    let refuse = |reason: &str, why: String| {
        Err(attributes.forbid(new, why).with_cause(Cause {
            reason: reason.to_owned(),
            message: String::new(),
            field: String::new(),
        }))
    };
    let system = node.at("metadata").at("labels").at("kubernetes.io/os");
    if let Some(system) = system.as_str().filter(|system| *system != "linux") {
        let why = format!(
            "pod resize is only supported on linux nodes, node {} is {}",
            go_quote(name),
            go_quote(system)
        );
        return refuse("UnsupportedPlatform", why);
    }
    let lacks = shortages(new.at("spec"), node.at("status").at("allocatable"));
    if lacks.is_empty() {
        return Ok(());
    }
    let why = format!(
        "node didn't have enough allocatable resources: {}",
        lacks.join("; ")
    );
    refuse("NodeCapacity", why)
}

/// What a pod asks for beyond what a node has to give.
fn shortages(spec: &Value, allocatable: &Value) -> Vec<String> {
    let mut requests = limit_ranger::requested_by_pod(spec);
    limit_ranger::add(&mut requests, &limit_ranger::amounts(spec.at("overhead")));
    let too_much = |name: &str| {
        let (asked, given) = (requests.get(name)?, amount(allocatable.at(name)));
        (asked.cmp(&given) == Ordering::Greater).then(|| (asked.clone(), given))
    };
    let mut found = Vec::new();
    if let Some((asked, given)) = too_much("cpu") {
        found.push(format!(
            "cpu, requested: {}, allocatable: {}",
            asked.milli(),
            given.milli()
        ));
    }
    if let Some((asked, given)) = too_much("memory") {
        found.push(format!(
            "memory, requested: {}, allocatable: {}",
            asked.units(),
            given.units()
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_asks_for_what_all_its_containers_and_its_overhead_need() {
        let spec = |cpu: &str, memory: &str| {
            json!({
                "overhead": {"cpu": "100m"},
                "containers": [
                    {"resources": {"requests": {"cpu": cpu, "memory": memory}}},
                    {"resources": {"requests": {"cpu": "1"}}},
                ],
            })
        };
        let node = json!({"cpu": "2", "memory": "1Gi"});
        let cases = [
            (spec("900m", "1Gi"), vec![]),
            (
                spec("901m", "1Gi"),
                vec!["cpu, requested: 2001, allocatable: 2000"],
            ),
            (
                spec("2", "2Gi"),
                vec![
                    "cpu, requested: 3100, allocatable: 2000",
                    "memory, requested: 2147483648, allocatable: 1073741824",
                ],
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(shortages(&spec, &node), expected, "{spec}");
        }
        assert_eq!(shortages(&json!({}), &json!({})), [""; 0]);
    }
}
