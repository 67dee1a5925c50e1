//! What claims of persistent volumes use: storage, as a whole and by storage class.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/quota/v1/evaluator/core/persistent_volume_claims.go`
//! - `staging/src/k8s.io/component-helpers/storage/volume/helpers.go`: `GetPersistentVolumeClaimClass`

use serde_json::Value;

use super::ScopeRequirement;
use super::amounts::{self, Amounts};
use crate::meta::Meta;
use crate::quantity::Quantity;

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Follows the name of a storage class.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Where a claim named its class before it had a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether claims use something of that name.
pub(super) fn uses(name: &str) -> bool {
    let resource = name
        .rsplit_once(OF_CLASS)
        .map_or(name, |(_, resource)| resource);
    [CLAIMS, STORAGE].contains(&resource)
}

pub(super) fn usage(claim: &Value) -> Amounts {
    let of_spec = claim["spec"]["storageClassName"].as_str();
    let class = Meta::new(claim).annotation(CLASS_ANNOTATION).or(of_spec);
    let class = class.filter(|class| !class.is_empty());
    let mut usage = Amounts::from([amounts::one(CLAIMS)]);
    if let Some(class) = class {
        usage.extend([amounts::one(&format!("{class}{OF_CLASS}{CLAIMS}"))]);
    }
    if let Some(storage) = storage(claim) {
        if let Some(class) = class {
            usage.insert(format!("{class}{OF_CLASS}{STORAGE}"), storage.clone());
        }
        usage.insert(STORAGE.to_owned(), storage);
    }
    usage
}

/// What it asks for, in whole bytes, or what a failed growth has left it with, if that is more.
fn storage(claim: &Value) -> Option<Quantity> {
    let requested = whole(&claim["spec"]["resources"]["requests"]["storage"])?;
    let allocated = whole(&claim["status"]["allocatedResources"]["storage"]);
    Some(allocated.into_iter().fold(requested, Quantity::max))
}

fn whole(value: &Value) -> Option<Quantity> {
    if value.is_null() {
        return None;
    }
    let amount = amounts::amount(value);
    Some(match amount.as_integer() {
        Some(_) => amount,
        None => Quantity::from_units(amount.units(), amount.format()),
    })
}

/// Only the classes of volume attributes make a scope of claims: the one that is asked for, the
/// one that is in force, and the one that it changes to.
pub(super) fn is_in_scope(claim: &Value, selector: &ScopeRequirement<'_>) -> bool {
    if selector.scope != "VolumeAttributesClass" {
        return false;
    }
    let status = &claim["status"];
    let classes = [
        &claim["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let named = classes.iter().filter_map(|class| class.as_str());
    let mut named = named.filter(|class| !class.is_empty()).peekable();
    match named.peek() {
        None => selector.holds(None),
        Some(_) => named.any(|class| selector.holds(Some(class))),
    }
}
