//! A Kubernetes controller framework: manager, controllers started by any event,
//! informer cache with indexes, work queue, leader election, event recorder,
//! metrics and probes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::Namespace;
//! use sendo::{Action, Context, Controller, Manager, ObjectExt, Patch, Result, Verb};
//! use serde_json::json;
//!
//! async fn reconcile(namespace: Arc<Namespace>, cx: Context) -> Result<Action> {
//!     if namespace.label("team").is_none() {
//!         let change = json!({"metadata": {"labels": {"team": "none"}}});
//!         cx.patch(&namespace, Patch::Merge(change)).await?;
//!     }
//!     Ok(Action::done())
//! }
//!
//! fn manager() -> Manager {
//!     let controller = Controller::new::<Namespace>()
//!         .writes::<Namespace>(Verb::Patch)
//!         .reconcile(reconcile);
//!     Manager::new("labels").controller(controller) // `.run_from_args().await` in `main`
//! }
//! # assert!(manager().problems().is_empty());
//! ```
//!
//! The [`guide`] teaches it step by step, from a
//! [first controller](guide::first_controller) to
//! [production](guide::running_in_production); it has chapters for those who come
//! from [kube-rs](guide::from_kube_rs) or from
//! [controller-runtime](guide::from_controller_runtime). A dozen programs of one
//! file each are in the folder `examples` of this crate.
//!
//! # Concepts
//!
//! **Manager.** A [`Manager`] is a whole program as a value: its controllers, its
//! [`Runnable`]s, what it reads, its own kinds, checks and metrics. Nothing
//! connects before it runs, so it can be checked ([`Manager::problems`]) and
//! printed, and a test runs the same value as `main`. A [`Config`] says where and
//! how it runs; [`Manager::run_from_args`] makes one of the command line. Parts
//! start and stop in order: see [`manager`].
//!
//! **Controller.** A [`Controller`] compares an object with what there is, and
//! changes what differs, again and again. Each event puts a key into its queue, and
//! a worker calls [`Reconcile::reconcile`], an async function that is given the
//! object and a [`Context`]. It looks at the state there is, not at what the event
//! was. The [`Action`] or the [`Error`] that it returns says whether and when the
//! key comes again. A controller of what is not one object of one kind has keys of
//! its own: [`Controller::keyed`].
//!
//! **Source, predicate, handler.** Events come from a [`source`]: a kind, a
//! channel, a ticker, a stream, a function, another controller. A [`predicate`]
//! says which of them matter, a [`handler`] which keys they concern, with the
//! cache at hand. Each source has a backoff of its own, and one that fails delays
//! no other. [External events](guide::external_events) has examples.
//!
//! **Queue.** The [`queue`] has each key once, however many events name it, and
//! never gives one key to two workers at once. Within a priority it is first in,
//! first out; what was there at the start, and what did not change, is of lower
//! priority, and does not wait for ever. A key that failed comes again with a
//! backoff of its own.
//!
//! **Cache and index.** All that a program watches or reads is in one [`cache`]: a
//! list and a watch for each kind and selection, shared by all controllers.
//! [`Context::get`] and [`Context::list`] read it, without a request and without
//! waiting. What is read is declared; reading another kind fails with the fix in
//! the message. An [`Index`] is a `static` that finds objects by any value computed
//! from them. See [the cache and its indexes](guide::cache_and_indexes).
//!
//! **Client.** A [`Client`] writes to the API server: create, update, patch,
//! server-side apply, status, finalizers, deletion, any subresource. Cached reads
//! are never older than the program's own writes: when a write returns, the cache
//! shows it, until the watch has delivered the same or something newer. [`Context::live`] reads the API server
//! itself. See [`client`].
//!
//! **Election and write gate.** Of several replicas one leads, by a Lease that
//! programs with client-go can compete for too. Controllers and
//! [`on_leader`] runnables work on the leader only, unless they say otherwise.
//! Every write of theirs passes a gate that closes before another replica can
//! lead. [`election`] says what is guaranteed, and under which conditions.
//!
//! **Events.** [`Context::event`] records for people what was done, and to which
//! object. It never waits and never fails; equal events are counted, and too many
//! about one object are dropped. See [`events`]; for what holds and since when, see
//! [`conditions`].
//!
//! **Metrics and health.** [`metrics`] have the names that dashboards of
//! controllers already use, in a registry of the manager, beside
//! [metrics of one's own](Manager::metric). [`health`] serves `/healthz` and
//! `/readyz`: the state of every cache, of the election, of the workers, and
//! [checks of one's own](Manager::check). See
//! [metrics and probes](guide::metrics_and_probes).
//!
//! **Webhooks.** A [`webhook`] completes, refuses or converts objects before they are
//! stored: an async function, declared on the manager as controllers are. Paths, rules and
//! configurations follow from the declaration, and certificates need no thought. See
//! [webhooks](guide::webhooks) and [their certificates](guide::webhook_certificates).
//!
//! **World.** Time, randomness and tasks come from the [`World`] that the program
//! is given, and reach a reconcile through its context: [`Context::now`],
//! [`Context::clock`], [`Context::random`]. With paused time and a seed, a run can
//! be repeated to the byte. Every task has an owner and a stop signal.
//!
//! **Tests.** The crate `sendo-test` gives a test a live cluster in its own
//! process, in virtual time: pods are scheduled and run, namespaces are deleted,
//! garbage is collected, and an hour passes in moments. See
//! [testing](guide::testing) and [faults](guide::faults).
//!
//! # Features
//!
//! | feature | on by default | what it is for |
//! |---|---|---|
//! | `args` | yes | the command line: `command::Args`, [`Manager::run_from_args`] |
//! | `manifests` | yes, with `args` | what deploys a program, printed by itself: [`Manager::manifests`] |
//! | `logging` | yes | `--log` and `--log-json`, on standard error; without it the program sets up [`tracing`] itself |
//! | `certificates` | yes | certificates that the program makes itself, where it is given none |
//! | `compact` | no | [`KindOptions::compact`](cache::KindOptions::compact): objects kept in a tenth of the memory, by zstd |
//!
//! Which release of Kubernetes the types are of is the choice of the program: it
//! names one of the features `v1_33` and later of `k8s-openapi`.

mod action;
pub mod cache;
mod certificates;
#[cfg(feature = "args")]
pub mod check;
pub mod claim;
pub mod client;
#[cfg(feature = "args")]
pub mod command;
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
mod hostname;
pub mod manager;
#[cfg(feature = "manifests")]
pub mod manifests;
pub mod metrics;
pub mod metrics_server;
mod object;
mod owner;
pub mod predicate;
pub mod queue;
mod reader;
pub mod rights;
mod serve;
mod slow_start;
pub mod source;
mod tls;
mod transport;
pub mod webhook;
mod webhook_server;

pub use cache::{Index, Listing, Selection, Selector};
pub use client::{Client, Patch};
pub use context::Context;
pub use controller::{Action, Controller, Elected, Reconcile, ReconcileKey};
pub use error::{Category, Error, Result, Undeclared};
pub use event::Event;
pub use events::EventSeverity;
pub use manager::{
    ClientOf, Config, Manager, RunContext, Runnable, Running, elected_alone, everywhere, on_leader,
};
pub use object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};
pub use reader::Reader;
pub use rights::{Right, Verb};
pub use sendo_world::{Clock, Interval, Moment, Random, Stop, Tasks, Timestamp, World};
pub use serve::{BindError, Listener, PageRequest, PageResponse};
pub use slow_start::{SlowStart, slow_start};
pub use tls::TlsError;

// What is in the signatures above, so that a program need not guess the versions.
pub use {k8s_openapi, kube};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;
