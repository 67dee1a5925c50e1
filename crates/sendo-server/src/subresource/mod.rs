//! What lies below an object's path.

mod connect;

use http::Method;
use sendo_apimachinery::Status;

use crate::answer::Answer;
use crate::call::Call;
use crate::decode;
use crate::options::{Write, WriteOptions};
use crate::tokens;
use crate::verbs::get;
use crate::write::strategy::Strategy;
use crate::write::{binding, eviction, patch, scale, update};

/// Answers a request on a subresource that the resource has.
pub(crate) async fn answer(call: &Call<'_>, name: &str) -> Result<Answer, Status> {
    let core = call.resource.facts.group.is_empty();
    match (name, call.resource.facts.plural.as_str()) {
        ("scale", _) => scale::answer(call).await,
        ("binding", "pods") if core => binding::bind(call).await,
        ("eviction", "pods") if core => eviction::evict(call).await,
        ("token", "serviceaccounts") if core => tokens::request::create(call).await,
        ("log", "pods") if core => connect::log(call).await,
        ("exec" | "attach" | "portforward", "pods") if core => connect::stream(call, name).await,
        ("proxy", "pods" | "services" | "nodes") if core => connect::proxy(call).await,
        _ => match strategy(call, name) {
            Some(strategy) => of_object(call, strategy).await,
            None => Err(Status::no_such_resource()),
        },
    }
}

/// A subresource that reads and writes the object itself, by rules of its own.
async fn of_object(call: &Call<'_>, strategy: Strategy) -> Result<Answer, Status> {
    match call.request.method {
        Method::GET | Method::HEAD => get::get(call).await,
        Method::PATCH => patch::patch(call, strategy).await,
        _ => {
            let options = WriteOptions::parse(&call.request.query, Write::Update)?;
            let object = decode::object(call, &options)?;
            decode::check_name(call, &object)?;
            update::replace_existing(call, object, strategy, &options).await
        }
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
        .map(Strategy::Other)
}
