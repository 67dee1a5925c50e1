//! Reviews: questions about users and what they may do. Nothing of them is kept.

use http::StatusCode;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::schema::show_as_go;
use sendo_apimachinery::{GroupKind, GroupVersionKind, Meta, MetaMut, Status};
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer};
use crate::authorise::{self, Attributes};
use crate::call::{Call, time_text};
use crate::decode;
use crate::options::{Write, WriteOptions};
use crate::ownership;
use crate::user::User;

/// Answers a review, if the resource is one.
pub(crate) async fn create(call: &Call<'_>) -> Result<Answer, Status> {
    let facts = &call.resource.facts;
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let kind = GroupVersionKind::new(&facts.group, &facts.version, &facts.kind);
    let mut review = decode::body(call, &kind, &options)?;
    if call.resource.is_namespaced() {
        decode::place(call, &mut review)?;
    }
    MetaMut::of(&mut review).remove("managedFields");
    ownership::update(call, &Value::Null, &mut review);
    let status = match facts.kind.as_str() {
        "SelfSubjectReview" => {
            review["metadata"] = json!({"creationTimestamp": time_text(call.now())});
            json!({"userInfo": user_info(&call.request.user)})
        }
        "TokenReview" => token_status(call, &review)?,
        "SelfSubjectRulesReview" => rules(&call.request.user),
        "SelfSubjectAccessReview" => {
            check(&review, &[])?;
            access(&call.request.user, &review)
        }
        _ => {
            check(&review, &about_subject(call, &review))?;
            access(&subject(&review), &review)
        }
    };
    review["status"] = status;
    let types = &call.resource.types;
    if let Some(schema) = call.server.types.kind(&types.api_version, &types.kind) {
        show_as_go(schema, &mut review);
    }
    Ok(Answer::Json(StatusCode::CREATED, answer::to_bytes(&review)))
}

/// The kinds of reviews that are answered.
pub(crate) fn is_review(group: &str, kind: &str) -> bool {
    let kinds: &[&str] = match group {
        "authentication.k8s.io" => &["SelfSubjectReview", "TokenReview"],
        "authorization.k8s.io" => &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
        _ => return false,
    };
    kinds.contains(&kind)
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), user.name.as_str().into());
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(info)
}

fn token_status(call: &Call<'_>, review: &Value) -> Result<Value, Status> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    Ok(match call.server.tokens.get(token) {
        Some(user) => json!({"authenticated": true, "user": user_info(user)}),
        None => json!({"user": {}, "error": "invalid bearer token"}),
    })
}

/// The errors of a review that is about somebody else.
fn about_subject(call: &Call<'_>, review: &Value) -> Vec<Error> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    let subject = subject(review);
    if subject.name.is_empty() && subject.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        errors.push(Error::invalid(&spec.child("user"), "", why));
    }
    let Some(namespace) = call.namespace() else {
        return errors;
    };
    let attributes = &review["spec"]["resourceAttributes"];
    let own = attributes["namespace"].as_str().unwrap_or_default();
    if attributes.is_object() && own != namespace {
        let path = spec.child("resourceAttributes").child("namespace");
        errors.push(Error::invalid(&path, own, "must match metadata.namespace"));
    }
    if review["spec"]["nonResourceAttributes"].is_object() {
        let why = "disallowed on this kind of request";
        let value = review["spec"]["nonResourceAttributes"].clone();
        errors.push(Error::invalid(
            &spec.child("nonResourceAttributes"),
            value,
            why,
        ));
    }
    errors
}

/// A review asks one question, and has no name.
fn check(review: &Value, more: &[Error]) -> Result<(), Status> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    let resource = review["spec"]["resourceAttributes"].is_object();
    let path = review["spec"]["nonResourceAttributes"].is_object();
    if resource && path && more.is_empty() {
        let value = review["spec"]["nonResourceAttributes"].clone();
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(Error::invalid(
            &spec.child("nonResourceAttributes"),
            value,
            why,
        ));
    }
    if !resource && !path {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(Error::invalid(
            &spec.child("resourceAttributes"),
            Value::Null,
            why,
        ));
    }
    errors.extend_from_slice(more);
    if !Meta::of(review).name().is_empty() {
        let why = "must be empty except for namespace";
        errors.push(Error::invalid(
            &Path::new("metadata"),
            review["metadata"].clone(),
            why,
        ));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        &GroupKind::new("authorization.k8s.io", ""),
        "",
        &errors,
    ))
}

/// Whom a review is about.
fn subject(review: &Value) -> User {
    let spec = &review["spec"];
    let groups = spec["groups"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        groups: groups
            .iter()
            .filter_map(|group| Some(group.as_str()?.to_owned()))
            .collect(),
        ..User::anonymous()
    }
}

fn access(user: &User, review: &Value) -> Value {
    let resource = &review["spec"]["resourceAttributes"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attributes = if resource.is_object() {
        Attributes::Resource {
            verb: text(&resource["verb"]),
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
        }
    } else {
        let path = &review["spec"]["nonResourceAttributes"];
        Attributes::Path {
            verb: text(&path["verb"]),
            path: text(&path["path"]),
        }
    };
    json!({"allowed": authorise::is_allowed(user, &attributes)})
}

fn rules(user: &User) -> Value {
    let all = json!(["*"]);
    let (resources, paths) = if authorise::may_do_everything(user) {
        (
            json!([{"verbs": all, "apiGroups": all, "resources": all}]),
            json!([{"verbs": all, "nonResourceURLs": all}]),
        )
    } else {
        (
            json!([]),
            json!([{"verbs": ["get"], "nonResourceURLs": authorise::READABLE}]),
        )
    };
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
