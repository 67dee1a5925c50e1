//! Serves `componentstatuses`: the health of the components of a cluster beside its server. They
//! are not stored.
//!
//! Kubernetes probes the usual ports of this machine. The components of an embedded cluster have
//! none: they are healthy once they run.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/rest/storage_core.go`: `serversToValidate`
//! - `pkg/registry/core/componentstatus/rest.go`: `List`, `Get`

use std::sync::atomic::Ordering;

use http::StatusCode;
use sendo_apimachinery::Status;
use sendo_store::Revision;
use serde_json::json;

use crate::read::answer::ApiResponse;
use crate::read::selection::Selection;
use crate::read::view::{self, List, Stored};
use crate::request::options::ListOptions;
use crate::state::call::Call;

/// The parts, in the order of their names.
const PARTS: [&str; 2] = ["controller-manager", "scheduler"];

/// Reads the status of the component that the path names.
pub(crate) fn get(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let part = PARTS.into_iter().find(|part| *part == call.name());
    let part = part.ok_or_else(|| call.not_found(call.name()))?;
    view::object(call, StatusCode::OK, &status(call, part))
}

/// Lists the status of all components.
pub(crate) fn list(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = ListOptions::parse(&call.request.query, false)?;
    let selection = Selection::new(call.resource, &options)?;
    let is_meant = |stored: &Stored| {
        let object = call.resource.decode(&stored.value, stored.at);
        selection.matches(&object)
    };
    let parts = PARTS.into_iter().map(|part| status(call, part));
    let found = List {
        items: parts.filter(is_meant).collect(),
        at: call.server.store.revision(),
        continue_token: String::new(),
        remaining: None,
    };
    view::list(call, found)
}

fn status(call: &Call<'_>, part: &str) -> Stored {
    let server = call.server;
    let (status, message) = match server.has_parts {
        true if server.parts_are_up.load(Ordering::Acquire) => ("True", "ok"),
        true => ("False", "not up yet"),
        false => ("False", "no such part runs beside this server"),
    };
    let mut object = json!({
        "metadata": {"name": part},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    });
    Stored {
        value: call.server.encode(call.resource, &mut object),
        at: Revision(0),
    }
}
