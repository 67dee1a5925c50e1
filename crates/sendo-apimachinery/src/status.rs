//! The errors of a Kubernetes API, as values and on the wire.
//!
//! Every refusal is a [`Status`]: a code, a [`Reason`] that programs match on, a
//! message for people, and [`Details`]. The constructors word them as
//! Kubernetes does.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::{GroupKind, GroupResource, field};

/// A refusal or failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The text for people.
    pub message: String,
    /// What the error is about. `None` leaves `details` out, an empty one is sent as `{}`.
    pub details: Option<Box<Details>>,
}

/// Why a request failed, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the wire's own words
pub enum Reason {
    /// No reason is given; left out on the wire.
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    /// The word on the wire; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an error is about. Empty members are left out on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The group of the resource or kind.
    pub group: String,
    /// The resource (most errors) or the kind (validation, preconditions).
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// The single faults.
    pub causes: Vec<Cause>,
    /// After how many seconds to try again; 0 for none.
    pub retry_after_seconds: u32,
}

/// One of the faults behind an error. Empty members are left out on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The path of the field at fault.
    pub field: String,
}

impl Details {
    fn resource(resource: &GroupResource, name: &str) -> Self {
        Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        }
    }

    /// The `details` member of a Status.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let texts = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ];
        put_texts(&mut out, texts);
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::to_json).collect();
            out.insert("causes".to_owned(), causes);
        }
        if self.retry_after_seconds != 0 {
            out.insert(
                "retryAfterSeconds".to_owned(),
                self.retry_after_seconds.into(),
            );
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut out = Map::new();
        let texts = [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ];
        put_texts(&mut out, texts);
        Value::Object(out)
    }
}

fn put_texts<const N: usize>(out: &mut Map<String, Value>, texts: [(&str, &String); N]) {
    for (name, text) in texts {
        if !text.is_empty() {
            out.insert(name.to_owned(), text.as_str().into());
        }
    }
}

impl Status {
    /// Any error: code, reason and message, without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status {
            code,
            reason,
            message: message.into(),
            details: None,
        }
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same with one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// 404 for an object: `configmaps "a" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::new(
            404,
            Reason::NotFound,
            format!("{resource} {} not found", quote(name)),
        )
        .with_details(Details::resource(resource, name))
    }

    /// 404 for a path that names no resource.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Status::new(404, Reason::NotFound, message).with_details(Details::default())
    }

    /// 409 for a name that is taken: `configmaps "a" already exists`.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Status::new(409, Reason::AlreadyExists, message)
            .with_details(Details::resource(resource, name))
    }

    /// 409 where no generated name was free; to be tried again after a second.
    pub fn no_free_name(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        let mut details = Details::resource(resource, name);
        details.retry_after_seconds = 1;
        Status::new(409, Reason::AlreadyExists, message).with_details(details)
    }

    /// 409: `Operation cannot be fulfilled on configmaps "a": cause`.
    pub fn conflict(resource: &GroupResource, name: &str, cause: impl fmt::Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {cause}",
            quote(name)
        );
        Status::new(409, Reason::Conflict, message).with_details(Details::resource(resource, name))
    }

    /// 409 for an update of a version that is no longer the newest.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Status::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 for an update or delete meant for another incarnation of the object.
    ///
    /// Names the kind where other conflicts name the resource.
    pub fn uid_precondition(kind: &GroupKind, name: &str, wanted: &str, found: &str) -> Self {
        Status::conflict(
            &kind_as_resource(kind),
            name,
            format_args!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
            ),
        )
    }

    /// 409 for a delete meant for another version of the object.
    ///
    /// Names the kind where other conflicts name the resource.
    pub fn version_precondition(kind: &GroupKind, name: &str, wanted: &str, found: &str) -> Self {
        Status::conflict(
            &kind_as_resource(kind),
            name,
            format_args!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({found}). The object might have been modified"
            ),
        )
    }

    /// 409 for an apply that touches fields of other managers.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        let details = Details {
            causes,
            ..Details::default()
        };
        Status::new(409, Reason::Conflict, message).with_details(details)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, Reason::BadRequest, message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Status::new(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403: `pods "a" is forbidden: cause`, or `forbidden: cause` where there is no resource.
    pub fn forbidden(resource: &GroupResource, name: &str, cause: impl fmt::Display) -> Self {
        let message = if resource.group.is_empty() && resource.resource.is_empty() {
            format!("forbidden: {cause}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {cause}")
        } else {
            format!("{resource} {} is forbidden: {cause}", quote(name))
        };
        Status::new(403, Reason::Forbidden, message).with_details(Details::resource(resource, name))
    }

    /// 422 for an object that does not validate.
    ///
    /// The message tells each fault once, the causes keep all of them.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[field::Error]) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(errors.iter().map(field::Error::to_string)));
        }
        let causes = errors
            .iter()
            .map(|e| Cause {
                reason: e.kind.reason().to_owned(),
                message: e.body(),
                field: e.field.clone(),
            })
            .collect();
        Status::new(422, Reason::Invalid, message).with_details(Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        })
    }

    /// 422 for a patch that cannot be carried out.
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Status::new(422, Reason::Invalid, message).with_details(Details::default())
    }

    /// 405 for a verb that a resource does not have: `delete is not supported on resources of kind "x"`.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!(
            "{action} is not supported on resources of kind {}",
            quote(&resource.to_string())
        );
        Status::new(405, Reason::MethodNotAllowed, message)
            .with_details(Details::resource(resource, ""))
    }

    /// 405 for an HTTP method that a path does not have.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Status::new(405, Reason::MethodNotAllowed, message).with_details(Details::default())
    }

    /// 406 for media types that are not spoken here.
    pub fn not_acceptable<S: AsRef<str>>(available: &[S]) -> Self {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            join(available)
        );
        Status::new(406, Reason::NotAcceptable, message).with_details(Details::default())
    }

    /// 406 for parameters of a media type (`as`, `v`, `g`) that cannot be met.
    pub fn not_acceptable_parameters<S: AsRef<str>>(accepted: &[S]) -> Self {
        let message = format!(
            "only the following media types are accepted: {}",
            join(accepted)
        );
        Status::new(406, Reason::NotAcceptable, message)
    }

    /// 415 for the body of a create, update or delete.
    pub fn unsupported_media_type<S: AsRef<str>>(accepted: &[S]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            join(accepted)
        );
        Status::new(415, Reason::UnsupportedMediaType, message)
    }

    /// 413: `Request entity too large: cause`.
    pub fn request_entity_too_large(cause: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {cause}");
        Status::new(413, Reason::RequestEntityTooLarge, message)
    }

    /// 429, to be tried again after some seconds.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Status::new(429, Reason::TooManyRequests, message).with_details(details)
    }

    /// 504: `Timeout: cause`.
    pub fn timeout(cause: impl fmt::Display, retry_after_seconds: u32) -> Self {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Status::new(504, Reason::Timeout, format!("Timeout: {cause}")).with_details(details)
    }

    /// 504 for a resourceVersion that is still to come.
    pub fn resource_version_too_large(wanted: u64, current: u64) -> Self {
        let cause = format_args!("Too large resource version: {wanted}, current: {current}");
        Status::timeout(cause, 1).with_cause(Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        })
    }

    /// 500 for an operation that may succeed when tried again.
    pub fn server_timeout(
        resource: &GroupResource,
        operation: &str,
        retry_after_seconds: u32,
    ) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        let mut details = Details::resource(resource, operation);
        details.retry_after_seconds = retry_after_seconds;
        Status::new(500, Reason::ServerTimeout, message).with_details(details)
    }

    /// 500: `Internal error occurred: cause`.
    pub fn internal_error(cause: impl fmt::Display) -> Self {
        let message = format!("Internal error occurred: {cause}");
        Status::new(500, Reason::InternalError, message).with_cause(Cause {
            message: cause.to_string(),
            ..Cause::default()
        })
    }

    /// 500 without a reason, for errors that Kubernetes passes on as they are.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Status::new(500, Reason::Unknown, message)
    }

    /// 503.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Status::new(503, Reason::ServiceUnavailable, message)
    }

    /// 410 for a resourceVersion that is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::new(410, Reason::Expired, message)
    }

    /// 410 for a resource that is gone for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Status::new(410, Reason::Gone, message)
    }

    /// The `Status` object on the wire.
    pub fn to_json(&self) -> Value {
        let mut out = envelope("Failure");
        out.insert("message".to_owned(), self.message.as_str().into());
        if self.reason != Reason::Unknown {
            out.insert("reason".to_owned(), self.reason.as_str().into());
        }
        if let Some(details) = &self.details {
            out.insert("details".to_owned(), details.to_json());
        }
        out.insert("code".to_owned(), self.code.into());
        Value::Object(out)
    }
}

/// The `Status` object of a success, as a finished delete answers it.
pub fn success(details: &Details) -> Value {
    let mut out = envelope("Success");
    out.insert("details".to_owned(), details.to_json());
    Value::Object(out)
}

fn envelope(status: &str) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("kind".to_owned(), "Status".into());
    out.insert("apiVersion".to_owned(), "v1".into());
    out.insert("metadata".to_owned(), json!({}));
    out.insert("status".to_owned(), status.into());
    out
}

/// Several errors in one text: one as it is, more in brackets, each text once.
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let mut unique: Vec<String> = errors
        .into_iter()
        .filter(|error| seen.insert(error.clone()))
        .collect();
    if unique.len() <= 1 {
        return unique.pop().unwrap_or_default();
    }
    format!("[{}]", unique.join(", "))
}

fn quote(name: &str) -> String {
    crate::go_text::go_quote(name)
}

fn join<S: AsRef<str>>(items: &[S]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    items.join(", ")
}

fn kind_as_resource(kind: &GroupKind) -> GroupResource {
    GroupResource::new(&kind.group, &kind.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Error, Path};

    fn config_maps() -> GroupResource {
        GroupResource::new("", "configmaps")
    }

    #[test]
    fn an_error_goes_out_as_a_status_object() {
        assert_eq!(
            Status::not_found(&GroupResource::new("apps", "deployments"), "a").to_json(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "deployments.apps \"a\" not found", "reason": "NotFound",
                "details": {"name": "a", "group": "apps", "kind": "deployments"}, "code": 404,
            })
        );
    }

    #[test]
    fn empty_details_are_sent_and_absent_ones_are_not() {
        assert_eq!(Status::no_such_resource().to_json()["details"], json!({}));
        assert_eq!(Status::bad_request("no").to_json().get("details"), None);
    }

    #[test]
    fn an_unclassified_error_has_no_reason() {
        assert_eq!(Status::unclassified("oh").to_json().get("reason"), None);
    }

    #[test]
    fn one_fault_is_a_sentence_and_several_stand_in_brackets() {
        let kind = GroupKind::new("apps", "Deployment");
        let a = Error::required(&Path::new("spec").child("selector"), "");
        let b = Error::invalid(&Path::new("spec").child("replicas"), -1, "must be positive");
        assert_eq!(
            Status::invalid(&kind, "d", std::slice::from_ref(&a)).message,
            "Deployment.apps \"d\" is invalid: spec.selector: Required value"
        );
        assert_eq!(
            Status::invalid(&kind, "d", &[a, b]).message,
            "Deployment.apps \"d\" is invalid: [spec.selector: Required value, spec.replicas: Invalid value: -1: must be positive]"
        );
    }

    #[test]
    fn the_message_tells_a_fault_once_and_the_causes_keep_all() {
        let fault = Error::required(&Path::new("a"), "");
        let status = Status::invalid(&GroupKind::new("", "Pod"), "p", &[fault.clone(), fault]);
        assert_eq!(status.message, "Pod \"p\" is invalid: a: Required value");
        assert_eq!(status.details.unwrap().causes.len(), 2);
    }

    #[test]
    fn conflicts_name_resource_or_kind() {
        assert_eq!(
            Status::modified(&config_maps(), "z").message,
            "Operation cannot be fulfilled on configmaps \"z\": the object has been modified; please apply your changes to the latest version and try again"
        );
        let status = Status::uid_precondition(&GroupKind::new("", "Secret"), "a", "1", "2");
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on Secret \"a\": the UID in the precondition (1) does not match the UID in record (2). The object might have been deleted and then recreated"
        );
        assert_eq!(status.details.unwrap().kind, "Secret");
    }

    #[test]
    fn a_refusal_names_what_it_knows() {
        let cases = [
            (config_maps(), "a", "configmaps \"a\" is forbidden: no"),
            (config_maps(), "", "configmaps is forbidden: no"),
            (GroupResource::default(), "", "forbidden: no"),
        ];
        for (resource, name, expected) in cases {
            assert_eq!(Status::forbidden(&resource, name, "no").message, expected);
        }
    }

    #[test]
    fn a_version_to_come_is_a_timeout_with_its_cause() {
        let json = Status::resource_version_too_large(9, 4).to_json();
        assert_eq!(
            json["message"],
            "Timeout: Too large resource version: 9, current: 4"
        );
        assert_eq!(
            json["details"],
            json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            })
        );
    }
}
