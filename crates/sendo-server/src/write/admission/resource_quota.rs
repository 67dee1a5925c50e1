//! ResourceQuota: what objects use together, in a namespace, is limited by its quotas.
//!
//! What an object uses is added to what its quotas have in use in the transaction that writes the
//! object, which fails if a quota has changed since it was read: so no quota is ever exceeded,
//! however many write at once, and what is not written is not counted. Only the charge is then
//! made again ([`charge`]), and not the steps before it. Kubernetes writes the quota first, and
//! counts what is refused afterwards until its controller has counted again.
//!
//! What is freed is not this step's: the controller of quotas counts again.
//!
//! No resource is limited where there is no quota: the configuration of this plug-in is empty, as
//! by default in Kubernetes (`limitedResources`).
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/admission.go`: `Validate`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go`: `CheckRequest`
//! - `pkg/quota/v1/evaluator/core/persistent_volume_claims.go`: `Handles`
//! - `pkg/quota/v1/evaluator/core/pods.go`: `Handles`
//! - `pkg/quota/v1/evaluator/core/resource_claims.go`: `Handles`
//! - `pkg/quota/v1/evaluator/core/services.go`: `Handles`

use std::collections::BTreeSet;
use std::sync::Arc;

use sendo_apimachinery::quota::{self, Amounts, DeviceClasses, Evaluator, Surroundings};
use sendo_apimachinery::{Meta, Status};
use sendo_store::{At, Entry, KeyRange};
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::catalog::Resource;
use crate::catalog::keys::Keys;
use crate::catalog::storage::{backend, time_text};
use crate::catalog::stored_form;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::write::field_managers;

pub(super) const RESOURCE_QUOTA: Plugin = Plugin {
    name: "ResourceQuota",
    handles,
    mutate: None,
    validate: Some(|attributes, object, claims| Box::pin(charge(attributes, object, claims))),
};

/// Whether a request can use more of a quota. A namespace is created in none.
fn handles(attributes: &Attributes<'_>) -> bool {
    let call = attributes.call;
    if call.namespace().is_none() {
        return false;
    }
    let (is_create, is_update) = (
        attributes.operation == Operation::Create,
        attributes.operation == Operation::Update,
    );
    let facts = &call.resource.facts;
    match (&*facts.group, &*facts.plural, attributes.subresource()) {
        // An update of a pod matters if it changes its scope.
        ("", "pods", "") => is_create || is_update,
        ("", "pods", "resize") | ("", "persistentvolumeclaims", "status") => is_update,
        ("", "services" | "persistentvolumeclaims", "")
        | ("resource.k8s.io", "resourceclaims", "") => is_create || is_update,
        (_, _, "") => is_create,
        _ => false,
    }
}

/// Charges the quotas of its namespace for an object: claims that their use is what it then is.
///
/// What was charged before, by an attempt that found a quota changed, is not claimed any more.
pub(crate) async fn charge(
    attributes: &Attributes<'_>,
    object: &Value,
    claims: &mut Claims,
) -> Result<(), Status> {
    claims.withdraw_replacements();
    let call = attributes.call;
    if !handles(attributes) || leaves_scope_as_it_is(attributes, object) {
        return Ok(());
    }
    let entries = quotas(call).await?;
    if entries.is_empty() {
        return Ok(());
    }
    let facts = &call.resource.facts;
    let Some(evaluator) = Evaluator::new(&facts.group, &facts.plural) else {
        return Ok(());
    };
    let quotas: Vec<Arc<Value>> = entries.iter().map(|e| stored_form::object(e)).collect();
    let classes = device_classes(call, &quotas).await?;
    let charging = Charging {
        attributes,
        object,
        evaluator: &evaluator,
        surroundings: Surroundings {
            now: call.now(),
            classes: &classes,
        },
    };
    // All quotas are asked whether they are known and enough is said, before one is charged.
    let mut charges = Vec::new();
    for (entry, quota) in entries.iter().zip(&quotas) {
        if evaluator.matches(quota, object, &classes) {
            charging.check(quota)?;
            charges.push((entry, quota));
        }
    }
    for (entry, quota) in charges {
        let Some(used) = charging.used_then(quota)? else {
            continue;
        };
        if !attributes.is_dry_run() {
            claim(call, claims, entry, &used);
        }
    }
    Ok(())
}

/// A pod's update uses nothing more but where it changes whether the pod ends by itself.
fn leaves_scope_as_it_is(attributes: &Attributes<'_>, pod: &Value) -> bool {
    attributes.operation == Operation::Update
        && attributes.is_of("", "pods", "")
        && attributes
            .old
            .is_some_and(|old| quota::is_terminating(old) == quota::is_terminating(pod))
}

async fn quotas(call: &Call<'_>) -> Result<Vec<Arc<Entry>>, Status> {
    let range = KeyRange::prefix(&keys().collection(call.namespace()));
    let page = call.server.store.range(range, At::Latest, None).await;
    Ok(page.map_err(backend)?.entries)
}

fn keys() -> Keys {
    Keys::new("", "resourcequotas", true)
}

/// The classes of devices, if a quota is limited by what they stand for.
async fn device_classes(call: &Call<'_>, quotas: &[Arc<Value>]) -> Result<DeviceClasses, Status> {
    let mut limited = quotas.iter().flat_map(|quota| hard(quota));
    if !limited.any(DeviceClasses::matter_to) {
        return Ok(DeviceClasses::default());
    }
    let keys = Keys::new("resource.k8s.io", "deviceclasses", false);
    let classes = lookup::list(call, &keys, None).await?;
    Ok(DeviceClasses::new(classes.iter().map(|class| &**class)))
}

/// What a quota limits, as far as its use is being counted.
fn hard(quota: &Value) -> impl Iterator<Item = &str> {
    quota::names(&quota["status"]["hard"])
}

/// The use of quotas by one object.
struct Charging<'a> {
    attributes: &'a Attributes<'a>,
    object: &'a Value,
    evaluator: &'a Evaluator,
    surroundings: Surroundings<'a>,
}

impl Charging<'_> {
    /// Refuses an object that leaves open what a quota limits, and all of them while its use is
    /// not known.
    fn check(&self, quota: &Value) -> Result<(), Status> {
        let limited = self.limited(quota);
        let name = Meta::new(quota).name();
        if let Err(fault) = self.evaluator.check(&limited, self.object) {
            return Err(self.forbid(format_args!("failed quota: {name}: {fault}")));
        }
        let used = &quota["status"]["used"];
        if limited.iter().any(|resource| used.get(resource).is_none()) {
            let limited: Vec<&str> = limited.into_iter().collect();
            let limited = limited.join(",");
            let why = format_args!("status unknown for quota: {name}, resources: {limited}");
            return Err(self.forbid(why));
        }
        let usage = self.usage(self.object);
        let negative = usage.iter().filter(|(_, amount)| amount.is_negative());
        let negative: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            let negative = negative.join(",");
            let why = format_args!("quota usage is negative for resource(s): {negative}");
            return Err(self.forbid(why));
        }
        Ok(())
    }

    /// What is in use of a quota with the object, or the refusal of it; `None` if that is what is
    /// in use without it.
    fn used_then(&self, quota: &Value) -> Result<Option<Amounts>, Status> {
        let hard = quota::read(&quota["status"]["hard"]);
        let used = quota::read(&quota["status"]["used"]);
        let requested = quota::mask(&self.difference(quota), hard.keys().map(String::as_str));
        if requested.is_empty() {
            return Ok(None);
        }
        let mut then = used.clone();
        quota::add(&mut then, &requested);
        // What is reported of an object is not up to who reports it.
        if self.attributes.subresource() != "status" {
            let asked = quota::mask(&then, requested.keys().map(String::as_str));
            let exceeded = quota::exceeding(&asked, &hard);
            if !exceeded.is_empty() {
                let told =
                    |amounts: &Amounts| told(&quota::mask(amounts, exceeded.iter().copied()));
                return Err(self.forbid(format_args!(
                    "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                    Meta::new(quota).name(),
                    told(&requested),
                    told(&used),
                    told(&hard)
                )));
            }
        }
        Ok(Some(then))
    }

    /// What the object uses more than before. What was outside of a quota's scope was not counted.
    fn difference(&self, quota: &Value) -> Amounts {
        let usage = self.usage(self.object);
        let classes = self.surroundings.classes;
        let counted = |old: &&Value| self.evaluator.matches(quota, old, classes);
        let before = match self.attributes.old.filter(counted) {
            Some(old) => self.usage(old),
            None => Amounts::new(),
        };
        quota::subtract_to_zero(usage, &before)
    }

    fn usage(&self, object: &Value) -> Amounts {
        self.evaluator.usage(object, self.surroundings)
    }

    fn limited<'q>(&self, quota: &'q Value) -> BTreeSet<&'q str> {
        self.evaluator
            .matching(hard(quota), self.surroundings.classes)
    }

    fn forbid(&self, why: std::fmt::Arguments<'_>) -> Status {
        self.attributes.forbid(self.object, why)
    }
}

/// Amounts in a message (`prettyPrint`).
fn told(amounts: &Amounts) -> String {
    let each = amounts
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"));
    each.collect::<Vec<_>>().join(",")
}

/// Claims that this much of a quota is in use, if it still is as it was read.
fn claim(call: &Call<'_>, claims: &mut Claims, entry: &Entry, used: &Amounts) {
    let server = call.server;
    let catalog = server.catalog();
    let resource: &Resource = catalog
        .find("", "v1", "resourcequotas")
        .expect("ResourceQuotas are built in");
    let live = resource.decode(&entry.value, entry.modified);
    let mut new = live.clone();
    new["status"]["used"] = quota::list(used);
    let now = time_text(call.now());
    field_managers::update_own(server, resource, "status", &live, &mut new, &now);
    let value = server.encode(resource, &mut new);
    claims.replace(entry.key.clone(), entry.modified, value);
}
