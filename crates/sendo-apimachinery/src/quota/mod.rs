//! What an object uses of the quotas of its namespace.
//!
//! An [`Evaluator`] knows, for the objects of one resource, which of the resources that a
//! ResourceQuota limits they use, how much of each, and in which scopes they are. The API server
//! charges writes with it, and the controller of quotas recomputes their use with it: both count
//! alike.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go`
//! - `pkg/quota/v1/install/registry.go`: `DefaultIgnoredResources`
//! - `pkg/quota/v1/evaluator/core/registry.go`: `legacyObjectCountAliases`

mod amounts;
mod claims;
mod devices;
mod pods;
mod requirements;
mod services;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

pub use amounts::{Amounts, add, exceeding, list, mask, read, subtract_to_zero};
pub use devices::DeviceClasses;
pub use pods::{is_counted, is_terminating};

/// How the objects of one resource count against quotas.
#[derive(Clone, Debug)]
pub struct Evaluator {
    counts: Counts,
    /// `count/` and the name of the resource with its group.
    count_name: String,
}

/// What is counted of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Pods,
    Services,
    PersistentVolumeClaims,
    ResourceClaims,
    /// That it is there; some kinds have another name for their count, from before `count/`.
    Objects {
        alias: Option<&'static str>,
    },
}

/// What the use of an object depends on beside it.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The time: a pod whose time to end has passed is no longer counted.
    pub now: Timestamp,
    /// The classes of devices.
    pub classes: &'a DeviceClasses,
}

/// Resources that are not kept, and events, which quotas never counted.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

impl Evaluator {
    /// That of a resource; `None` for one that no quota counts.
    pub fn new(group: &str, plural: &str) -> Option<Self> {
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let counts = match (group, plural) {
            ("", "pods") => Counts::Pods,
            ("", "services") => Counts::Services,
            ("", "persistentvolumeclaims") => Counts::PersistentVolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Counts::ResourceClaims,
            ("", "configmaps") => Counts::alias("configmaps"),
            ("", "replicationcontrollers") => Counts::alias("replicationcontrollers"),
            ("", "resourcequotas") => Counts::alias("resourcequotas"),
            ("", "secrets") => Counts::alias("secrets"),
            _ => Counts::Objects { alias: None },
        };
        let count_name = match group {
            "" => format!("count/{plural}"),
            group => format!("count/{plural}.{group}"),
        };
        Some(Evaluator { counts, count_name })
    }

    /// Whether only the number of objects counts, and nothing that is in them.
    pub fn counts_objects_only(&self) -> bool {
        matches!(self.counts, Counts::Objects { .. })
    }

    /// Those of the limited resources that its objects can use.
    pub fn matching<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        classes: &DeviceClasses,
    ) -> BTreeSet<&'n str> {
        let uses = |name: &&str| *name == self.count_name || self.uses(name, classes);
        names.into_iter().filter(uses).collect()
    }

    fn uses(&self, name: &str, classes: &DeviceClasses) -> bool {
        match self.counts {
            Counts::Pods => pods::uses(name),
            Counts::Services => services::NAMES.contains(&name),
            Counts::PersistentVolumeClaims => claims::uses(name),
            Counts::ResourceClaims => devices::uses(name, classes),
            Counts::Objects { alias } => alias == Some(name),
        }
    }

    /// Whether a quota limits this object: anything of what such objects use, in all its scopes.
    pub fn matches(&self, quota: &Value, object: &Value, classes: &DeviceClasses) -> bool {
        let limited = names(&quota["status"]["hard"]);
        !self.matching(limited, classes).is_empty() && self.is_in_scope(quota, object)
    }

    /// Whether an object is in all scopes of a quota.
    pub fn is_in_scope(&self, quota: &Value, object: &Value) -> bool {
        selectors(quota).all(|selector| match self.counts {
            Counts::Pods => pods::is_in_scope(object, &selector),
            Counts::PersistentVolumeClaims => claims::is_in_scope(object, &selector),
            Counts::Services | Counts::ResourceClaims | Counts::Objects { .. } => false,
        })
    }

    /// What must be said of an object for it to count against these limits.
    ///
    /// # Errors
    /// What is left unsaid, and where.
    pub fn check(&self, limited: &BTreeSet<&str>, object: &Value) -> Result<(), String> {
        match self.counts {
            Counts::Pods => pods::check(limited, object),
            _ => Ok(()),
        }
    }

    /// How much an object uses.
    pub fn usage(&self, object: &Value, surroundings: Surroundings<'_>) -> Amounts {
        let mut usage = match self.counts {
            Counts::Pods => pods::usage(object, surroundings.now),
            Counts::Services => services::usage(object),
            Counts::PersistentVolumeClaims => claims::usage(object),
            Counts::ResourceClaims => devices::usage(object, surroundings.classes),
            Counts::Objects { alias } => alias.map(amounts::one).into_iter().collect(),
        };
        usage.extend([amounts::one(&self.count_name)]);
        usage
    }

    /// How much of the limited resources all these objects use of a quota, together; what nobody
    /// uses is zero.
    pub fn total<'o>(
        &self,
        quota: &Value,
        limited: &BTreeSet<&str>,
        objects: impl IntoIterator<Item = &'o Value>,
        surroundings: Surroundings<'_>,
    ) -> Amounts {
        let mut total = self.total_of_count(quota, limited, 0);
        for object in objects {
            if self.is_in_scope(quota, object) {
                add(&mut total, &self.usage(object, surroundings));
            }
        }
        mask(&total, limited.iter().copied())
    }

    /// The same where the objects need not be looked at
    /// ([`counts_objects_only`](Self::counts_objects_only)).
    pub fn total_of_count(
        &self,
        quota: &Value,
        limited: &BTreeSet<&str>,
        objects: usize,
    ) -> Amounts {
        // Objects of such a resource are in no scope.
        let objects = match selectors(quota).next() {
            Some(_) => 0,
            None => objects,
        };
        let each = |name: &&str| ((*name).to_owned(), amounts::count(objects));
        limited.iter().map(each).collect()
    }
}

impl Counts {
    fn alias(name: &'static str) -> Self {
        Counts::Objects { alias: Some(name) }
    }
}

/// The names in a list of resources.
pub fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
}

/// What a quota asks of the objects that it limits, as an entry of its scope selector.
struct ScopeRequirement<'a> {
    scope: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl ScopeRequirement<'_> {
    /// Whether it holds for something that has one value, or none.
    fn holds(&self, value: Option<&str>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.contains(&value));
        match self.operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// The scopes of a quota: those by name, and those of its selector.
fn selectors(quota: &Value) -> impl Iterator<Item = ScopeRequirement<'_>> {
    let spec = &quota["spec"];
    let by_name = texts(&spec["scopes"]);
    let by_name = by_name.into_iter().map(|scope| ScopeRequirement {
        scope,
        operator: "Exists",
        values: Vec::new(),
    });
    let expressions = spec["scopeSelector"]["matchExpressions"].as_array();
    let expressions = expressions.into_iter().flatten();
    let by_selector = expressions.map(|expression| ScopeRequirement {
        scope: expression["scopeName"].as_str().unwrap_or_default(),
        operator: expression["operator"].as_str().unwrap_or_default(),
        values: texts(&expression["values"]),
    });
    by_name.chain(by_selector)
}

fn texts(list: &Value) -> Vec<&str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}
