//! The guide: from a first controller to its tests and to production.
//!
//! To learn: [`first_controller`], [`external_events`], [`cache_and_indexes`],
//! [`finalizers`], [`webhooks`], [`webhook_certificates`], [`election`], [`metrics_and_probes`], [`testing`], [`faults`],
//! [`rights_and_manifests`], [`running_in_production`]. To translate: [`from_kube_rs`],
//! [`from_controller_runtime`]. To look up: [`mistakes`].

#[doc = include_str!("../guide/first_controller.md")]
pub mod first_controller {}

#[doc = include_str!("../guide/finalizers.md")]
pub mod finalizers {}

#[doc = include_str!("../guide/webhooks.md")]
pub mod webhooks {}

#[doc = include_str!("../guide/webhook_certificates.md")]
pub mod webhook_certificates {}

#[doc = include_str!("../guide/external_events.md")]
pub mod external_events {}

#[doc = include_str!("../guide/cache_and_indexes.md")]
pub mod cache_and_indexes {}

#[doc = include_str!("../guide/election.md")]
pub mod election {}

#[doc = include_str!("../guide/metrics_and_probes.md")]
pub mod metrics_and_probes {}

// Its examples run where there is a cluster: in the tests of `sendo-test`.
#[cfg_attr(not(doctest), doc = include_str!("../guide/testing.md"))]
pub mod testing {}

// Like those of `testing`.
#[cfg_attr(not(doctest), doc = include_str!("../guide/faults.md"))]
pub mod faults {}

#[doc = include_str!("../guide/rights_and_manifests.md")]
pub mod rights_and_manifests {}

#[doc = include_str!("../guide/running_in_production.md")]
pub mod running_in_production {}

#[doc = include_str!("../guide/from_kube_rs.md")]
pub mod from_kube_rs {}

#[doc = include_str!("../guide/from_controller_runtime.md")]
pub mod from_controller_runtime {}

#[doc = include_str!("../guide/mistakes.md")]
pub mod mistakes {}
