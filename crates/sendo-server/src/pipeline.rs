//! Runs the steps of a request in a row: authenticate → authorise → route → read or write → encode.
//! The steps of a write are in `write/mod.rs`.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Response, StatusCode};
use sendo_apimachinery::Status;
use sendo_apimachinery::duration::duration_fault;
use sendo_apimachinery::status::{Details, Reason};
use sendo_world::Moment;

use crate::access::authenticate::authenticate;
use crate::access::authenticate::impersonate::impersonate;
use crate::access::authorise::{Permit, authorise};
use crate::aggregator::forward;
use crate::audit::{AUDIT_ID, Record};
use crate::catalog::Resource;
use crate::kinds::api_service;
use crate::monitor::{self, Seen};
use crate::own_controllers::api_services;
use crate::own_controllers::definitions;
use crate::pages;
use crate::read;
use crate::read::answer::{self, ApiResponse};
use crate::request::Request;
use crate::request::body::Body;
use crate::request::in_flight::lasts;
use crate::request::negotiate::{self, Gate, Offer, Protobuf, Refusal};
use crate::request::path::{ResourcePath, Target, Verb};
use crate::request::user::User;
use crate::reviews;
use crate::route::{self, Action, NoRoute};
use crate::state::Server;
use crate::state::call::Call;
use crate::subresource;
use crate::write::patch::PatchType;
use crate::write::{self, Strategy, binding};

/// How long a client may take to send a body.
const BODY_PATIENCE: Duration = Duration::from_secs(60);

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin<'a> {
    /// Who the connection belongs to, if that is known.
    pub(crate) user: Option<&'a User>,
    /// The address at the other end of the connection; none for a request of this process.
    pub(crate) address: Option<IpAddr>,
}

impl<'a> Origin<'a> {
    /// A request that this process sends as a user.
    pub(crate) fn of_this_process(user: &'a User) -> Self {
        Origin {
            user: Some(user),
            address: None,
        }
    }
}

/// Answers a request.
///
/// A panic on the way is answered with 500 and leaves the server as it was.
pub(crate) async fn handle<B>(
    server: &Arc<Server>,
    origin: Origin<'_>,
    request: http::Request<B>,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let began = server.world.clock().now();
    let mut request = Request::new(&head);
    request.peer = origin.address;
    let mut progress = Progress {
        began,
        seen: Seen::default(),
        record: None,
    };
    let answer = AssertUnwindSafe(answer(
        server,
        origin.user,
        &mut request,
        body,
        &mut progress,
    ))
    .catch_unwind()
    .await;
    let answer = answer.unwrap_or_else(|panic| {
        let cause = panic_text(panic.as_ref());
        tracing::error!(method = %request.method, path = %request.path, cause, "a request panicked");
        if let Some(record) = &mut progress.record {
            record.panicked(cause);
        }
        Err(Status::internal_error(cause))
    });
    let annotations = request.annotations();
    if !annotations.is_empty() {
        tracing::debug!(method = %request.method, path = request.path, ?annotations, "audit annotations");
    }
    let answer = match &mut progress.record {
        Some(record) => note_answer(record, &request, answer),
        None => answer,
    };
    let response = answer::respond(&server.types, &request, answer);
    let response = match request.method {
        Method::HEAD => answer::head_of(response),
        _ => response,
    };
    let response = monitor::monitor(server, &request, progress.seen, began, response);
    match progress.record {
        Some(record) => record.finish(&request, response),
        None => response,
    }
}

/// What is known of a request while it is served.
struct Progress {
    began: Moment,
    seen: Seen,
    /// What the audit log records of it.
    record: Option<Box<Record>>,
}

/// Notes the answer for the audit log. A list that is recorded is read to its end.
fn note_answer(
    record: &mut Record,
    request: &Request,
    answer: Result<ApiResponse, Status>,
) -> Result<ApiResponse, Status> {
    let is_resource = matches!(request.target, Target::Resource(_));
    let deletes = matches!(request.verb, Verb::Delete | Verb::DeleteCollection);
    let wanted = is_resource && (record.wants_response() || deletes);
    let answer = match answer {
        Ok(ApiResponse::List(pieces)) if record.wants_response() => {
            let whole: Vec<Bytes> = pieces.collect();
            Ok(ApiResponse::Json(StatusCode::OK, whole.concat().into()))
        }
        other => other,
    };
    match &answer {
        Err(status) => record.refused(status),
        Ok(ApiResponse::Json(_, bytes)) if wanted => {
            record.responded(serde_json::from_slice(bytes).unwrap_or_default());
        }
        Ok(_) => {}
    }
    answer
}

async fn answer<B>(
    server: &Arc<Server>,
    caller: Option<&User>,
    request: &mut Request,
    body: B,
    progress: &mut Progress,
) -> Result<ApiResponse, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if server.world.tasks().stopping().is_cancelled() {
        return Err(Status::service_unavailable("the server is shutting down"));
    }
    if let Some(answer) = of_no_path(request) {
        return Ok(answer);
    }
    check_timeout(request)?;
    identify(server, caller, request, progress).await?;
    let Some(in_flight) = server.in_flight.acquire(request, progress.began) else {
        progress.seen = Seen::Dropped;
        return Ok(ApiResponse::Busy);
    };
    let permit = authorise(&server.access, request).await?;
    let catalog = server.catalog();
    if let Some(remote) = catalog.remote_at(&request.path) {
        // It is that server's work: a slow one takes no place of others.
        drop(in_flight);
        if forward::may_have_a_body(&request.method) {
            read_body(server, request, body).await?;
        }
        if let Some(record) = &progress.record {
            request.set_header(AUDIT_ID, record.id());
        }
        return forward::forward(server, request, remote).await;
    }
    if request.has_use_for_a_body() {
        read_body(server, request, body).await?;
    }
    match request.target.clone() {
        Target::Resource(path) => on_resource(server, request, &permit, &path, progress).await,
        Target::Other => {
            progress.seen = Seen::page(request);
            pages::answer(server, request).await
        }
    }
}

/// Reads the body of a request, which the client has to send in time.
async fn read_body<B>(server: &Server, request: &mut Request, body: B) -> Result<(), Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let clock = server.world.clock();
    let read = clock.timeout(BODY_PATIENCE, request.read_body(body));
    read.await.unwrap_or_else(|| {
        Err(Status::timeout(
            "the body was not sent within the allotted time",
            0,
        ))
    })
}

/// Finds the user of a request, and begins its record in the audit log.
async fn identify(
    server: &Server,
    caller: Option<&User>,
    request: &mut Request,
    progress: &mut Progress,
) -> Result<(), Status> {
    let authenticated = authenticate(&server.access, caller, request).await;
    if let Some(auditor) = &server.audit {
        let mut record = auditor.begin(request, authenticated.as_ref().ok());
        request.is_audited = record.is_some();
        match (&mut record, &authenticated) {
            (Some(record), Ok(_)) => record.received(),
            (Some(record), Err(_)) => record.failed_authentication(),
            (None, _) => {}
        }
        progress.record = record;
    }
    let real = authenticated?;
    request.user = match impersonate(&server.access, &real, request).await? {
        None => real,
        Some(impersonated) => {
            if let Some(record) = &mut progress.record {
                record.impersonates(&impersonated.user, impersonated.constraint.as_deref());
            }
            impersonated.user
        }
    };
    Ok(())
}

/// Refuses a timeout that cannot be parsed. Every answer comes well before a valid one.
fn check_timeout(request: &Request) -> Result<(), Status> {
    let timeout = request.query.text("timeout");
    let fault = match timeout.is_empty() || lasts(request) {
        true => None,
        false => duration_fault(timeout),
    };
    match fault {
        None => Ok(()),
        Some(fault) => Err(Status::bad_request(format!(
            "invalid timeout specified in the request URL - {fault}"
        ))),
    }
}

/// The answer to a request whose target is no path: `*`, or one that cannot be parsed.
fn of_no_path(request: &Request) -> Option<ApiResponse> {
    if request.is_misspelt() {
        let text = "400 Bad Request".to_owned();
        return Some(ApiResponse::Text(StatusCode::BAD_REQUEST, text));
    }
    (request.path == "*").then(|| match request.method {
        Method::OPTIONS => ApiResponse::Empty(StatusCode::OK),
        _ => ApiResponse::page_not_found(),
    })
}

/// The answer of a path that names a resource.
async fn on_resource(
    server: &Arc<Server>,
    request: &mut Request,
    permit: &Permit,
    path: &ResourcePath,
    progress: &mut Progress,
) -> Result<ApiResponse, Status> {
    let catalog = server.catalog();
    let (resource, action) = match route::route(&catalog, permit, &request.method, path) {
        Ok(route) => route,
        Err(NoRoute::Status(status)) => return Err(status),
        Err(NoRoute::Page(answer)) => return Ok(answer),
    };
    progress.seen = Seen::Resource(Arc::clone(&resource));
    if request.has_use_for_a_body() {
        let (group, plural) = (&path.group, &path.resource);
        let verb = match action.verb() {
            Verb::DeleteCollection => "delete_collection",
            verb => verb.as_str(),
        };
        let requests = &server.metrics.requests;
        requests.body(group, plural, verb, request.body.len());
    }
    if let Some(text) = resource.deprecation() {
        request.warn(text);
        request.annotate("k8s.io/deprecated", "true");
    }
    accept(request, &resource, &action)?;
    let call = Call {
        server,
        request,
        path,
        resource: &resource,
    };
    let creates = action.subresource().is_none() && action.verb() == Verb::Create;
    call.check_namespace(creates)?;
    let answer = act(&call, &action).await?;
    settle(&call, &action).await?;
    Ok(answer)
}

/// Does what was allowed.
async fn act(call: &Call<'_>, action: &Action) -> Result<ApiResponse, Status> {
    if action.subresource().is_some() {
        return subresource::answer(call, action).await;
    }
    let resource = call.resource;
    match action.verb() {
        Verb::Get if resource.is_core("componentstatuses") => read::component_status::get(call),
        Verb::List if resource.is_core("componentstatuses") => read::component_status::list(call),
        Verb::Get => read::get::get(call).await,
        Verb::List => read::list::list(call).await,
        Verb::Watch => read::watch::watch(call).await,
        Verb::Create if resource.is_core("bindings") => binding::bind_by_collection(call).await,
        Verb::Create if resource.facts.storage.is_none() => reviews::create(call).await,
        Verb::Create => write::create::create(call).await,
        Verb::Update => write::update::update(call, Strategy::Object).await,
        Verb::Patch => write::patch::patch(call, Strategy::Object).await,
        Verb::Delete => write::delete::delete(call).await,
        Verb::DeleteCollection => write::delete_collection::delete_collection(call).await,
        Verb::Proxy | Verb::Unknown => Err(Status::method_not_allowed()),
    }
}

/// Brings what is served in line with what a write left.
///
/// That is a task of the server: it goes on if the client has left meanwhile.
async fn settle(call: &Call<'_>, action: &Action) -> Result<(), Status> {
    if action.verb().reads() {
        return Ok(());
    }
    let server = Arc::clone(call.server);
    let tasks = call.server.world.tasks();
    let facts = &call.resource.facts;
    let settled = if (facts.group.as_str(), facts.plural.as_str())
        == (api_service::GROUP, api_service::PLURAL)
    {
        tasks.spawn(
            "api services",
            async move { api_services::sync(&server).await },
        )
    } else if call.resource.is_definition() {
        tasks.spawn(
            "definitions",
            async move { definitions::sync(&server).await },
        )
    } else if let Some(custom) = call
        .resource
        .custom
        .as_ref()
        .filter(|custom| custom.terminating)
    {
        let definition = custom.definition.clone();
        tasks.spawn("definitions", async move {
            definitions::object_gone(&server, &definition).await
        })
    } else {
        return Ok(());
    };
    let panicked = || {
        Err(Status::internal_error(
            "the definitions of custom resources could not be read",
        ))
    };
    settled.output().await.unwrap_or_else(panicked)
}

/// Media types that answers come in, as refusals list them.
const WRITTEN: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// The same where a watch may be requested, which is a stream.
const STREAMED: [&str; 5] = [
    WRITTEN[0],
    WRITTEN[1],
    WRITTEN[2],
    read::watch::MEDIA_TYPES[0],
    read::watch::MEDIA_TYPES[1],
];

/// Media types that patches of custom resources come in, as refusals list them.
const CUSTOM_PATCHES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// Agrees on the media types of body and answer.
fn accept(request: &mut Request, resource: &Resource, action: &Action) -> Result<(), Status> {
    let is_custom = resource.custom.is_some();
    let patches = action.verb() == Verb::Patch && action.subresource() != Some("proxy");
    let patch = PatchType::from_request(request);
    // Custom resources say nothing of how their lists merge.
    let known = patch.is_some_and(|patch| !is_custom || patch != PatchType::Strategic);
    if patches && !known && is_custom {
        return Err(Status::unsupported_media_type(&CUSTOM_PATCHES));
    }
    if patches && !known {
        let status = Status::new(
            415,
            Reason::UnsupportedMediaType,
            "415: Unsupported Media Type",
        );
        return Err(status.with_details(Details::default()));
    }
    // Custom resources are not behind the gate that only checks media types.
    let (protobuf, gate) = match is_custom {
        true => (Protobuf::Metadata, Gate::Open),
        false => (Protobuf::Objects, Gate::Shut),
    };
    let is_token = action.subresource() == Some("token");
    let offer = Offer {
        // A token, and what is only created and not stored, has no rows.
        tables: !is_token && resource.facts.has_verb("get"),
        ..Offer::all(protobuf)
    };
    let form = negotiate::resource(request.accept().as_deref(), gate, offer);
    let is_list = matches!(action.verb(), Verb::List | Verb::Watch);
    request.form = form.map_err(|refusal| match refusal {
        Refusal::MediaType if is_list && resource.facts.has_verb("watch") => {
            Status::not_acceptable(&STREAMED)
        }
        Refusal::MediaType => Status::not_acceptable(&WRITTEN),
        Refusal::Transformation => Status::not_acceptable_parameters(&WRITTEN),
    })?;
    Ok(())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the request panicked")
}
