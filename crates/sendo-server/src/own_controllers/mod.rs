//! What the server keeps right by itself after a write: which custom resources and
//! groups are served.

pub(crate) mod api_services;
pub(crate) mod definitions;
