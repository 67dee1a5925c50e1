//! The right to create, for requests whose verb is another: a PUT or an apply that
//! comes to create, a GET that opens a connection.

use sendo_apimachinery::Status;

use super::call::Call;
use crate::access::authorise::{Attributes, Decision, attributes, decide, demand};
use crate::request::path::Verb;

/// Refuses a PUT or an apply that comes to create something, unless its writer may.
pub(crate) async fn demand_create(call: &Call<'_>) -> Result<(), Status> {
    demand(&call.server.access, &create_instead(call)).await
}

/// Refuses to create through a subresource what another verb has been allowed on.
///
/// The refusal does not say who wanted what.
pub(crate) async fn demand_create_too(call: &Call<'_>) -> Result<(), Status> {
    match decide(&call.server.access, &create_instead(call)).await? {
        Decision::Allowed(_) => Ok(()),
        Decision::Refused(why) => {
            let resource = call.resource.group_resource();
            Err(Status::forbidden(&resource, call.name(), why))
        }
    }
}

/// What a request wants to do, if that were to create.
fn create_instead<'a>(call: &Call<'a>) -> Attributes<'a> {
    Attributes {
        verb: Verb::Create.as_str(),
        ..attributes(call.request, &call.request.user, "")
    }
}
