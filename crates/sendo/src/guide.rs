//! The guide: from a first controller to its tests.

#[doc = include_str!("../guide/first_controller.md")]
pub mod first_controller {}

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

#[doc = include_str!("../guide/mistakes.md")]
pub mod mistakes {}
