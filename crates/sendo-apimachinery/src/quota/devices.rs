//! What claims of devices use: devices, by class.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/quota/v1/evaluator/core/resource_claims.go`
//! - `staging/src/k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache/extendedresourcecache.go`

use std::collections::BTreeMap;

use serde_json::Value;

use super::amounts::{self, Amounts};
use super::pods;
use crate::meta::Meta;

/// Follows the name of a class.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Followed by the name of a class: the extended resource that each class is.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";
const REQUESTS: &str = "requests.";

/// How many devices a claim can get that asks for all of a class.
const MOST_DEVICES: i64 = 32;

/// The classes of devices, with the extended resources that they stand for.
#[derive(Clone, Debug, Default)]
pub struct DeviceClasses {
    extended_resources: BTreeMap<String, Option<String>>,
}

impl DeviceClasses {
    /// These DeviceClasses.
    pub fn new<'o>(classes: impl IntoIterator<Item = &'o Value>) -> Self {
        let extended = |class: &Value| {
            let name = class["spec"]["extendedResourceName"].as_str();
            (Meta::new(class).name().to_owned(), name.map(str::to_owned))
        };
        DeviceClasses {
            extended_resources: classes.into_iter().map(extended).collect(),
        }
    }

    /// Whether the classes matter to a limit of that name: it is one of an extended resource.
    pub fn matter_to(name: &str) -> bool {
        pods::is_extended_for_quota(name)
    }

    fn has(&self, extended: &str) -> bool {
        match extended.strip_prefix(IMPLICIT) {
            Some(class) => self.extended_resources.contains_key(class),
            None => {
                let mut explicit = self.extended_resources.values();
                explicit.any(|name| name.as_deref() == Some(extended))
            }
        }
    }
}

/// Whether claims use something of that name.
pub(super) fn uses(name: &str, classes: &DeviceClasses) -> bool {
    if name.ends_with(OF_CLASS) {
        return true;
    }
    DeviceClasses::matter_to(name) && name.strip_prefix(REQUESTS).is_some_and(|n| classes.has(n))
}

pub(super) fn usage(claim: &Value, classes: &DeviceClasses) -> Amounts {
    let mut by_class: BTreeMap<&str, i64> = BTreeMap::new();
    let requests = claim["spec"]["devices"]["requests"].as_array();
    for request in requests.into_iter().flatten() {
        for (class, devices) in of_request(request) {
            let sum = by_class.entry(class).or_default();
            *sum = sum.saturating_add(devices);
        }
    }
    let mut usage = Amounts::new();
    for (class, devices) in by_class {
        let devices = amounts::count(usize::try_from(devices).unwrap_or_default());
        usage.insert(format!("{class}{OF_CLASS}"), devices.clone());
        if devices.is_zero() {
            continue;
        }
        usage.insert(format!("{REQUESTS}{IMPLICIT}{class}"), devices.clone());
        if let Some(Some(extended)) = classes.extended_resources.get(class) {
            usage.insert(format!("{REQUESTS}{extended}"), devices);
        }
    }
    usage
}

/// How many devices of each class a request may get: the most that one of its alternatives asks.
fn of_request(request: &Value) -> BTreeMap<&str, i64> {
    let alternatives = request["firstAvailable"].as_array();
    let alternatives = alternatives.map_or(&[][..], Vec::as_slice);
    let choices = match alternatives {
        [] => std::slice::from_ref(&request["exactly"]),
        alternatives => alternatives,
    };
    let mut most = BTreeMap::new();
    for choice in choices {
        let Some(class) = choice["deviceClassName"].as_str() else {
            continue;
        };
        let devices = match choice["allocationMode"].as_str() {
            Some("ExactCount") => choice["count"].as_i64().unwrap_or_default(),
            Some("All") => MOST_DEVICES,
            // One that is not known counts for nothing.
            _ => 0,
        };
        let known: &mut i64 = most.entry(class).or_default();
        *known = devices.max(*known);
    }
    most
}
