//! What is in use of a quota now.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go`: `CalculateUsage`

use std::collections::BTreeSet;

use kube::core::DynamicObject;
use sendo::source::AnyMeta;
use sendo::{Context, Kind, Object, Result, Selection, client};
use sendo_apimachinery::quota::{self, Amounts, DeviceClasses, Evaluator, Surroundings};
use serde_json::{Value, json};

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// What is in use, of all that could be counted.
    pub(super) used: Amounts,
    /// Why a kind could not be listed.
    pub(super) failure: Option<client::Error>,
    /// Whether the quota limits something that no kind uses that is served now.
    pub(super) awaits_kind: bool,
}

/// Counts what is in use of all that a quota limits.
pub(super) async fn count(quota: &Value, hard: &Amounts, cx: &Context) -> Result<Count> {
    let names = || hard.keys().map(String::as_str);
    let classes = device_classes(names(), cx).await?;
    let surroundings = Surroundings {
        now: cx.now(),
        classes: &classes,
    };
    let mut count = Count::default();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for kind in cx.reader().watched_kinds::<AnyMeta>() {
        // A resource that is watched in two versions is counted once.
        if !seen.insert((kind.group.clone(), kind.plural.clone())) {
            continue;
        }
        let Some(evaluator) = Evaluator::new(&kind.group, &kind.plural) else {
            continue;
        };
        let limited = evaluator.matching(names(), &classes);
        if limited.is_empty() {
            continue;
        }
        match total(quota, &kind, &evaluator, &limited, surroundings, cx).await {
            // Its objects live in no namespace, or its definition was deleted.
            Err(error) if error.is_not_served() || error.is_not_found() => {}
            Err(error) => {
                known.extend(&limited);
                count.failure = Some(error);
            }
            Ok(used) => {
                known.extend(&limited);
                quota::add(&mut count.used, &used);
            }
        }
    }
    count.awaits_kind = names().any(|name| !known.contains(name));
    Ok(count)
}

/// What the objects of a kind use.
async fn total(
    quota: &Value,
    kind: &Kind,
    evaluator: &Evaluator,
    limited: &BTreeSet<&str>,
    surroundings: Surroundings<'_>,
    cx: &Context,
) -> Result<Amounts, client::Error> {
    let namespace = quota["metadata"]["namespace"].as_str().unwrap_or_default();
    if evaluator.counts_objects_only() {
        let objects = list::<AnyMeta>(kind, namespace, cx).await?;
        return Ok(evaluator.total_of_count(quota, limited, objects.len()));
    }
    let objects = list::<DynamicObject>(kind, namespace, cx).await?;
    let objects: Vec<Value> = objects.iter().map(|object| json!(object)).collect();
    Ok(evaluator.total(quota, limited, &objects, surroundings))
}

async fn list<K: Object>(
    kind: &Kind,
    namespace: &str,
    cx: &Context,
) -> Result<Vec<K>, client::Error> {
    let client = cx.client().of_kind::<K>(kind.clone());
    client.live_list(&Selection::in_namespace(namespace)).await
}

/// The classes of devices, if one of these limits depends on them.
async fn device_classes(
    mut names: impl Iterator<Item = &str>,
    cx: &Context,
) -> Result<DeviceClasses> {
    if !names.any(DeviceClasses::matter_to) {
        return Ok(DeviceClasses::default());
    }
    let kind = Kind {
        group: "resource.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "DeviceClass".to_owned(),
        plural: "deviceclasses".to_owned(),
    };
    let client = cx.client().of_kind::<DynamicObject>(kind);
    match client.live_list(&Selection::default()).await {
        Err(error) if error.is_not_served() => Ok(DeviceClasses::default()),
        classes => {
            let classes: Vec<Value> = classes?.iter().map(|class| json!(class)).collect();
            Ok(DeviceClasses::new(&classes))
        }
    }
}
