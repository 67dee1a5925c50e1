//! POST: creating an object.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go`: `createHandler`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/meta.go`: `WipeObjectMetaSystemFields`

use http::StatusCode;
use sendo_apimachinery::Status;
use serde_json::Value;

use super::owner_references::{self, When};
use super::{Change, New, Presence, Strategy, Writer, field_managers, metadata};
use crate::read::answer::ApiResponse;
use crate::read::view;
use crate::request::options::{Write, WriteOptions};
use crate::state::call::Call;
use crate::state::decode;

/// Creates the object of the body.
pub(crate) async fn create(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let change = Change {
        strategy: Strategy::Object,
        presence: Presence::Absent,
        writer: Writer::Client,
        options: &options,
    };
    let body = |_: Option<&Value>| new_object(call, decode::object(call, &options)?);
    let saved = super::save(call, change, body).await?;
    view::saved(call, StatusCode::CREATED, saved.stored).await
}

/// A decoded object of the request's version as a new one; its writer owns what it sent.
pub(super) fn new_object(call: &Call<'_>, mut object: Value) -> Result<New, Status> {
    // Nobody owns what is not taken.
    metadata::wipe(&mut object);
    owner_references::dedup(call, &mut object, When::InBody);
    let managers = field_managers::create(call, &mut object);
    let mut object = decode::to_storage(call, object);
    decode::set_namespace(call, &mut object)?;
    Ok(New { object, managers })
}
