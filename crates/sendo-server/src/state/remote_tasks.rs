//! The tasks that check other API servers, by the names of their APIServices.

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_world::Stop;
use tokio::sync::Notify;

use crate::catalog::remote::Backend;

/// The running tasks. Whoever changes them holds the lock for as long as the catalog is not in
/// line with them.
#[derive(Debug, Default)]
pub(crate) struct RemoteTasks {
    pub(crate) by_api_service: BTreeMap<String, RemoteTask>,
}

/// The task that checks one server for one version.
#[derive(Debug)]
pub(crate) struct RemoteTask {
    pub(crate) backend: Arc<Backend>,
    /// Has the task check again at once.
    pub(crate) changed: Arc<Notify>,
    /// Ends the task.
    pub(crate) stop: Stop,
}

impl Drop for RemoteTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
