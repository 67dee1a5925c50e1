//! Tests of controllers on a live cluster, in virtual time.
//!
//! A test takes a [`TestCluster`]: an API server, the built-in controllers, a
//! scheduler and two nodes in this very process. Programs under test are the
//! same [`Manager`] values that run in production.
//!
//! ```test_harness
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//! use k8s_openapi::api::core::v1::Pod;
//! use sendo_test::TestCluster;
//! use serde_json::json;
//!
//! #[sendo_test::test]
//! async fn two_replicas_come_up(cluster: TestCluster) {
//!     let set: ReplicaSet = serde_json::from_value(json!({
//!         "metadata": {"name": "web", "namespace": "default"},
//!         "spec": {
//!             "replicas": 2,
//!             "selector": {"matchLabels": {"app": "web"}},
//!             "template": {
//!                 "metadata": {"labels": {"app": "web"}},
//!                 "spec": {"containers": [{"name": "web", "image": "web"}]},
//!             },
//!         },
//!     })).unwrap();
//!     cluster.create(&set).await;
//!     cluster.until("two pods run", |now| {
//!         let running = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running");
//!         now.list::<Pod>().iter().filter(|pod| running(pod)).count() == 2
//!     }).await;
//! }
//! ```
//!
//! Time stands still while anything has work to do and leaps when everybody
//! waits, so a test of a day takes moments. The seed decides every random
//! choice: a run with the same seed is the same run, to the byte.
//!
//! A wait in vain shows the last warnings and errors that were logged, those of
//! the controllers among them. With `RUST_LOG=info cargo test NAME -- --nocapture`
//! everything that is logged is shown.
//!
//! Talk to nothing outside the test's own runtime: a peer in another thread or
//! process loses every race against a clock that leaps.

mod cluster;
mod faults;
mod manifests;
mod recent_logs;
mod record;
mod rights;
mod round_trips;
mod run;
mod view;

pub use cluster::TestCluster;
pub use faults::Faults;
pub use record::{Recording, record};
pub use rights::Rights;
pub use round_trips::{round_trips, round_trips_of};
pub use run::run_with_seed;
pub use sendo_macros::test;
pub use view::View;

#[doc(no_inline)]
pub use sendo::Manager;

/// The guide's examples of tests are run.
#[cfg(doctest)]
#[doc = include_str!("../../sendo/guide/testing.md")]
struct Guide;

/// The guide's examples of faults are run.
#[cfg(doctest)]
#[doc = include_str!("../../sendo/guide/faults.md")]
struct GuideToFaults;
