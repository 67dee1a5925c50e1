//! A Kubernetes controller framework: manager, controllers started by any event,
//! informer cache with indexes, work queue, leader election, event recorder,
//! metrics and probes.
//!
//! Start with the [`guide`]: a [first controller](guide::first_controller), any
//! [external event](guide::external_events) as its cause, the
//! [cache and its indexes](guide::cache_and_indexes), [leader election](guide::election),
//! [metrics and probes](guide::metrics_and_probes), [tests](guide::testing).

pub mod cache;
pub mod client;
pub mod conditions;
mod context;
pub mod controller;
pub mod discovery;
pub mod election;
mod error;
mod event;
pub mod events;
pub mod guide;
pub mod handler;
pub mod health;
pub mod manager;
pub mod metrics;
mod object;
pub mod predicate;
pub mod queue;
mod reader;
mod serve;
pub mod source;
mod tls;

pub use cache::{Index, Listing, Selection, Selector};
pub use client::{Client, Patch};
pub use context::Context;
pub use controller::{Action, Controller, Elected, Reconcile, ReconcileKey};
pub use error::{Category, Error, Result, Undeclared};
pub use event::Event;
pub use events::EventType;
pub use manager::{
    ClientOf, Config, Manager, RunContext, Runnable, Running, alone, everywhere, on_leader,
};
pub use object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};
pub use reader::Reader;
pub use sendo_world::{Clock, Moment, Random, Timestamp, World};
pub use serve::{Answer, Asked, BindError, Listener};
pub use tls::TlsError;

// What is in the signatures above, so that a program need not guess the versions.
pub use {k8s_openapi, kube};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;
