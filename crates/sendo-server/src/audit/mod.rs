//! The audit log: a record of who requested what, and how it ended.
//!
//! A request has a [`Record`] if the policy wants one. It is made when the user is known, and
//! takes in what the steps of the request find out until the response is sent. Without an audit
//! log a request costs a comparison.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit.go`: `WithAudit`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/filters/audit_init.go`: `WithAuditInit`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/filters/authn_audit.go`: `WithFailedAuthenticationAudit`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/filters/authorization.go`: `WithAuthorization`
//! - `staging/src/k8s.io/apiserver/pkg/audit/context.go`: `ProcessEventStage`, `LogImpersonatedUser`, `LogResponseObject`

mod event;
mod log;
mod policy;

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::Response;
use http::header::{HeaderName, HeaderValue};
use sendo_apimachinery::Status;
use sendo_apimachinery::decode::{Format, untyped};
use sendo_world::World;
use serde_json::{Value, json};

use crate::access::authorise;
use crate::metrics::Metrics;
use crate::request::Request;
use crate::request::body::Body;
use crate::request::in_flight;
use crate::request::path::Verb;
use crate::request::user::User;
use event::{Event, UserInfo, micro_time, without_managed_fields};
use policy::{Decision, Level, Stage};

pub use log::{AuditLog, AuditRotation};
pub use policy::{AuditPolicy, AuditPolicyError};

/// The header that names the event of a request, and that of its response.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// What requests of a server are recorded, and where.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Which requests are recorded.
    pub policy: AuditPolicy,
    /// Where they are recorded.
    pub log: AuditLog,
}

/// The audit log of a server.
#[derive(Debug)]
pub(crate) struct Auditor {
    audit: Audit,
    world: World,
    metrics: Arc<Metrics>,
}

/// What is recorded of one request.
#[derive(Debug)]
pub(crate) struct Record {
    auditor: Arc<Auditor>,
    level: Level,
    omitted_stages: Vec<Stage>,
    omits_managed_fields: bool,
    lasts: bool,
    event: Event,
}

impl Auditor {
    pub(crate) fn new(audit: Audit, world: &World, metrics: &Arc<Metrics>) -> Self {
        Auditor {
            audit,
            world: world.child("audit"),
            metrics: Arc::clone(metrics),
        }
    }

    /// The record of a request whose user was found, or could not be; `None` if the policy
    /// wants none.
    pub(crate) fn begin(
        self: &Arc<Self>,
        request: &Request,
        user: Option<&User>,
    ) -> Option<Box<Record>> {
        let method = request.method.as_str().to_ascii_lowercase();
        let nobody = User::anonymous();
        let attributes = authorise::attributes(request, user.unwrap_or(&nobody), &method);
        let policy = &self.audit.policy;
        let decision = policy.evaluate(user, attributes.verb, &attributes.requested);
        let level = decision.map_or(Level::None, |decision| decision.level);
        self.metrics.audit.levels.count(&[level.as_str()]);
        let Decision {
            level,
            omitted_stages,
            omits_managed_fields,
        } = decision?.clone();
        let id = match request.header(AUDIT_ID) {
            "" => self.world.random().uuid(),
            id => id.to_owned(),
        };
        let now = self.world.clock().wall();
        let event = Event::new(request, &attributes, user, level.as_str(), id, now);
        Some(Box::new(Record {
            auditor: Arc::clone(self),
            level,
            omitted_stages,
            omits_managed_fields,
            lasts: in_flight::lasts(request),
            event,
        }))
    }

    fn write(&self, event: &Event) {
        self.metrics.audit.events.add(1);
        let text = serde_json::to_string(event).expect("an event is JSON");
        let now = self.world.clock().wall();
        if let Err(error) = self.audit.log.write(&text, now) {
            self.metrics.audit.errors.count(&["log"]);
            tracing::error!(%error, audit_id = event.audit_id, "an audit event could not be written");
        }
    }
}

impl Record {
    /// What names the request in the log.
    pub(crate) fn id(&self) -> &str {
        &self.event.audit_id
    }

    /// Records that a stage has come.
    fn process(&mut self, stage: Stage) {
        if self.omitted_stages.contains(&stage) {
            return;
        }
        self.event.stage = stage.as_str();
        if stage != Stage::RequestReceived {
            self.event.stage_timestamp = micro_time(self.auditor.world.clock().wall());
        }
        self.auditor.write(&self.event);
    }

    /// The request has come, and its user is known.
    pub(crate) fn received(&mut self) {
        self.process(Stage::RequestReceived);
    }

    /// The request could not be authenticated: there is one event, when that is answered.
    pub(crate) fn failed_authentication(&mut self) {
        self.lasts = true;
        self.omitted_stages
            .extend([Stage::RequestReceived, Stage::ResponseComplete]);
    }

    /// The request is made as another user, by a mode of impersonation if it is constrained.
    pub(crate) fn impersonates(&mut self, user: &User, constraint: Option<&str>) {
        self.event.impersonated_user = Some(UserInfo::from(user));
        self.event.authentication_metadata =
            constraint.map(|constraint| json!({"impersonationConstraint": constraint}));
    }

    /// Whether the object of the response is of interest.
    pub(crate) fn wants_response(&self) -> bool {
        self.level == Level::RequestResponse
    }

    /// The response is this Status.
    pub(crate) fn refused(&mut self, status: &Status) {
        self.responded(status.to_json());
    }

    /// The response is this object.
    pub(crate) fn responded(&mut self, object: Value) {
        if object["kind"] == "Status" && object["apiVersion"] == "v1" {
            self.event.set_status(&object);
        }
        if self.wants_response() {
            self.event.response_object = Some(match self.omits_managed_fields {
                true => without_managed_fields(object),
                false => object,
            });
        }
    }

    /// The server could not go on, for this reason.
    pub(crate) fn panicked(&mut self, cause: &str) {
        self.event.response_status = None;
        self.event.set_status(&json!({
            "status": "Failure",
            "message": format!("APIServer panic'd: {cause}"),
            "reason": "InternalError",
        }));
        self.event.set_code(500);
        self.process(Stage::Panic);
        // It was the last stage.
        self.omitted_stages
            .extend([Stage::ResponseStarted, Stage::ResponseComplete]);
    }

    /// Records the response, now or when the stream ends that it is.
    pub(crate) fn finish(
        mut self: Box<Self>,
        request: &Request,
        mut response: Response<Body>,
    ) -> Response<Body> {
        if let Ok(id) = HeaderValue::from_str(&self.event.audit_id) {
            response.headers_mut().entry(AUDIT_ID).or_insert(id);
        }
        self.event.annotations = request.annotations();
        if let Some(sent) = request.take_sent_object() {
            self.event.refer_to(&sent);
            self.set_request_object(sent);
        } else if let Some(sent) = raw_object(request) {
            self.set_request_object(sent);
        }
        self.event.set_code(response.status().as_u16());
        if self.lasts {
            self.process(Stage::ResponseStarted);
        }
        if http_body::Body::size_hint(response.body())
            .exact()
            .is_some()
        {
            self.process(Stage::ResponseComplete);
            return response;
        }
        let streamed = Streamed(self);
        response.map(|body| Body::stream(streamed.record(body.into_stream())))
    }

    fn set_request_object(&mut self, object: Value) {
        if self.level >= Level::Request {
            self.event.request_object = Some(match self.omits_managed_fields {
                true => without_managed_fields(object),
                false => object,
            });
        }
    }
}

/// What was sent with a request that sends no object: a patch, or the options of a deletion.
fn raw_object(request: &Request) -> Option<Value> {
    let sends = matches!(
        request.verb,
        Verb::Patch | Verb::Delete | Verb::DeleteCollection
    );
    if !sends || request.body.is_empty() {
        return None;
    }
    let sent = untyped(&request.body, Format::Yaml).ok()?.value;
    (!sent.is_null()).then_some(sent)
}

/// A record of a response that is a stream. It ends with the stream, or when the client leaves.
struct Streamed(Box<Record>);

impl Streamed {
    fn record(self, body: impl Stream<Item = Bytes> + Send + 'static) -> impl Stream<Item = Bytes> {
        body.inspect(move |_| {
            let _recorded_with_the_stream = &self;
        })
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        self.0.process(Stage::ResponseComplete);
    }
}
