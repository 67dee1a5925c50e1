//! What the server keeps right by itself: the objects of a new cluster, the
//! served groups after a write of a definition or an APIService.

pub(crate) mod api_services;
pub(crate) mod definitions;
