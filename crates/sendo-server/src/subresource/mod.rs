//! Serves the subresources of objects.

mod connect;

use sendo_apimachinery::Status;

use crate::read::answer::ApiResponse;
use crate::read::get;
use crate::request::path::Verb;
use crate::route::Action;
use crate::state::call::Call;
use crate::write::token_request;
use crate::write::{Strategy, binding, eviction, patch, scale, update};

/// Answers a request on a subresource that the resource has.
///
/// Where only one verb is served, the name of the subresource says which.
pub(crate) async fn answer(call: &Call<'_>, action: &Action) -> Result<ApiResponse, Status> {
    let (name, verb) = (action.subresource().unwrap_or_default(), action.verb());
    let core = call.resource.facts.group.is_empty();
    match (name, call.resource.facts.plural.as_str()) {
        ("scale", _) => scale::answer(call, verb).await,
        ("binding", "pods") if core => binding::bind(call).await,
        ("eviction", "pods") if core => eviction::evict(call).await,
        ("token", "serviceaccounts") if core => token_request::create(call).await,
        ("log", "pods") if core => connect::log(call).await,
        ("exec" | "attach" | "portforward", "pods") if core => {
            connect::admit(call, name).await?;
            connect::stream(call, name, verb).await
        }
        ("proxy", "pods" | "services" | "nodes") if core => {
            connect::admit(call, name).await?;
            connect::proxy(call, verb).await
        }
        _ => match strategy(call, name) {
            Some(strategy) => of_object(call, verb, strategy).await,
            None => Err(Status::no_such_resource()),
        },
    }
}

/// A subresource that reads and writes the object itself, by rules of its own.
async fn of_object(call: &Call<'_>, verb: Verb, strategy: Strategy) -> Result<ApiResponse, Status> {
    match verb {
        Verb::Get => get::get(call).await,
        Verb::Patch => patch::patch(call, strategy).await,
        Verb::Update => update::update(call, strategy).await,
        _ => Err(Status::method_not_allowed()),
    }
}

fn strategy(call: &Call<'_>, name: &str) -> Option<Strategy> {
    if name == "status" {
        return Some(Strategy::Status);
    }
    call.resource
        .rules
        .subresource(name)
        .copied()
        .map(Strategy::Subresource)
}
