//! The errors of a Kubernetes API, as values and on the wire.
//!
//! Every refusal is a [`Status`]: a code, a [`Reason`] that programs match on, a
//! message for people, and [`Details`]. The constructors word them as
//! Kubernetes does.

mod refusals;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::GroupResource;

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
    /// The whole object on the wire, where another program wrote it.
    foreign: Option<Box<Value>>,
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
            foreign: None,
        }
    }

    /// A refusal that another program wrote: its code, and what the client is sent whatever
    /// its reason and details are. The members of `object` are those of a `Status`.
    pub fn foreign(code: u16, message: impl Into<String>, object: Map<String, Value>) -> Self {
        let message = message.into();
        let mut out = object;
        out.insert("kind".to_owned(), "Status".into());
        out.insert("apiVersion".to_owned(), "v1".into());
        out.entry("metadata").or_insert_with(|| json!({}));
        out.insert("message".to_owned(), message.as_str().into());
        out.insert("code".to_owned(), code.into());
        Status {
            foreign: Some(Box::new(Value::Object(out))),
            ..Status::new(code, Reason::Unknown, message)
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

    /// The `Status` object on the wire.
    pub fn to_json(&self) -> Value {
        if let Some(foreign) = &self.foreign {
            return Value::clone(foreign);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupKind;
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
