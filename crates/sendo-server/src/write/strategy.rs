//! How the objects of a resource are written: built-in kinds by their rules,
//! custom ones by their schema.

use sendo_apimachinery::field::Error;
use sendo_apimachinery::field::Path;
use sendo_apimachinery::meta::{FinalizerNames, MetaRules, Scope, validate_create};
use sendo_apimachinery::validation_rules::Verdict;
use sendo_apimachinery::{Meta, names};
use serde_json::Value;

use crate::kinds::{Cx, Update};
use crate::resource::Resource;

/// Through which door an object is changed: each lets other parts of it pass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strategy {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// A subresource with rules of its own.
    Other(Update),
    /// What the server itself sets, which no rule is asked about.
    Unjudged,
}

impl Strategy {
    /// Restores what this door does not let pass.
    pub(crate) fn prepare(self, resource: &Resource, cx: &Cx<'_>, new: &mut Value, old: &Value) {
        let rules = resource.rules;
        match (self, &resource.custom) {
            (Strategy::Other(update), _) => (update.prepare)(cx, new, old),
            (Strategy::Unjudged, _) => {}
            (Strategy::Main, Some(custom)) => custom.prepare_update(new, old),
            (Strategy::Status, Some(custom)) => custom.prepare_status_update(new, old),
            (Strategy::Main, None) => (rules.prepare_for_update)(cx, new, old),
            (Strategy::Status, None) => (rules.prepare_for_status_update)(cx, new, old),
        }
    }

    /// What is wrong with the changed object, apart from the metadata of all kinds.
    pub(crate) fn validate(
        self,
        resource: &Resource,
        cx: &Cx<'_>,
        new: &Value,
        old: &Value,
    ) -> Verdict {
        let rules = resource.rules;
        let errors = match (self, &resource.custom) {
            (Strategy::Main, Some(custom)) => return custom.validate_update(new, old),
            (Strategy::Status, Some(custom)) => return custom.validate_status_update(new, old),
            (Strategy::Other(update), _) => (update.validate)(cx, new, old),
            (Strategy::Unjudged, _) => Vec::new(),
            (Strategy::Main, None) => (rules.validate_update)(cx, new, old),
            (Strategy::Status, None) => (rules.validate_status_update)(cx, new, old),
        };
        Verdict {
            errors,
            tolerated: Vec::new(),
        }
    }
}

impl Resource {
    /// Fills in what a writer left out.
    pub(crate) fn default_object(&self, object: &mut Value) {
        match &self.custom {
            Some(custom) => custom.default_object(object),
            None => (self.rules.default)(object),
        }
    }

    /// Resets what a creator may not set.
    pub(crate) fn prepare_create(&self, cx: &Cx<'_>, object: &mut Value) {
        match &self.custom {
            Some(custom) => custom.prepare_create(object),
            None => (self.rules.prepare_for_create)(cx, object),
        }
    }

    /// What the writer of an object is warned of; `old` is what it was before.
    pub(crate) fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match (&self.custom, old) {
            (Some(custom), old) => custom.warnings(new, old),
            (None, Some(old)) => (self.rules.warnings_on_update)(new, old),
            (None, None) => (self.rules.warnings_on_create)(new),
        }
    }

    /// What is wrong with a new object.
    pub(crate) fn validate_create(&self, cx: &Cx<'_>, object: &Value) -> Vec<Error> {
        let errors = match &self.custom {
            Some(custom) => custom.validate_create(object),
            None => (self.rules.validate)(cx, object),
        };
        if !errors.is_empty() {
            return errors;
        }
        validate_create(
            Meta::of(object),
            &self.metadata_rules(),
            &Path::new("metadata"),
        )
    }

    /// What metadata is judged by whatever the kind.
    pub(crate) fn metadata_rules(&self) -> MetaRules {
        MetaRules {
            scope: if self.is_namespaced() {
                Scope::Namespaced
            } else {
                Scope::Cluster
            },
            name: names::path_segment,
            finalizers: FinalizerNames::Any,
        }
    }
}
