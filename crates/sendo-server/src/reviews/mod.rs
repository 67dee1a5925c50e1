//! Reviews: who a user is and what a user may do, answered and not stored.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/authentication/selfsubjectreview/rest.go`: `Create`
//! - `pkg/registry/authentication/tokenreview/storage.go`: `Create`
//! - `pkg/registry/authorization/selfsubjectrulesreview/rest.go`: `Create`

mod access;

use sendo_apimachinery::schema::show_as_go;
use sendo_apimachinery::{GroupVersionKind, MetaMut, Status};
use serde_json::{Map, Value, json};

use crate::access::authorise;
use crate::access::authorise::nodes;
use crate::catalog::storage::time_text;
use crate::read::answer::ApiResponse;
use crate::read::view;
use crate::request::options::{Write, WriteOptions};
use crate::request::user::User;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::decode;
use crate::write::admission::{self, Attributes};
use crate::write::field_managers;

/// Answers a review, if the resource is one.
pub(crate) async fn create(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let facts = &call.resource.facts;
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let kind = GroupVersionKind::new(&facts.group, &facts.version, &facts.kind);
    let mut review = decode::body(call, &kind, &options)?;
    decode::set_namespace(call, &mut review)?;
    MetaMut::new(&mut review).remove("managedFields");
    field_managers::update(call, &Value::Null, &mut review);
    let attributes = Attributes::of_creation(call, &options);
    admission::mutate(&attributes, &mut review).await?;
    admission::validate(&attributes, &review, &mut Claims::default()).await?;
    let status = match facts.kind.as_str() {
        "SelfSubjectReview" => {
            review["metadata"] = json!({"creationTimestamp": time_text(call.now())});
            json!({"userInfo": user_info(&call.request.user)})
        }
        "TokenReview" => token_status(call, &review).await?,
        "SelfSubjectRulesReview" => {
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
            let status = rules(call, namespace).await?;
            // The answer is a new object, which repeats nothing of the question.
            review["metadata"] = json!({});
            review["spec"] = json!({});
            status
        }
        kind => access::status(call, &review, kind).await?,
    };
    review["status"] = status;
    let types = &call.resource.types;
    if let Some(schema) = call.server.types.kind(&types.api_version, &types.kind) {
        show_as_go(schema, &mut review);
    }
    let package = facts.group.split('.').next().unwrap_or_default();
    view::unkept(call, package, &review)
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

async fn token_status(call: &Call<'_>, review: &Value) -> Result<Value, Status> {
    let spec = &review["spec"];
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences: Vec<String> =
        serde_json::from_value(spec["audiences"].clone()).unwrap_or_default();
    let audiences = match audiences.is_empty() {
        true => call.server.access.audiences(),
        false => audiences,
    };
    Ok(
        match call.server.access.token_user(token, &audiences).await {
            Ok(found) => json!({
                "authenticated": true,
                "user": user_info(&found.user),
                "audiences": found.audiences,
            }),
            Err(error) => json!({"user": {}, "error": error}),
        },
    )
}

/// All that the user may do in a namespace.
async fn rules(call: &Call<'_>, namespace: &str) -> Result<Value, Status> {
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let user = &call.request.user;
    let policy = &call.server.access.policy;
    let (held, absent) = policy
        .read(|policy| policy.rules_of(user, namespace))
        .await?;
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in held {
        if !rule.resources.is_empty() {
            let mut shown = json!({
                "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources,
            });
            if !rule.resource_names.is_empty() {
                shown["resourceNames"] = rule.resource_names.into();
            }
            resources.push(shown);
        }
        if !rule.non_resource_urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        }
    }
    let is_node = nodes::is_node(user);
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": is_node});
    let mut errors = Vec::new();
    if is_node {
        errors.push("node authorizer does not support user rule resolution".to_owned());
    }
    if !absent.is_empty() {
        errors.push(authorise::absent_roles(&absent));
    }
    if !errors.is_empty() {
        status["evaluationError"] = sendo_apimachinery::status::aggregate(errors).into();
    }
    Ok(status)
}
