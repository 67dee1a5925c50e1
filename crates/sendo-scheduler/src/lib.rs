//! The embedded cluster's scheduler, written with `sendo` as any user would write it.
//!
//! Events keep a [`Snapshot`](snapshot::Snapshot) of the cluster and a queue of pods up to date. A
//! pod that has no node and names a [`Profile`] is scheduled by the plugins of that profile: they
//! filter the nodes, score those that are left, and the pod is assumed to run on the best one
//! until it is bound there. One that fits nowhere waits for an event that may help it.
//!
//! A plugin of one's own is one `impl`:
//!
//! ```
//! use sendo_scheduler::framework::{Cycle, Plugin, Profile, Rejected};
//! use sendo_scheduler::snapshot::node_info::NodeInfo;
//!
//! /// Keeps pods off nodes whose label `maintenance` is `today`.
//! struct Maintenance;
//!
//! impl Plugin for Maintenance {
//!     fn name(&self) -> &'static str {
//!         "Maintenance"
//!     }
//!
//!     fn filter(&self, _: &Cycle<'_>, node: &NodeInfo) -> Result<(), Rejected> {
//!         match node.label("maintenance") {
//!             Some("today") => Err(Rejected::unresolvable("node(s) are under maintenance")),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! let profile = Profile::default_plugins("careful-scheduler").with(Maintenance, 0);
//! let manager = sendo_scheduler::manager_of([profile]);
//! assert_eq!(manager.declarations().next().unwrap().name, "careful-scheduler");
//! ```
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/scheduler.go`: `New`

mod event_handlers;
mod failure;
pub mod framework;
mod metrics;
pub mod node_affinity;
pub mod plugins;
pub mod pod;
mod queue;
mod schedule_one;
pub mod snapshot;
pub mod taints;

use std::num::NonZeroU32;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use sendo::cache::KindOptions;
use sendo::source::kind;
use sendo::{Controller, Manager, ObjectKey, Right, Typed};

use event_handlers::objects;
use framework::Profile;
use pod::Pod;
use schedule_one::Scheduler;

/// The scheduler of pods whose spec names none; the default of `spec.schedulerName`.
pub const NAME: &str = "default-scheduler";

/// How many pods are bound at once. Choosing nodes is one pod after the other.
const BINDINGS: usize = 16;

/// A manager that runs the scheduler with the plugins of a default cluster.
pub fn manager() -> Manager {
    manager_of([Profile::default_plugins(NAME)])
}

/// A manager that runs a scheduler with these profiles: each schedules the pods that name it.
///
/// # Panics
/// If there are none.
pub fn manager_of(profiles: impl IntoIterator<Item = Profile>) -> Manager {
    Manager::new("kube-scheduler")
        // Its rights are those of the roles that Kubernetes gives its users.
        .needs(Right::everything())
        .caching(pod::cached())
        .caching(only::<Node>(&[
            "spec.taints",
            "spec.unschedulable",
            "status.allocatable",
            "status.images",
        ]))
        .caching(only::<Service>(&["spec.selector"]))
        .caching(only::<ReplicationController>(&["spec.selector"]))
        .caching(only::<ReplicaSet>(&["spec.selector"]))
        .caching(only::<StatefulSet>(&["spec.selector"]))
        .controller(controller(profiles))
}

/// A kind of which these fields and the labels are cached.
fn only<K: Typed>(fields: &[&str]) -> KindOptions<K> {
    KindOptions::new()
        .only(fields.iter().copied())
        .without(["metadata.annotations"])
}

/// A scheduler with these profiles, as a controller of pods.
///
/// # Panics
/// If there are none.
pub fn controller(profiles: impl IntoIterator<Item = Profile>) -> Controller {
    let profiles: Vec<_> = profiles.into_iter().collect();
    let name = profiles.first().map(|profile| profile.name().to_owned());
    let name = name.expect("a scheduler has a profile at least");
    let scheduler = Arc::new(Scheduler::new(profiles));
    let controller = Controller::keyed::<ObjectKey>(&name)
        .workers(BINDINGS)
        .fairness(NonZeroU32::MAX)
        .retry(queue::BACKOFF)
        .watches(kind::<Pod>(), event_handlers::pods(&scheduler))
        .watches(kind::<Node>(), event_handlers::nodes(&scheduler))
        .watches(kind::<Namespace>(), objects(&scheduler))
        .watches(kind::<Service>(), objects(&scheduler))
        .watches(kind::<ReplicationController>(), objects(&scheduler))
        .watches(kind::<ReplicaSet>(), objects(&scheduler))
        .watches(kind::<StatefulSet>(), objects(&scheduler))
        .watches(kind::<PodDisruptionBudget>(), objects(&scheduler))
        .watches(kind::<PersistentVolumeClaim>(), objects(&scheduler))
        .watches(kind::<PersistentVolume>(), objects(&scheduler))
        .watches(kind::<StorageClass>(), objects(&scheduler))
        .watches(kind::<CSINode>(), objects(&scheduler));
    let controller = scheduler.metrics.declare(controller);
    controller.reconcile(move |key, cx| {
        let scheduler = scheduler.clone();
        async move { scheduler.schedule_one(key, cx).await }
    })
}
