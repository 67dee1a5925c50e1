//! Webhooks: what an API server asks a program before it stores an object, and when it converts
//! one.
//!
//! They are declared on the manager, next to its controllers. Paths, rules, configurations and
//! the Service follow from the declaration:
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use sendo::Manager;
//! use sendo::webhook::{self, Admission, Change, Denied, Operation::*};
//!
//! async fn set_defaults(map: &mut ConfigMap, _cx: Admission) -> Result<(), Denied> {
//!     map.data.get_or_insert_default().entry("colour".into()).or_insert("green".into());
//!     Ok(())
//! }
//!
//! async fn validate(change: Change<ConfigMap>, cx: Admission) -> Result<(), Denied> {
//!     let colour = |map: &ConfigMap| map.data.as_ref()?.get("colour").cloned();
//!     let (old, new) = (change.old().and_then(colour), change.new().and_then(colour));
//!     if old.is_some() && old != new {
//!         return Err(Denied::field("data.colour").immutable(new));
//!     }
//!     if new.as_deref() == Some("beige") {
//!         cx.warn("nobody likes beige");
//!     }
//!     Ok(())
//! }
//!
//! let program = Manager::new("paint")
//!     .webhook(webhook::defaults(set_defaults).except_own_namespace())
//!     .webhook(webhook::validates(validate).on(Create | Update).except_own_namespace());
//! assert!(program.problems().is_empty());
//! ```
//!
//! Webhooks run on every replica, whoever leads. What a handler refuses ([`Denied`]) is refused;
//! a handler that fails, panics or takes too long is a failed call, about which the
//! [failure policy](Webhook::failure_policy) decides. The guide's
//! [chapter on webhooks](crate::guide::webhooks) says when a rule in the definition of a kind
//! needs none of this.

mod admission;
mod configuration;
mod convert;
mod decide;
mod declaration;
mod denied;
mod handler;
mod operations;
mod patch;
mod review;
mod rule;
mod service;
mod serving;
#[cfg(test)]
mod tests;

pub use crate::certificates::Lifetimes;
pub use admission::{Admission, Change};
pub use configuration::{Manifests, Reached};
pub use convert::Convert;
pub use declaration::{
    FailurePolicy, MatchPolicy, Phase, SideEffects, Webhook, defaults, reviews, validates,
};
pub use denied::{Denied, DeniedField};
pub use handler::{Decision, Defaults, DefaultsFn, Reviews, Validates};
pub use operations::{Operation, Operations};
pub use review::{AdmissionRequest, ReviewedKind, ReviewedResource};
pub use rule::Rule;
pub use service::{Limits, Service};
pub use serving::{Certificates, InProcess, Serving};

pub(crate) use configuration::Registration;
pub(crate) use convert::Conversions;
pub(crate) use service::Parts;
