//! A first controller: a [`Bar`] keeps one Deployment at a number of replicas.
//!
//! `api.rs` has the resource, field by field; `controller.rs` the controller; `webhook.rs` what is
//! checked before a Bar is stored; `v1alpha1.rs` the version that the resource had first.

mod api;
mod controller;
pub mod v1alpha1;
mod webhook;

pub use api::{Bar, BarSpec, BarStatus};
pub use controller::manager;
