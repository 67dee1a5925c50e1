//! A first controller: a [`Bar`] keeps one Deployment at a number of replicas.
//!
//! `api.rs` is the resource, field by field; `controller.rs` is all that happens.

mod api;
mod controller;

pub use api::{Bar, BarSpec, BarStatus};
pub use controller::manager;
