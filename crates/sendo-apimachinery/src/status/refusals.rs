//! The refusals that an API server gives, in the words of Kubernetes.

use std::fmt;

use super::{Cause, Details, Reason, Status, aggregate};
use crate::go_text::go_quote;
use crate::{GroupKind, GroupResource, field};

impl Status {
    /// 404 for an object: `configmaps "a" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::new(
            404,
            Reason::NotFound,
            format!("{resource} {} not found", go_quote(name)),
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
        let message = format!("{resource} {} already exists", go_quote(name));
        Status::new(409, Reason::AlreadyExists, message)
            .with_details(Details::resource(resource, name))
    }

    /// 409 where no generated name was free; to be tried again after a second.
    pub fn no_free_name(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go_quote(name)
        );
        let mut details = Details::resource(resource, name);
        details.retry_after_seconds = 1;
        Status::new(409, Reason::AlreadyExists, message).with_details(details)
    }

    /// 409: `Operation cannot be fulfilled on configmaps "a": cause`.
    pub fn conflict(resource: &GroupResource, name: &str, cause: impl fmt::Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {cause}",
            go_quote(name)
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
            format!("{resource} {} is forbidden: {cause}", go_quote(name))
        };
        Status::new(403, Reason::Forbidden, message).with_details(Details::resource(resource, name))
    }

    /// 422 for an object that does not validate.
    ///
    /// The message has each fault once, the causes keep all of them.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[field::Error]) -> Self {
        let mut message = format!("{kind} {} is invalid", go_quote(name));
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
            go_quote(&resource.to_string())
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
}

fn join<S: AsRef<str>>(items: &[S]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    items.join(", ")
}

fn kind_as_resource(kind: &GroupKind) -> GroupResource {
    GroupResource::new(&kind.group, &kind.kind)
}
