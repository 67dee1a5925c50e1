//! Who owns which field of an object: the ground of server-side apply.
//!
//! A [`FieldSet`] holds the fields of one manager; on the wire it is the
//! `fieldsV1` of an entry in `metadata.managedFields`. A [`FieldManager`] keeps
//! these entries true through every write, and carries out applies: merging by
//! the kind's schema, conflicts between managers, removal of what a manager
//! stops applying.
//!
//! It works on plain JSON values and knows no store, no clock and no server:
//! what it needs of a kind's versions is provided by a [`Versions`].

mod apply;
mod compare;
mod creation;
mod element;
mod entries;
mod manager;
mod merge;
mod reconcile;
mod remove;
mod scale;
mod set;
mod to_set;
mod type_ref;
mod unowned;
mod validate;

pub use element::PathElement;
pub use entries::{Entry, ManagerId, Operation, validate_managers};
pub use manager::{
    ApplyError, ConvertError, FieldManager, Versions, manager_of_user_agent, without_managers,
};
pub use scale::ScaleManagers;
pub use set::{FieldPath, FieldSet};
pub use unowned::merge_unowned;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
