//! Which part of a kind is watched.

use std::collections::BTreeSet;

use super::held::AnyObject;
use super::selector::{FieldSelector, Selector};
use crate::transport::Request;

/// Which part of a kind is watched. The default is all of it.
///
/// What is not selected is neither fetched nor cached. Objects that leave the
/// selection are seen as deleted, those that enter it as created.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selection {
    /// Only objects with these labels.
    pub labels: Selector,
    /// Only objects with these fields, of those the API server can select on.
    pub fields: FieldSelector,
    /// Only objects of these namespaces. Means nothing for cluster-scoped kinds.
    pub namespaces: Namespaces,
}

/// A choice of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// Every namespace, those to come included.
    #[default]
    All,
    /// These only. Each is watched on its own, so that permission in each is enough.
    Only(BTreeSet<String>),
    /// All but these.
    Except(BTreeSet<String>),
}

impl Namespaces {
    /// One namespace only.
    pub fn one(name: impl Into<String>) -> Self {
        Namespaces::Only(BTreeSet::from([name.into()]))
    }

    fn contains(&self, namespace: Option<&str>) -> bool {
        let Some(namespace) = namespace else {
            return true;
        };
        match self {
            Namespaces::All => true,
            Namespaces::Only(these) => these.contains(namespace),
            Namespaces::Except(these) => !these.contains(namespace),
        }
    }
}

impl Selection {
    /// Only objects with these labels.
    pub fn labels(selector: Selector) -> Self {
        Selection {
            labels: selector,
            ..Selection::default()
        }
    }

    /// Only objects with these fields.
    pub fn fields(selector: FieldSelector) -> Self {
        Selection {
            fields: selector,
            ..Selection::default()
        }
    }

    /// Only objects of one namespace.
    pub fn in_namespace(name: impl Into<String>) -> Self {
        Selection {
            namespaces: Namespaces::one(name),
            ..Selection::default()
        }
    }

    /// The namespaces to request, each on its own; `None` is a watch across all of them.
    pub(crate) fn scopes(&self) -> Vec<Option<String>> {
        match &self.namespaces {
            Namespaces::Only(these) => these.iter().cloned().map(Some).collect(),
            Namespaces::All | Namespaces::Except(_) => vec![None],
        }
    }

    /// The field selector to send: the server also leaves out whole namespaces.
    fn sent_fields(&self) -> FieldSelector {
        let Namespaces::Except(these) = &self.namespaces else {
            return self.fields.clone();
        };
        let without = |all: FieldSelector, namespace: &String| {
            all.and_all(FieldSelector::not_equal("metadata.namespace", namespace))
        };
        these.iter().fold(self.fields.clone(), without)
    }

    /// Limits a list, a watch or a deletion of many to the selected objects.
    pub(crate) fn restrict(&self, request: Request) -> Request {
        let labels = self.labels.to_string();
        let fields = self.sent_fields().to_string();
        request
            .query_if(!labels.is_empty(), "labelSelector", &labels)
            .query_if(!fields.is_empty(), "fieldSelector", &fields)
    }

    fn selects_fields_of(&self, object: &dyn AnyObject) -> bool {
        let json = object.to_json();
        let json = json.and_then(|json| serde_json::from_slice(&json));
        json.is_ok_and(|json| self.fields.matches(&json))
    }

    /// Whether the server would send this object to who watches the selection.
    pub(super) fn matches(&self, object: &dyn AnyObject) -> bool {
        let meta = object.metadata();
        self.namespaces.contains(meta.namespace.as_deref())
            && self.labels.matches(meta.labels.as_ref())
            && (self.fields.is_everything() || self.selects_fields_of(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(namespace: &str, node: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": namespace, "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": []},
        }))
        .unwrap()
    }

    #[test]
    fn namespaces_are_chosen_or_left_out() {
        let only = Selection {
            namespaces: Namespaces::one("a"),
            ..Selection::default()
        };
        assert!(only.matches(&pod("a", "n")) && !only.matches(&pod("b", "n")));
        assert_eq!(only.scopes(), [Some("a".to_owned())]);

        let except = Selection {
            namespaces: Namespaces::Except(BTreeSet::from(["a".to_owned()])),
            ..Selection::default()
        };
        assert!(!except.matches(&pod("a", "n")) && except.matches(&pod("b", "n")));
        assert_eq!(except.scopes(), [None]);
        assert_eq!(except.sent_fields().to_string(), "metadata.namespace!=a");
    }

    #[test]
    fn labels_and_fields_must_both_match() {
        let selection = Selection {
            labels: "app=web".parse().unwrap(),
            fields: FieldSelector::equal("spec.nodeName", "n"),
            ..Selection::default()
        };
        assert!(selection.matches(&pod("a", "n")));
        assert!(!selection.matches(&pod("a", "m")));
    }
}
