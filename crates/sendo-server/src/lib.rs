//! The embedded Kubernetes API server, a tower service over a store.

pub mod kinds;
pub mod printers;
