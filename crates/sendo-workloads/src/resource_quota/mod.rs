//! Counts what is in use of ResourceQuotas.
//!
//! The API server adds to the use of a quota as objects are written, in the same transaction. This
//! controller sets what a quota limits once its spec says so, and counts again what is in use when
//! something is freed: an object is deleted, a pod ends. Each quota is counted again every five
//! minutes besides, because a pod that should have ended by now frees what it used without any
//! event.
//!
//! Objects are listed from the API server after the quota was read from it, and the quota is
//! written only if it has not changed since: an object that was written in between has changed it.
//! So a count never misses an object that was already charged, however far behind the cache is.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/resourcequota/resource_quota_controller.go`: `syncResourceQuota`,
//!   `replenishQuota`
//! - `pkg/controller/resourcequota/resource_quota_monitor.go`
//! - `pkg/quota/v1/install/update_filter.go`: `DefaultUpdateFilter`

mod usage;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, ResourceQuota, ResourceQuotaStatus, Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sendo::handler::{map, map_object};
use sendo::predicate;
use sendo::source::{AnyMeta, every_kind, kind};
use sendo::{
    Action, Context, Controller, Event, Kind, ObjectExt, ObjectKey, Reader, Result, Selection,
};
use sendo_apimachinery::quota::{self, Amounts, DeviceClasses, Evaluator};
use serde_json::{Value, json};

use crate::pods::{self, Pod};

/// How often each quota is counted again though nothing seems to have changed.
const RESYNC: Duration = Duration::from_secs(300);

/// How soon it is counted again while it limits objects of a kind that is not served.
const KIND_RESCAN: Duration = Duration::from_secs(30);

/// The controller of quotas.
pub fn controller() -> Controller {
    let limits_changed =
        predicate::changed(|old: &ResourceQuota, new| hard_of_spec(old) != hard_of_spec(new));
    let pod_frees = predicate::changed(pod_frees) & predicate::updated();
    let service_frees =
        predicate::changed(|old: &Service, new| frees("services", old, new)) & predicate::updated();
    let claim_frees = predicate::changed(|old: &PersistentVolumeClaim, new| {
        frees("persistentvolumeclaims", old, new)
    }) & predicate::updated();
    Controller::new::<ResourceQuota>()
        .named("resourcequota-controller")
        .when(limits_changed)
        .watches(every_kind(), map(quotas_of_deleted))
        .watches(
            kind::<Pod>().when(pod_frees),
            map_object(|pod: &Pod, cx: &Reader| quotas_of("", "pods", pod.namespace(), cx)),
        )
        .watches(
            kind::<Service>().when(service_frees),
            map_object(|service: &Service, cx: &Reader| {
                quotas_of("", "services", service.namespace(), cx)
            }),
        )
        .watches(
            kind::<PersistentVolumeClaim>().when(claim_frees),
            map_object(|claim: &PersistentVolumeClaim, cx: &Reader| {
                quotas_of("", "persistentvolumeclaims", claim.namespace(), cx)
            }),
        )
        .workers(5)
        .reconcile(sync)
}

/// Whether a pod's update may free something: it has ended, its scope is another, or what its
/// containers have is.
fn pod_frees(old: &Pod, new: &Pod) -> bool {
    pods::has_ended(old) != pods::has_ended(new)
        || pods::ends_by_itself(old) != pods::ends_by_itself(new)
        || pods::resources_in_force(old) != pods::resources_in_force(new)
}

/// Whether an update leaves less in use of anything, or another class of it.
fn frees<K: serde::Serialize>(plural: &str, old: &K, new: &K) -> bool {
    let Some(evaluator) = Evaluator::new("", plural) else {
        return false;
    };
    // Neither services nor claims depend on these.
    let classes = DeviceClasses::default();
    let surroundings = quota::Surroundings {
        now: sendo::Timestamp::UNIX_EPOCH,
        classes: &classes,
    };
    let (old, new) = (json!(old), json!(new));
    evaluator.usage(&old, surroundings) != evaluator.usage(&new, surroundings)
        || attribute_classes(&old) != attribute_classes(&new)
}

/// The classes of volume attributes of a claim, which are scopes of quotas.
fn attribute_classes(claim: &Value) -> [&Value; 3] {
    let status = &claim["status"];
    [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ]
}

/// The quotas of which a deleted object used something.
fn quotas_of_deleted((kind, event): (Kind, Event<AnyMeta>), cx: &Reader) -> Vec<ObjectKey> {
    match event {
        Event::Deleted { object, .. } => {
            quotas_of(&kind.group, &kind.plural, object.namespace(), cx)
        }
        Event::Created { .. } | Event::Updated { .. } => Vec::new(),
    }
}

/// The quotas of a namespace that limit what objects of a resource use.
fn quotas_of(group: &str, plural: &str, namespace: Option<&str>, cx: &Reader) -> Vec<ObjectKey> {
    let (Some(namespace), Some(evaluator)) = (namespace, Evaluator::new(group, plural)) else {
        return Vec::new();
    };
    let counts = |quota: &ResourceQuota| {
        let names = || {
            hard_of_spec(quota)
                .into_iter()
                .flatten()
                .map(|(name, _)| &**name)
        };
        let counts_devices = plural == "resourceclaims" && names().any(DeviceClasses::matter_to);
        counts_devices
            || !evaluator
                .matching(names(), &DeviceClasses::default())
                .is_empty()
    };
    let quotas = cx.list::<ResourceQuota>().in_namespace(namespace);
    quotas.filter(counts).keys()
}

type Hard = std::collections::BTreeMap<String, Quantity>;

fn hard_of_spec(quota: &ResourceQuota) -> Option<&Hard> {
    quota.spec.as_ref()?.hard.as_ref()
}

async fn sync(quota: Arc<ResourceQuota>, cx: Context) -> Result<Action> {
    let namespace = quota.namespace().unwrap_or_default();
    // What the cache has may be older than a change that has to be undone.
    let (live, selection) = (cx.live(), Selection::in_namespace(namespace));
    let all = live.list::<ResourceQuota>(&selection);
    let Some(mut quota) = all.await?.into_iter().find(|q| q.name() == quota.name()) else {
        return Ok(Action::done());
    };
    let shown = json!(quota);
    let (hard, status) = (quota::read(&shown["spec"]["hard"]), &shown["status"]);
    let count = usage::count(&shown, &hard, &cx).await?;

    // What cannot be counted keeps its last figure.
    let mut used = quota::read(&status["used"]);
    used.extend(count.used);
    let used = quota::mask(&used, hard.keys().map(String::as_str));
    if hard != quota::read(&status["hard"]) || used != quota::read(&status["used"]) {
        quota.status = Some(ResourceQuotaStatus {
            hard: Some(quantities(&hard)),
            used: Some(quantities(&used)),
        });
        match cx.client().replace_status(&quota).await {
            Err(error) if error.is_not_found() => return Ok(Action::done()),
            written => drop(written?),
        }
    }
    match count.failure {
        Some(failure) => Err(failure.into()),
        None if count.awaits_kind => Ok(Action::after(KIND_RESCAN)),
        None => Ok(Action::after(RESYNC)),
    }
}

fn quantities(amounts: &Amounts) -> Hard {
    let each = amounts.iter();
    each.map(|(name, amount)| (name.clone(), Quantity(amount.to_string())))
        .collect()
}
