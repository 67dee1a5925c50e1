//! A first controller: a [`Bar`] keeps one Deployment at a number of replicas.
//!
//! `api.rs` has the resource, field by field; `controller.rs` the controller.

mod api;
mod controller;

pub use api::{Bar, BarSpec, BarStatus};
pub use controller::manager;
