//! A Kubernetes controller framework: manager, controllers started by any event,
//! informer cache with indexes, work queue, leader election, event recorder,
//! metrics and probes.

pub mod cache;
pub mod client;
mod context;
pub mod controller;
pub mod discovery;
pub mod election;
mod error;
mod event;
pub mod events;
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

pub use cache::{Index, Listing, Selection, Selector};
pub use client::{Client, Patch};
pub use context::Context;
pub use controller::{Action, Controller, Elected, Reconcile, ReconcileKey};
pub use error::{Category, Error, Result};
pub use event::Event;
pub use events::EventType;
pub use manager::{Config, Manager, RunContext, Runnable, Running, everywhere, on_leader};
pub use object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};
pub use reader::Reader;
pub use sendo_world::{Clock, Moment, Random, Timestamp, World};
pub use serve::{Answer, Asked, BindError, Listener};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;
