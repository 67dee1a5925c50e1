//! LimitRanger: the resources of containers that set none, and bounds for all.
//!
//! Follows Kubernetes 1.36:
//! - `plugin/pkg/admission/limitranger/admission.go`

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::quantity::Quantity;
use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::{Attributes, Mutate, Operation, Plugin, lookup};
use crate::catalog::keys::Keys;
use crate::kinds::pod::defaults;
use crate::kinds::resources::amount;
use crate::kinds::value::{Read, Write};
use crate::state::call::Call;

/// Tells what a limit range has set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub(super) type Amounts = BTreeMap<String, Quantity>;

/// What something asks for.
#[derive(Default)]
struct ResourceRequirements {
    requests: Amounts,
    limits: Amounts,
}

pub(super) const LIMIT_RANGER: Plugin = Plugin {
    name: "LimitRanger",
    handles,
    mutate: Some(Mutate::Later(|attributes, object| {
        Box::pin(mutate(attributes, object))
    })),
    validate: Some(|attributes, object, _| Box::pin(validate(attributes, object))),
};

/// Whether ranges bound what is written (`SupportsAttributes`): what a pod asks
/// for can only change through `/resize`. An object that is going is let go.
fn handles(attributes: &Attributes<'_>) -> bool {
    let goes = |old: &Value| Meta::new(old).deletion_timestamp().is_some();
    let bounds = match attributes.operation {
        Operation::Create => is_pod(attributes) || is_claim(attributes),
        Operation::Update => attributes.is_of("", "pods", "resize") || is_claim(attributes),
        Operation::Delete | Operation::Connect => false,
    };
    bounds && !attributes.old.is_some_and(goes)
}

fn is_pod(attributes: &Attributes<'_>) -> bool {
    attributes.is_of("", "pods", "")
}

fn is_claim(attributes: &Attributes<'_>) -> bool {
    attributes.is_of("", "persistentvolumeclaims", "")
}

async fn ranges(call: &Call<'_>) -> Result<Vec<Arc<Value>>, Status> {
    let keys = Keys::new("", "limitranges", true);
    lookup::list(call, &keys, call.namespace()).await
}

/// Gives the containers of a pod what the ranges of its namespace say by default.
async fn mutate(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Status> {
    if is_claim(attributes) || pod.at("spec").is_null() {
        return Ok(());
    }
    let mut is_changed = false;
    for range in ranges(attributes.call).await? {
        is_changed |= default_containers(&range, pod);
    }
    if is_changed {
        // The pod as a whole asks for what its containers got.
        defaults::pod(pod);
    }
    Ok(())
}

/// Gives containers what one range says; returns whether any lacked something.
fn default_containers(range: &Value, pod: &mut Value) -> bool {
    let limits = range.at("spec").items("limits").iter();
    let of_containers = limits.filter(|limit| limit.text("type") == "Container");
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    for limit in of_containers {
        requests.extend(limit.entries("defaultRequest"));
        limits.extend(limit.entries("default"));
    }
    let mut told = Vec::new();
    let spec = pod.object("spec");
    for (list, what) in [
        ("containers", "container"),
        ("initContainers", "init container"),
    ] {
        for container in spec.items_mut(list) {
            let name = container.text("name").to_owned();
            for (key, defaults, word) in [
                ("requests", &requests, "request"),
                ("limits", &limits, "limit"),
            ] {
                let own = container.at("resources").at(key);
                let missing: Vec<&str> = defaults
                    .keys()
                    .copied()
                    .filter(|resource| own.get(resource).is_none())
                    .collect();
                if missing.is_empty() {
                    continue;
                }
                told.push(format!("{} {word} for {what} {name}", missing.join(", ")));
                let own = container.object("resources").object(key);
                for resource in missing {
                    own.set(resource, defaults[resource].clone());
                }
            }
        }
    }
    let is_changed = !told.is_empty();
    if is_changed {
        let text = format!("LimitRanger plugin set: {}", told.join("; "));
        pod.object("metadata")
            .object("annotations")
            .set(ANNOTATION, text);
    }
    is_changed
}

/// Refuses what asks for less or more than the ranges of its namespace allow.
async fn validate(attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
    let faults = match is_claim(attributes) {
        true => claim_faults,
        false => pod_faults,
    };
    for range in ranges(attributes.call).await? {
        refuse(attributes, object, faults(&range, object.at("spec")))?;
    }
    Ok(())
}

/// What is wrong with a claim, which asks for storage.
fn claim_faults(range: &Value, spec: &Value) -> Vec<String> {
    let asked = ResourceRequirements {
        requests: amounts(spec.at("resources").at("requests")),
        limits: Amounts::new(),
    };
    let mut faults = Vec::new();
    for limit in range.at("spec").items("limits") {
        if limit.text("type") == "PersistentVolumeClaim" {
            let rule = Rule { limit };
            faults.extend(rule.below_minimum(&asked));
            faults.extend(rule.requests_above_maximum(&asked));
        }
    }
    faults
}

fn refuse(
    attributes: &Attributes<'_>,
    object: &Value,
    mut faults: Vec<String>,
) -> Result<(), Status> {
    let mut seen = Vec::new();
    faults.retain(|fault| {
        let is_new = !seen.contains(fault);
        seen.push(fault.clone());
        is_new
    });
    match faults.as_slice() {
        [] => Ok(()),
        [fault] => Err(attributes.forbid(object, fault)),
        faults => Err(attributes.forbid(object, format_args!("[{}]", faults.join(", ")))),
    }
}

fn pod_faults(range: &Value, spec: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in range.at("spec").items("limits") {
        let rule = Rule { limit };
        match limit.text("type") {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in spec.items(list) {
                        rule.check(&mut faults, &asked_by(container));
                    }
                }
            }
            "Pod" => rule.check(&mut faults, &asked_by_pod(spec)),
            _ => {}
        }
    }
    faults
}

pub(super) fn amounts(list: &Value) -> Amounts {
    let members = list.as_object().into_iter().flatten();
    members
        .map(|(name, value)| (name.clone(), amount(value)))
        .collect()
}

fn asked_by(container: &Value) -> ResourceRequirements {
    let resources = container.at("resources");
    ResourceRequirements {
        requests: amounts(resources.at("requests")),
        limits: amounts(resources.at("limits")),
    }
}

/// What a pod asks for as a whole: all its containers together, or more if an init container needs it.
fn asked_by_pod(spec: &Value) -> ResourceRequirements {
    ResourceRequirements {
        requests: requested_by_pod(spec),
        limits: total(spec, "limits"),
    }
}

/// The requests of [`asked_by_pod`].
pub(super) fn requested_by_pod(spec: &Value) -> Amounts {
    total(spec, "requests")
}

fn total(spec: &Value, key: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in spec.items("containers") {
        add(&mut total, &amounts(container.at("resources").at(key)));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let own = amounts(container.at("resources").at(key));
        let mut needed = sidecars.clone();
        add(&mut needed, &own);
        if container.text("restartPolicy") == "Always" {
            add(&mut total, &own);
            sidecars = needed.clone();
        }
        raise(&mut most, &needed);
    }
    raise(&mut total, &most);
    let whole = amounts(spec.at("resources").at(key));
    let of_pods = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    total.extend(whole.into_iter().filter(|(name, _)| of_pods(name)));
    total
}

pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => {
                total.insert(name.clone(), amount.clone());
            }
        }
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if total.get(name).is_none_or(|own| own.cmp(amount).is_lt()) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// One entry of a limit range.
struct Rule<'a> {
    limit: &'a Value,
}

impl Rule<'_> {
    fn check(&self, faults: &mut Vec<String>, asked: &ResourceRequirements) {
        faults.extend(self.below_minimum(asked));
        faults.extend(self.above_maximum(asked));
        faults.extend(self.above_ratio(asked));
    }

    /// What the entry says of each resource under `key`.
    fn bounds(&self, key: &str) -> impl Iterator<Item = (String, Quantity)> {
        amounts(self.limit.at(key)).into_iter()
    }

    fn below_minimum(&self, asked: &ResourceRequirements) -> Vec<String> {
        let per = self.limit.text("type");
        let faults = self.bounds("min").filter_map(|(name, least)| {
            let usage = format!("minimum {name} usage per {per} is {least}");
            match (asked.requests.get(&name), asked.limits.get(&name)) {
                (None, _) => Some(format!("{usage}.  No request is specified")),
                (Some(request), _) if request.cmp(&least) == Ordering::Less => {
                    Some(format!("{usage}, but request is {request}"))
                }
                (_, Some(limit)) if limit.cmp(&least) == Ordering::Less => {
                    Some(format!("{usage}, but limit is {limit}"))
                }
                _ => None,
            }
        });
        faults.collect()
    }

    fn above_maximum(&self, asked: &ResourceRequirements) -> Vec<String> {
        let per = self.limit.text("type");
        let faults = self.bounds("max").filter_map(|(name, most)| {
            let usage = format!("maximum {name} usage per {per} is {most}");
            match (asked.limits.get(&name), asked.requests.get(&name)) {
                (None, _) => Some(format!("{usage}.  No limit is specified")),
                (Some(limit), _) if limit.cmp(&most) == Ordering::Greater => {
                    Some(format!("{usage}, but limit is {limit}"))
                }
                (_, Some(request)) if request.cmp(&most) == Ordering::Greater => {
                    Some(format!("{usage}, but request is {request}"))
                }
                _ => None,
            }
        });
        faults.collect()
    }

    fn requests_above_maximum(&self, asked: &ResourceRequirements) -> Vec<String> {
        let per = self.limit.text("type");
        let faults = self.bounds("max").filter_map(|(name, most)| {
            let usage = format!("maximum {name} usage per {per} is {most}");
            match asked.requests.get(&name) {
                None => Some(format!("{usage}.  No request is specified")),
                Some(request) if request.cmp(&most) == Ordering::Greater => {
                    Some(format!("{usage}, but request is {request}"))
                }
                Some(_) => None,
            }
        });
        faults.collect()
    }

    #[allow(clippy::cast_precision_loss)] // the ratio is shown, and compared, as a float
    fn above_ratio(&self, asked: &ResourceRequirements) -> Vec<String> {
        let per = self.limit.text("type");
        let set = |list: &Amounts, name: &str| {
            let amount = list.get(name).map(Quantity::milli);
            amount.filter(|amount| *amount != 0)
        };
        let faults = self
            .bounds("maxLimitRequestRatio")
            .filter_map(|(name, most)| {
                let ratio = format!("{name} max limit to request ratio per {per} is {most}");
                let Some(request) = set(&asked.requests, &name) else {
                    return Some(format!(
                        "{ratio}, but no request is specified or request is 0"
                    ));
                };
                let Some(limit) = set(&asked.limits, &name) else {
                    return Some(format!("{ratio}, but no limit is specified or limit is 0"));
                };
                let found = limit as f64 / request as f64;
                (found * 1000.0 > most.milli() as f64)
                    .then(|| format!("{ratio}, but provided ratio is {found:.6}"))
            });
        faults.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_get_what_they_leave_open_and_are_told() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"},
                                               "defaultRequest": {"cpu": "1", "memory": "1Gi"}}]}});
        let mut pod = json!({"spec": {"containers": [
            {"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}});
        default_containers(&range, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu, memory request for container a; cpu limit for container a; \
             memory request for container b"
        );
    }

    #[test]
    fn bounds_hold_for_containers_and_for_their_sum() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "4"}},
            {"type": "Pod", "max": {"cpu": "1500m"}},
        ]}});
        let container = |request: &str, limit: &str| json!({"name": "c", "resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}});
        let cases = [
            (vec![container("500m", "1")], vec![]),
            (
                vec![container("50m", "200m")],
                vec!["minimum cpu usage per Container is 100m, but request is 50m"],
            ),
            (
                vec![container("100m", "1")],
                vec![
                    "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000",
                ],
            ),
            (
                vec![container("1", "1"), container("1", "1")],
                vec!["maximum cpu usage per Pod is 1500m, but limit is 2"],
            ),
        ];
        for (containers, expected) in cases {
            assert_eq!(
                pod_faults(&range, &json!({"containers": containers})),
                expected
            );
        }
    }
}
