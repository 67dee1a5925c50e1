//! The priority of a pod, which its class decides.

use std::sync::Arc;

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::{forbid, lookup};
use crate::call::Call;
use crate::keys::Keys;
use crate::kinds::value::{Read, Write};

fn keys() -> Keys {
    Keys::new("scheduling.k8s.io", "priorityclasses", false)
}

/// Gives a new pod the priority of its class; without one, that of the default class, if there is one.
pub(super) async fn admit(call: &Call<'_>, pod: &mut Value) -> Result<(), Status> {
    let wanted = pod.at("spec").text("priorityClassName");
    let class = if wanted.is_empty() {
        default_class(call).await?.unwrap_or_default()
    } else {
        let found = lookup::get(call, &keys(), None, wanted).await?;
        let why = format!("no PriorityClass with name {wanted} was found");
        found.ok_or_else(|| forbid(call, pod, why))?
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
        return Err(forbid(call, pod, why));
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
        return Err(forbid(call, pod, why));
    }
    let spec = pod.object("spec");
    let name = Meta::of(&class).name();
    if !name.is_empty() {
        spec.set("priorityClassName", name);
    }
    spec.set("priority", computed);
    spec.set("preemptionPolicy", policy);
    Ok(())
}

/// What was computed for a pod stays, if whoever writes it again leaves it out.
pub(super) fn admit_again(new: &mut Value, old: &Value) {
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
pub(super) async fn validate_class(call: &Call<'_>, class: &Value) -> Result<(), Status> {
    if !class.is_set("globalDefault") {
        return Ok(());
    }
    let own = Meta::of(class).name();
    match default_class(call).await? {
        Some(other) if Meta::of(&other).name() != own || call.name().is_empty() => {
            let why = format_args!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                Meta::of(&other).name()
            );
            Err(forbid(call, class, why))
        }
        _ => Ok(()),
    }
}
