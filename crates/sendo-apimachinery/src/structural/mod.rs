//! Structural schemas: what a custom resource definition says of its objects.
//!
//! With a [`Structural`] schema objects are pruned ([`Structural::prune`]), filled
//! with defaults ([`Structural::set_defaults`]) and validated
//! ([`Structural::validate`]), in that order. The schema itself is validated by
//! [`definition_schema`](crate::definition_schema); its rules in CEL are run by
//! [`validation_rules`](crate::validation_rules).
//!
//! Follows Kubernetes 1.36: `k8s.io/apiextensions-apiserver`, `pkg/apiserver/schema`.

mod defaults;
mod embedded;
mod formats;
mod lists;
mod model;
mod parse;
mod pattern;
mod prune;
mod validate;

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use formats::has_format;
pub use formats::unrecognized_formats;
pub use pattern::{Pattern, PatternError};

/// A schema that names the type of every field.
///
/// The parts under `all_of`, `any_of`, `one_of` and `not` are schemas too, though
/// only their constraints count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structural {
    /// `object`, `array`, `string`, `integer`, `number` or `boolean`; empty where any is taken.
    pub type_name: String,
    /// What it is for.
    pub description: String,
    /// Its title.
    pub title: String,
    /// Whether null is a value.
    pub nullable: bool,
    /// What an absent value is taken for.
    pub default: Option<Value>,
    /// The schema of a list's items.
    pub items: Option<Box<Structural>>,
    /// The schemas of an object's members.
    pub properties: BTreeMap<String, Structural>,
    /// What other members an object may have.
    pub additional_properties: Option<Additional>,

    /// Whether members without a schema are kept.
    pub preserve_unknown_fields: bool,
    /// Whether it is a whole object with kind, version and metadata.
    pub embedded_resource: bool,
    /// Whether it is a whole number or a text.
    pub int_or_string: bool,
    /// How the list merges: `atomic`, `set` or `map`.
    pub list_type: Option<String>,
    /// The members that identify an item of a list of type `map`.
    pub list_map_keys: Vec<String>,
    /// How the object merges: `atomic` or `granular`.
    pub map_type: Option<String>,
    /// `x-kubernetes-validations`, as they were given.
    pub validations: Vec<Value>,

    /// The constraints on values.
    pub constraints: Constraints,
}

/// What a schema demands of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// The format of a text or number.
    pub format: String,
    /// The largest number.
    pub maximum: Option<f64>,
    /// Whether the largest number itself is too large.
    pub exclusive_maximum: bool,
    /// The smallest number.
    pub minimum: Option<f64>,
    /// Whether the smallest number itself is too small.
    pub exclusive_minimum: bool,
    /// What a number is a multiple of.
    pub multiple_of: Option<f64>,
    /// The most characters.
    pub max_length: Option<i64>,
    /// The least characters.
    pub min_length: Option<i64>,
    /// What a text contains a match of.
    pub pattern: Option<Pattern>,
    /// The most items.
    pub max_items: Option<i64>,
    /// The least items.
    pub min_items: Option<i64>,
    /// The most members.
    pub max_properties: Option<i64>,
    /// The least members.
    pub min_properties: Option<i64>,
    /// The members that must be there.
    pub required: Vec<String>,
    /// The only values; empty if any is allowed.
    pub allowed: Vec<Value>,
    /// Schemas that all hold.
    pub all_of: Vec<Structural>,
    /// Schemas of which at least one holds.
    pub any_of: Vec<Structural>,
    /// Schemas of which exactly one holds.
    pub one_of: Vec<Structural>,
    /// A schema that does not hold.
    pub not: Option<Box<Structural>>,
}

/// Which members an object may have beside its properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Additional {
    /// Any, or none.
    Allowed(bool),
    /// Those that hold to a schema.
    Schema(Box<Structural>),
}

/// Which part of a resource a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole: kind, version and metadata have schemas of their own.
    Resource,
    /// A value inside of it.
    Value,
}

impl Structural {
    /// The schema of a member: its own, or that of all other members.
    pub fn member(&self, name: &str) -> Option<&Structural> {
        self.properties
            .get(name)
            .or(match &self.additional_properties {
                Some(Additional::Schema(schema)) => Some(schema),
                _ => None,
            })
    }

    /// Whether the schema, or one inside of it, has rules in CEL.
    pub fn has_validations(&self) -> bool {
        let additional = match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(&**schema),
            _ => None,
        };
        !self.validations.is_empty()
            || self
                .properties
                .values()
                .chain(self.items.as_deref())
                .chain(additional)
                .any(Structural::has_validations)
    }

    /// Whether this is the root of an object with metadata of its own.
    pub(crate) fn holds_metadata(&self, part: Part) -> bool {
        self.embedded_resource || part == Part::Resource
    }
}
