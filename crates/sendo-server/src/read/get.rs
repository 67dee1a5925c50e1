//! Reads one object.

use http::StatusCode;
use sendo_apimachinery::{Status, go_quote};
use sendo_store::Revision;

use crate::read::answer::ApiResponse;
use crate::read::view::{self, Stored};
use crate::request::query;
use crate::state::call::Call;

/// Reads the object that the path names, as it is now.
///
/// A `resourceVersion` requests a state that is not older: the answer waits for one in the future.
pub(crate) async fn get(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let wanted = version(call.request.query.text("resourceVersion"))?;
    call.server.reach(wanted).await?;
    let entry = call.entry().await?;
    view::saved(call, StatusCode::OK, Stored::from(&*entry)).await
}

/// Reads the `resourceVersion` of a read of one object or of a watch.
pub(crate) fn version(text: &str) -> Result<Revision, Status> {
    if text.is_empty() {
        return Ok(Revision(0));
    }
    let number = query::parse_uint(text).map_err(|error| {
        Status::unclassified(format!(
            "resourceVersion: Invalid value: {}: {error}",
            go_quote(text)
        ))
    })?;
    Ok(Revision(number))
}
