//! A Kubernetes controller framework: manager, controllers started by any event,
//! informer cache with indexes, work queue, leader election, event recorder,
//! metrics and probes.

pub mod cache;
pub mod client;
pub mod election;
mod error;
mod event;
pub mod health;
pub mod metrics;
mod object;
pub mod queue;
mod serve;

pub use error::{Category, Error, Result};
pub use event::Event;
pub use object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};
pub use sendo_world::{Clock, Moment, Random, Timestamp, World};
pub use serve::{BindError, Listener};
