//! What is done with a resource, one file a verb.

pub(crate) mod component_status;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod watch;
