//! How many pods of a budget there should be, by what controls them.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/disruption/disruption.go`: `getExpectedPodCount`, `getExpectedScale`,
//!   `finders`, `getScaleController`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::DynamicObject;
use sendo::{Context, Error, ObjectExt, Result};

use crate::pods::Pod;

/// What there should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) pods: i32,
    /// How many pods have to stay healthy.
    pub(super) healthy: i32,
    /// Whether there are pods that nothing controls, and that are not in `pods`.
    pub(super) has_unmanaged: bool,
}

/// The number, or that percentage of `total`, rounded up.
fn scaled(value: &IntOrString, total: i32) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|text| text.parse::<i32>().ok());
            (percent.unwrap_or(0) * total + 99) / 100
        }
    }
}

/// How many pods of the budget there should be, and how many of them healthy.
pub(super) async fn count(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    cx: &Context,
) -> Result<Expected> {
    let spec = budget.spec.clone().unwrap_or_default();
    if let Some(max_unavailable) = spec.max_unavailable {
        let (expected, has_unmanaged) = scale(pods, cx).await?;
        return Ok(Expected {
            pods: expected,
            healthy: (expected - scaled(&max_unavailable, expected)).max(0),
            has_unmanaged,
        });
    }
    match spec.min_available {
        Some(IntOrString::Int(healthy)) => Ok(Expected {
            pods: i32::try_from(pods.len()).unwrap_or(i32::MAX),
            healthy,
            has_unmanaged: false,
        }),
        Some(percent) => {
            let (expected, has_unmanaged) = scale(pods, cx).await?;
            Ok(Expected {
                pods: expected,
                healthy: scaled(&percent, expected),
                has_unmanaged,
            })
        }
        None => Ok(Expected::default()),
    }
}

/// The replicas of all that controls the pods, and whether there are pods that nothing controls.
async fn scale(pods: &[Arc<Pod>], cx: &Context) -> Result<(i32, bool)> {
    let mut replicas: BTreeMap<String, i32> = BTreeMap::new();
    let mut seen = Vec::new();
    let mut has_unmanaged = false;
    for pod in pods {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else {
            has_unmanaged = true;
            continue;
        };
        if seen.contains(&owner.uid) {
            continue;
        }
        seen.push(owner.uid.clone());
        let Some((uid, count)) = replicas_of(pod, owner, cx).await? else {
            return Err(Error::message(format!(
                "found no controllers for pod {:?}",
                pod.name()
            )));
        };
        replicas.insert(uid, count);
    }
    Ok((replicas.values().sum(), has_unmanaged))
}

/// The uid and the replicas of what scales the pod.
async fn replicas_of(
    pod: &Pod,
    owner: &OwnerReference,
    cx: &Context,
) -> Result<Option<(String, i32)>> {
    let key = pod.key_beside(&owner.name);
    let group = owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    macro_rules! replicas {
        ($kind:ty) => {
            cx.get::<$kind>(&key)
                .filter(|found| found.uid().as_str() == owner.uid)
                .map(|found| {
                    let replicas = found.spec.as_ref().and_then(|spec| spec.replicas);
                    (owner.uid.clone(), replicas.unwrap_or(1))
                })
        };
    }
    match (group, owner.kind.as_str()) {
        ("", "ReplicationController") => Ok(replicas!(ReplicationController)),
        ("apps", "StatefulSet") => Ok(replicas!(StatefulSet)),
        ("apps", "ReplicaSet") => {
            // A rollout has several ReplicaSets; its Deployment says how many pods it wants.
            let set = cx.get::<ReplicaSet>(&key);
            let deployment = set.and_then(|set| {
                let uid = set.controller_of::<Deployment>()?;
                let all = cx.list::<Deployment>().in_namespace(set.namespace()?);
                all.filter(move |deployment| deployment.uid() == uid)
                    .first()
            });
            Ok(match deployment {
                Some(deployment) => {
                    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                    Some((deployment.uid().to_string(), replicas.unwrap_or(1)))
                }
                None => replicas!(ReplicaSet),
            })
        }
        _ => of_other_kind(pod, owner, group, cx).await,
    }
}

/// The replicas of an object of any kind that can be scaled.
async fn of_other_kind(
    pod: &Pod,
    owner: &OwnerReference,
    group: &str,
    cx: &Context,
) -> Result<Option<(String, i32)>> {
    let kinds = cx.served_kinds().await?;
    let served = kinds
        .into_iter()
        .find(|served| served.kind.group == group && served.kind.kind == owner.kind);
    let Some(served) = served else {
        return Ok(None);
    };
    let resource = match group {
        "" => served.kind.plural.clone(),
        group => format!("{}.{group}", served.kind.plural),
    };
    let objects = cx.client().of_kind::<DynamicObject>(served.kind);
    let scale = objects.subresource(&pod.key_beside(&owner.name), "scale")?;
    match scale.get::<Scale>().await {
        Ok(scale) if scale.metadata.uid.as_deref() == Some(&owner.uid) => {
            let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
            Ok(Some((owner.uid.clone(), replicas)))
        }
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => {
            let message = format!("{resource} does not implement the scale subresource");
            Err(Error::message(message))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_rounded_up() {
        assert_eq!(scaled(&IntOrString::Int(3), 10), 3);
        assert_eq!(scaled(&IntOrString::String("25%".to_owned()), 10), 3);
        assert_eq!(scaled(&IntOrString::String("50%".to_owned()), 4), 2);
    }
}
