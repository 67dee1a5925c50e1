//! What a webhook is sent: an AdmissionReview with everything about the request.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`: `CreateAdmissionObjects`, `CreateV1AdmissionReview`

use sendo_apimachinery::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::super::Attributes;
use super::versions::Versioned;
use crate::catalog::Resource;
use crate::request::user::User;

/// The versions of reviews that can be sent.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The version of the review for a webhook that takes these.
pub(super) fn version(taken: &[String]) -> Option<&'static str> {
    let known = |own: &String| VERSIONS.into_iter().find(|version| version == own);
    taken.iter().find_map(known)
}

/// The review of a request.
pub(super) fn review(
    attributes: &Attributes<'_>,
    versioned: &Versioned,
    version: &str,
    uid: &str,
) -> Value {
    let call = attributes.call;
    let sample = match versioned.object.is_null() {
        true => &versioned.old,
        false => &versioned.object,
    };
    let mut request = json!({
        "uid": uid,
        "kind": kind(&versioned.version.kind),
        "resource": resource(&versioned.version.resource),
        "requestKind": kind(&attributes.kind_in(call.resource)),
        "requestResource": resource(call.resource),
        "operation": attributes.operation.as_str(),
        "userInfo": user(attributes.user()),
        "object": versioned.object,
        "oldObject": versioned.old,
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
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": request,
    })
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
