//! PUT: putting an object in place of the stored one.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go`: `UpdateResource`

use http::StatusCode;
use sendo_apimachinery::{Meta, MetaMut, Status};

use super::owner_references::{self, When};
use super::{Change, Presence, Strategy, Writer, create, field_managers, preconditions};
use crate::read::answer::ApiResponse;
use crate::read::view;
use crate::request::options::{Write, WriteOptions};
use crate::state::call::Call;
use crate::state::decode;

/// Puts the object of the body in place of the stored one, or creates it where the
/// kind allows that.
pub(crate) async fn update(call: &Call<'_>, strategy: Strategy) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Update)?;
    let body = decode::object(call, &options)?;
    decode::check_name(call, &body)?;
    let creates = matches!(strategy, Strategy::Object) && call.resource.rules.create_on_update;
    let change = Change {
        strategy,
        presence: if creates {
            Presence::Either
        } else {
            Presence::Present
        },
        writer: Writer::Client,
        options: &options,
    };
    let saved = super::save(call, change, |old| {
        let wanted = Meta::new(&body).uid();
        let found = old.map_or("", |old| Meta::new(old).uid());
        if !wanted.is_empty() && wanted != found {
            return Err(preconditions::wrong_uid(call, wanted, found));
        }
        let mut new = body.clone();
        let Some(old) = old else {
            MetaMut::new(&mut new).remove("resourceVersion");
            return create::new_object(call, new);
        };
        new = decode::to_storage(call, new);
        decode::set_namespace(call, &mut new)?;
        owner_references::dedup(call, &mut new, When::InBody);
        field_managers::update_stored(call, old, &mut new);
        Ok(new.into())
    })
    .await?;
    let code = if saved.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    view::saved(call, code, saved.stored).await
}
