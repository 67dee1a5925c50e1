//! RuntimeClass: the overhead and the scheduling constraints of a pod's class.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/runtimeclass/admission.go`: `Admit`, `Validate`

use std::sync::Arc;

use sendo_apimachinery::{Status, go_quote, names};
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::resources;
use crate::kinds::value::{Read, Write};

pub(super) const RUNTIME_CLASS: Plugin = Plugin {
    name: "RuntimeClass",
    handles: |attributes| {
        attributes.operation == Operation::Create && attributes.is_of("", "pods", "")
    },
    mutate: Some(Mutate::Later(|attributes, pod| {
        Box::pin(mutate(attributes, pod))
    })),
    validate: Some(|attributes, pod, _| Box::pin(validate(attributes, pod))),
};

const OTHER_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Gives a new pod the overhead of its class, and what its class says of nodes.
async fn mutate(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    let Some(class) = class_of(attributes, pod).await? else {
        return Ok(());
    };
    let overhead = class.at("overhead");
    if !overhead.is_null() {
        let own = pod.at("spec").at("overhead");
        let fixed = overhead.at("podFixed");
        if own.as_object().is_some_and(|own| !own.is_empty()) && !resources::is_same(own, fixed) {
            return Err(attributes.forbid(pod, OTHER_OVERHEAD));
        }
        match fixed.is_null() {
            true => pod.object("spec").remove("overhead"),
            false => pod.object("spec").set("overhead", fixed.clone()),
        }
    }
    let scheduling = class.at("scheduling");
    if scheduling.is_null() {
        return Ok(());
    }
    for (key, value) in scheduling.entries("nodeSelector") {
        let value = value.as_str().unwrap_or_default();
        let own = pod.at("spec").at("nodeSelector").at(key).as_str();
        if let Some(own) = own.filter(|own| *own != value) {
            let why = format_args!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                 pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(attributes.forbid(pod, why));
        }
        pod.object("spec").object("nodeSelector").set(key, value);
    }
    let both = [
        pod.at("spec").items("tolerations"),
        scheduling.items("tolerations"),
    ]
    .concat();
    let merged = merge_tolerations(&both);
    if !merged.is_empty() {
        pod.object("spec").set("tolerations", merged);
    }
    Ok(())
}

/// Refuses an overhead that is not that of the pod's class.
async fn validate(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let class = class_of(attributes, pod).await?.unwrap_or_default();
    let own = pod.at("spec").at("overhead");
    if class.has("overhead") {
        if !resources::is_same(own, class.at("overhead").at("podFixed")) {
            return Err(attributes.forbid(pod, OTHER_OVERHEAD));
        }
    } else if !own.is_null() {
        let why =
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(attributes.forbid(pod, why));
    }
    Ok(())
}

async fn class_of(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
    let Some(name) = pod.at("spec").at("runtimeClassName").as_str() else {
        return Ok(None);
    };
    if name.is_empty() {
        return Err(Status::unclassified("resource name may not be empty"));
    }
    let faults = names::path_segment(name);
    if !faults.is_empty() {
        let name = go_quote(name);
        let why = format!("invalid resource name {name}: [{}]", faults.join(" "));
        return Err(Status::unclassified(why));
    }
    let keys = Keys::new("node.k8s.io", "runtimeclasses", false);
    let why = format!("pod rejected: RuntimeClass {} not found", go_quote(name));
    match lookup::get(attributes.call, &keys, None, name).await? {
        Some(class) => Ok(Some(class)),
        None => Err(attributes.forbid(pod, why)),
    }
}

/// Tolerations without those that another one covers; of equal ones the first stays.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let by_earlier = merged.iter().any(|other| covers(other, toleration));
        let mut later = all[i + 1..].iter();
        let by_later = later.any(|other| other != toleration && covers(other, toleration));
        if !by_earlier && !by_later {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let all_keys = wide.text("key").is_empty() && wide.text("operator") == "Exists";
    if wide.text("key") != narrow.text("key") && !all_keys {
        return false;
    }
    if !["", narrow.text("effect")].contains(&wide.text("effect")) {
        return false;
    }
    if wide.text("effect") == "NoExecute"
        && let Some(time) = wide.number("tolerationSeconds")
        && narrow
            .number("tolerationSeconds")
            .is_none_or(|narrow| narrow > time)
    {
        return false;
    }
    match wide.text("operator") {
        "" | "Equal" => {
            narrow.text("operator") == "Equal" && wide.text("value") == narrow.text("value")
        }
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_toleration_that_another_covers_goes() {
        let narrow = json!({"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"});
        let wide = json!({"key": "a", "operator": "Exists"});
        let other = json!({"key": "b", "operator": "Exists"});
        assert_eq!(
            merge_tolerations(&[narrow.clone(), wide.clone(), other.clone(), wide.clone()]),
            [wide, other]
        );
        let long = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60});
        let short = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30});
        assert_eq!(merge_tolerations(&[short, long.clone()]), [long]);
        assert!(covers(&narrow, &narrow));
    }
}
