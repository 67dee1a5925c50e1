//! Which definitions the catalog shows, and as of which revision.

use std::collections::BTreeMap;

use sendo_store::Revision;
use sendo_world::Stop;
use serde_json::Value;

/// The definitions that were synchronized.
#[derive(Debug, Default)]
pub(crate) struct SyncedDefinitions {
    pub(crate) definitions: BTreeMap<String, Synced>,
}

/// A definition that was synchronized.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) group: String,
    /// The revision that the catalog shows.
    pub(crate) at: Revision,
    pub(crate) schema_since: Revision,
    pub(crate) versions: Value,
    /// `spec.conversion`.
    pub(crate) conversion: Value,
    pub(crate) established: bool,
    pub(crate) terminating: bool,
    pub(crate) gone: Stop,
}
