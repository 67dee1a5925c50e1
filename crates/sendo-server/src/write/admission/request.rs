//! A request as webhooks and expressions see it.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`: `CreateV1AdmissionReview`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/condition.go`: `CreateAdmissionRequest`

use sendo_apimachinery::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::Attributes;
use super::versions::Versioned;
use crate::catalog::Resource;
use crate::request::user::User;

/// Everything about a request but its uid and its objects, as matched in a version of a resource.
pub(super) fn describe(
    attributes: &Attributes<'_>,
    versioned: &Versioned,
    matched: &Resource,
) -> Value {
    let call = attributes.call;
    let sample = match versioned.object.is_null() {
        true => &versioned.old,
        false => &versioned.object,
    };
    let mut request = json!({
        "kind": kind(&versioned.version.kind),
        "resource": resource(matched),
        "requestKind": kind(&attributes.kind_in(call.resource)),
        "requestResource": resource(call.resource),
        "operation": attributes.operation.as_str(),
        "userInfo": user(attributes.user()),
        "dryRun": attributes.is_dry_run(),
        "options": attributes.options_object(),
    });
    let texts = [
        ("subResource", attributes.subresource()),
        ("requestSubResource", attributes.subresource()),
        ("name", attributes.name(&versioned.object)),
        ("namespace", attributes.namespace(sample)),
    ];
    for (member, text) in texts {
        if !text.is_empty() {
            request[member] = text.into();
        }
    }
    request
}

fn kind(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource(resource: &Resource) -> Value {
    let facts = &resource.facts;
    json!({"group": facts.group, "version": facts.version, "resource": facts.plural})
}

fn user(user: &User) -> Value {
    let mut info = Map::new();
    for (member, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(member.to_owned(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(info)
}
