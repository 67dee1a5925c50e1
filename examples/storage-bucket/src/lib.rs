//! A controller for object-storage buckets outside the cluster.

pub mod api;
pub mod http;
#[cfg(feature = "local-store")]
pub mod local_store;
mod status;
pub mod store;
