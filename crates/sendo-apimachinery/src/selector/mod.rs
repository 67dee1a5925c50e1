//! Selecting objects by their labels and by their fields.

mod fields;
mod labels;
mod parse;

pub use fields::{FieldOperator, FieldRequirement, FieldSelector};
pub use labels::{
    InvalidValues, LabelSelector, Labels, Operator, Requirement, validate_label_selector,
};

/// Why a selector is refused; its text is Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);
