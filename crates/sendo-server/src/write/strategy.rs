//! Which endpoint an object is changed through, and what that lets pass: built-in
//! kinds by their rules, custom ones by their schema.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/create.go`: `RESTCreateStrategy`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/update.go`: `RESTUpdateStrategy`

use std::borrow::Cow;

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::{FinalizerNames, MetaRules, Scope, validate_create};
use sendo_apimachinery::validation_rules::ValidationResult;
use sendo_apimachinery::{Meta, Status, names};
use serde_json::Value;

use super::scale;
use crate::catalog::Resource;
use crate::kinds::{Cx, Update};
use crate::state::call::Call;
use crate::state::decode;

/// Which endpoint an object is changed through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strategy {
    /// The object itself.
    Object,
    /// `/status`.
    Status,
    /// A subresource that takes the whole object, with rules of its own.
    Subresource(Update),
    /// `/scale`, which shows a Scale in place of the object.
    Scale,
    /// None: what the server itself sets is not validated.
    Internal,
}

impl Strategy {
    /// What the endpoint shows of an object in its storage version. Admission sees that.
    pub(super) fn show<'o>(self, call: &Call<'_>, object: &'o Value) -> Cow<'o, Value> {
        match self {
            Strategy::Scale => Cow::Owned(scale::of_object(call, object)),
            _ => Cow::Borrowed(object),
        }
    }

    /// Refuses an object that admission has moved to another namespace.
    pub(super) fn check_place(self, call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
        match self {
            Strategy::Scale => Ok(()),
            _ => decode::set_namespace(call, object),
        }
    }

    /// The object that is meant by what the endpoint was sent.
    pub(super) fn merge(self, call: &Call<'_>, sent: Value, old: &Value) -> Result<Value, Status> {
        match self {
            Strategy::Scale => scale::merge(call, &sent, old),
            _ => Ok(sent),
        }
    }

    /// Whether a write gives out and takes back addresses and ports.
    pub(super) fn allocates(self) -> bool {
        matches!(self, Strategy::Object)
    }

    /// Restores what this endpoint does not change.
    pub(super) fn prepare(self, resource: &Resource, cx: &Cx<'_>, new: &mut Value, old: &Value) {
        let rules = resource.rules;
        match (self, &resource.custom) {
            (Strategy::Subresource(update), _) => (update.prepare)(cx, new, old),
            (Strategy::Internal, _) => {}
            (Strategy::Object | Strategy::Scale, Some(custom)) => custom.prepare_update(new, old),
            (Strategy::Status, Some(custom)) => custom.prepare_status_update(new, old),
            (Strategy::Object | Strategy::Scale, None) => {
                (rules.prepare_for_update)(cx, new, old);
            }
            (Strategy::Status, None) => (rules.prepare_for_status_update)(cx, new, old),
        }
    }

    /// What is wrong with the changed object, apart from the metadata of all kinds.
    pub(super) fn validate(
        self,
        resource: &Resource,
        cx: &Cx<'_>,
        new: &Value,
        old: &Value,
    ) -> ValidationResult {
        let rules = resource.rules;
        let errors = match (self, &resource.custom) {
            (Strategy::Object | Strategy::Scale, Some(custom)) => {
                return custom.validate_update(new, old);
            }
            (Strategy::Status, Some(custom)) => return custom.validate_status_update(new, old),
            (Strategy::Subresource(update), _) => (update.validate)(cx, new, old),
            (Strategy::Internal, _) => Vec::new(),
            (Strategy::Object | Strategy::Scale, None) => (rules.validate_update)(cx, new, old),
            (Strategy::Status, None) => (rules.validate_status_update)(cx, new, old),
        };
        ValidationResult {
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
    pub(super) fn prepare_create(&self, cx: &Cx<'_>, object: &mut Value) {
        match &self.custom {
            Some(custom) => custom.prepare_create(object),
            None => (self.rules.prepare_for_create)(cx, object),
        }
    }

    /// What the writer of an object is warned of; `old` is what it was before.
    pub(super) fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match (&self.custom, old) {
            (Some(custom), old) => custom.warnings(new, old),
            (None, Some(old)) => (self.rules.warnings_on_update)(new, old),
            (None, None) => (self.rules.warnings_on_create)(new),
        }
    }

    /// What is wrong with a new object.
    pub(super) fn validate_create(&self, cx: &Cx<'_>, object: &Value) -> Vec<Error> {
        let errors = match &self.custom {
            Some(custom) => custom.validate_create(object),
            None => (self.rules.validate)(cx, object),
        };
        if !errors.is_empty() {
            return errors;
        }
        validate_create(
            Meta::new(object),
            &self.metadata_rules(),
            &Path::new("metadata"),
        )
    }

    /// What metadata is validated by whatever the kind.
    pub(super) fn metadata_rules(&self) -> MetaRules {
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
