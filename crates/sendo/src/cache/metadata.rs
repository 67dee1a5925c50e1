//! Which metadata a cache keeps, and objects made of what another one keeps.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The metadata that are kept of an object: all, but for some members.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptMetadata {
    without: Vec<String>,
}

impl KeptMetadata {
    pub(super) fn without(members: Vec<String>) -> Self {
        KeptMetadata { without: members }
    }

    /// Whether all that `other` keeps is kept here too.
    pub(super) fn covers(&self, other: &KeptMetadata) -> bool {
        let missing = &mut self.without.iter();
        missing.all(|member| other.without.contains(member))
    }

    /// What is kept of `all`.
    pub(super) fn apply_to(&self, all: &ObjectMeta) -> ObjectMeta {
        ObjectMeta {
            annotations: self.member("annotations", &all.annotations),
            creation_timestamp: self.member("creationTimestamp", &all.creation_timestamp),
            deletion_grace_period_seconds: self.member(
                "deletionGracePeriodSeconds",
                &all.deletion_grace_period_seconds,
            ),
            deletion_timestamp: self.member("deletionTimestamp", &all.deletion_timestamp),
            finalizers: self.member("finalizers", &all.finalizers),
            generate_name: self.member("generateName", &all.generate_name),
            generation: self.member("generation", &all.generation),
            labels: self.member("labels", &all.labels),
            managed_fields: self.member("managedFields", &all.managed_fields),
            name: self.member("name", &all.name),
            namespace: self.member("namespace", &all.namespace),
            owner_references: self.member("ownerReferences", &all.owner_references),
            resource_version: self.member("resourceVersion", &all.resource_version),
            self_link: self.member("selfLink", &all.self_link),
            uid: self.member("uid", &all.uid),
        }
    }

    fn member<T: Clone>(&self, name: &str, value: &Option<T>) -> Option<T> {
        let value = value.as_ref()?;
        let is_kept = !self.without.iter().any(|member| member == name);
        is_kept.then(|| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn without(members: &[&str]) -> KeptMetadata {
        KeptMetadata::without(members.iter().map(ToString::to_string).collect())
    }

    /// Metadata with all that there is.
    fn full() -> Value {
        json!({
            "annotations": {"a": "1"},
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 1,
            "deletionTimestamp": "2024-01-02T00:00:00Z",
            "finalizers": ["f"],
            "generateName": "n-",
            "generation": 2,
            "labels": {"l": "2"},
            "managedFields": [{"manager": "m"}],
            "name": "n",
            "namespace": "s",
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}],
            "resourceVersion": "3",
            "selfLink": "/s",
            "uid": "v",
        })
    }

    #[test]
    fn every_member_is_kept_unless_it_is_left_out() {
        let all: ObjectMeta = serde_json::from_value(full()).unwrap();
        assert_eq!(without(&[]).apply_to(&all), all);
        for (name, _) in full().as_object().unwrap() {
            let mut expected = full();
            expected.as_object_mut().unwrap().remove(name);
            let kept = without(&[name]).apply_to(&all);
            assert_eq!(serde_json::to_value(kept).unwrap(), expected);
        }
    }

    #[test]
    fn more_covers_less() {
        let (all, some, less) = (without(&[]), without(&["a"]), without(&["b", "a"]));
        assert!(all.covers(&some) && some.covers(&some) && some.covers(&less));
        assert!(!some.covers(&all) && !less.covers(&some) && !some.covers(&without(&["b"])));
    }
}
