//! Updates which custom resources and groups the server serves, after a write has changed their
//! definitions.

pub(crate) mod api_services;
pub(crate) mod definitions;
