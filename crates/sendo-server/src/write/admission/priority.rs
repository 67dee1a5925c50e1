//! Priority: a pod has the priority of its class, and one class is the default.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/priority/admission.go`: `Admit`, `Validate`

use std::sync::Arc;

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::value::{Read, Write};
use crate::state::call::Call;

pub(super) const PRIORITY: Plugin = Plugin {
    name: "Priority",
    handles: |attributes| {
        matches!(attributes.operation, Operation::Create | Operation::Update)
            && (attributes.is_of("", "pods", "") || is_class(attributes))
    },
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(mutate(attributes, object))
    })),
    validate: Some(|attributes, object, _| Box::pin(validate(attributes, object))),
};

fn is_class(attributes: &Attributes<'_>) -> bool {
    attributes.is_of("scheduling.k8s.io", "priorityclasses", "")
}

async fn mutate(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    if is_class(attributes) || pod.at("spec").is_null() {
        return Ok(());
    }
    match attributes.old {
        None => complete(attributes, pod).await,
        Some(old) => {
            keep(pod, old);
            Ok(())
        }
    }
}

fn keys() -> Keys {
    Keys::new("scheduling.k8s.io", "priorityclasses", false)
}

/// Gives a new pod the priority of its class; without one, that of the default class, if there is one.
async fn complete(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    let call = attributes.call;
    let wanted = pod.at("spec").text("priorityClassName");
    let class = if wanted.is_empty() {
        default_class(call).await?.unwrap_or_default()
    } else {
        let found = lookup::get(call, &keys(), None, wanted).await?;
        let why = format!("no PriorityClass with name {wanted} was found");
        found.ok_or_else(|| attributes.forbid(pod, why))?
    };
    let computed = class.count("value");
    if let Some(given) = pod
        .at("spec")
        .number("priority")
        .filter(|given| *given != computed)
    {
        let why = format_args!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {computed} from the given PriorityClass name"
        );
        return Err(attributes.forbid(pod, why));
    }
    let policy = match class.text("preemptionPolicy") {
        "" => "PreemptLowerPriority",
        policy => policy,
    };
    let asked = pod.at("spec").at("preemptionPolicy").as_str();
    if let Some(asked) = asked.filter(|asked| *asked != policy) {
        let why = format_args!(
            "the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(attributes.forbid(pod, why));
    }
    let spec = pod.object("spec");
    let name = Meta::new(&class).name();
    if !name.is_empty() {
        spec.set("priorityClassName", name);
    }
    spec.set("priority", computed);
    spec.set("preemptionPolicy", policy);
    Ok(())
}

/// What was computed for a pod stays, if whoever writes it again leaves it out.
fn keep(new: &mut Value, old: &Value) {
    let spec = new.object("spec");
    for key in ["priority", "preemptionPolicy"] {
        if !spec.has(key) {
            spec.copy_from(key, old.at("spec"));
        }
    }
}

/// The class of pods that name none: the lowest of those that say so.
async fn default_class(call: &Call<'_>) -> Result<Option<Arc<Value>>, Status> {
    let classes = lookup::list(call, &keys(), None).await?.into_iter();
    let defaults = classes.filter(|class| class.is_set("globalDefault"));
    Ok(defaults.min_by_key(|class| class.count("value")))
}

/// One class at most is the default.
async fn validate(attributes: &Attributes<'_>, class: &Value) -> Result<(), Status> {
    let call = attributes.call;
    if !is_class(attributes) || !class.is_set("globalDefault") {
        return Ok(());
    }
    let own = Meta::new(class).name();
    match default_class(call).await? {
        Some(other) if Meta::new(&other).name() != own || attributes.old.is_none() => {
            let why = format_args!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                Meta::new(&other).name()
            );
            Err(attributes.forbid(class, why))
        }
        _ => Ok(()),
    }
}
