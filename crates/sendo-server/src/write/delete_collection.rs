//! DELETE of a collection: deleting what a selection of it holds. Admission is asked
//! about each object.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go`: `DeleteCollection`
//! - `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`: `DeleteCollection`

use sendo_apimachinery::{Meta, Status};
use serde_json::Value;

use super::Writer;
use super::delete::read_options;
use crate::read::answer::ApiResponse;
use crate::read::list::{self, Stopped};
use crate::read::selection::Selection;
use crate::read::view;
use crate::request::options::{ListOptions, VersionMatch};
use crate::state::call::Call;

/// Deletes each chosen object and answers with them as they were.
pub(crate) async fn delete_collection(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let mut options = ListOptions::parse(&call.request.query, false)?;
    // A collection is deleted page by page, and pages of a version are of that very one.
    if !matches!(options.resource_version.as_str(), "" | "0") {
        options.version_match.get_or_insert(VersionMatch::Exact);
    }
    let selection = Selection::new(call.resource, &options)?;
    let deletion = read_options(call)?;
    let found = match list::collect(call, &options, &selection).await {
        Ok(found) => found,
        Err(Stopped::Refused(status)) => return Err(status),
        Err(Stopped::Expired { token }) => return Ok(list::expired(&token)),
    };
    for item in &found.items {
        let object: Value =
            serde_json::from_slice(&item.value).expect("stored objects are JSON of ours");
        let meta = Meta::new(&object);
        let path = crate::request::path::ResourcePath {
            namespace: Some(meta.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            ..call.path.clone()
        };
        let one = Call {
            path: &path,
            ..*call
        };
        match super::remove(&one, meta.name(), &deletion, Writer::Client).await {
            // Somebody else was faster.
            Err(status) if status.code == 404 => {}
            other => drop(other?),
        }
    }
    view::list(call, found)
}
