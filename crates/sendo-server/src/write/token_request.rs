//! The TokenRequest API: `serviceaccounts/<name>/token`.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/core/serviceaccount/storage/token.go`: `Create`
//! - `pkg/serviceaccount/claims.go`: `Claims`
//! - `pkg/apis/authentication/validation/validation.go`: `ValidateTokenRequest`

use std::sync::Arc;

use jiff::ToSpan;
use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::schema::show_as_go;
use sendo_apimachinery::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, Meta, MetaMut, Status,
};
use serde_json::{Value, json};

use crate::access::tokens::ISSUER;
use crate::catalog::Resource;
use crate::catalog::keys::Keys;
use crate::catalog::storage::time_text;
use crate::read::answer::ApiResponse;
use crate::read::view;
use crate::request::options::{Write, WriteOptions};
use crate::request::user;
use crate::state::admission::Claims;
use crate::state::call::Call;
use crate::state::decode;
use crate::write::admission::{self, Attributes};
use crate::write::field_managers;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// Durations in seconds.
const DEFAULT: i64 = 60 * 60;
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;
/// The duration that admission requests for the tokens it mounts into pods. Such a token is valid
/// for a year, since the program may never read the file again. The claim `warnafter` is the time
/// by which it should have.
const OF_PODS: i64 = 60 * 60 + 7;
const YEAR: i64 = 365 * 24 * 60 * 60;

/// Issues a token.
pub(crate) async fn create(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Create)?;
    let kind = GroupVersionKind::new(GROUP, "v1", KIND);
    let mut request = decode::body(call, &kind, &options)?;
    decode::set_namespace(call, &mut request)?;
    let namespace = call.namespace().unwrap_or_default();
    let attributes = Attributes::of_creation(call, &options);
    admission::mutate(&attributes, &mut request).await?;
    check_name(call, &request)?;
    let account = call.decode(&*call.entry().await?);
    let uid = Meta::new(&account).uid().to_owned();
    let requested = Meta::new(&request).uid();
    if !requested.is_empty() && requested != uid {
        let why = format_args!(
            "the UID in the token request ({requested}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(
            &GroupResource::new(GROUP, KIND),
            call.name(),
            why,
        ));
    }
    let now = call.now();
    track_fields(call, &mut request)?;
    complete(&mut request, call, namespace, &uid);
    let seconds = request["spec"]["expirationSeconds"].as_i64();
    let seconds = seconds.unwrap_or_default();
    check_duration(seconds)?;
    admission::validate(&attributes, &request, &mut Claims::default()).await?;

    let bound = bound(call, namespace, &request["spec"]["boundObjectRef"]).await?;
    let audiences = request["spec"]["audiences"].clone();
    let of_pod = bound.get("pod").is_some();
    let stretched = of_pod && seconds == OF_PODS && audiences == json!([ISSUER]);
    let start = now.as_second();
    let mut own = json!({
        "namespace": namespace,
        "serviceaccount": {"name": call.name(), "uid": uid},
    });
    if let (Some(own), Value::Object(bound)) = (own.as_object_mut(), bound) {
        own.extend(bound);
    }
    if stretched {
        own["warnafter"] = (start + seconds).into();
    }
    let claims = json!({
        "iss": ISSUER,
        "sub": user::service_account(namespace, call.name()),
        "aud": audiences,
        "exp": start + if stretched { YEAR } else { seconds },
        "nbf": start,
        "iat": start,
        "jti": call.server.world.random().uuid(),
        "kubernetes.io": own,
    });
    let key = call.server.access.credentials.key().await?;
    let token = key.sign(&claims).map_err(Status::internal_error)?;
    let expires = now.checked_add(seconds.seconds()).unwrap_or(now);
    request["status"] = json!({"token": token, "expirationTimestamp": time_text(expires)});
    let api_version = kind.group_version().to_string();
    if let Some(schema) = call.server.types.kind(&api_version, KIND) {
        show_as_go(schema, &mut request);
    }
    view::unkept(call, "authentication", &request)
}

/// Validates that a name in the request is the name in the path.
fn check_name(call: &Call<'_>, request: &Value) -> Result<(), Status> {
    let own = Meta::new(request).name();
    if own.is_empty() || own == call.name() {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    let error = Error::invalid(&Path::new("metadata").child("name"), own, why);
    let kind = GroupKind::new(GROUP, KIND);
    Err(Status::invalid(&kind, call.name(), &[error]))
}

/// Tracks the fields of the request for its field manager, as for a stored object.
fn track_fields(call: &Call<'_>, request: &mut Value) -> Result<(), Status> {
    let catalog = call.server.catalog();
    let reviews = catalog.find(GROUP, "v1", "tokenreviews");
    let mut facts = reviews.ok_or_else(Status::no_such_resource)?.facts.clone();
    facts.kind = KIND.to_owned();
    MetaMut::new(request).remove("managedFields");
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = DEFAULT.into();
    }
    let on_request = Call {
        resource: &Arc::new(Resource::builtin(&facts)),
        ..*call
    };
    field_managers::update(&on_request, &Value::Null, request);
    Ok(())
}

fn complete(request: &mut Value, call: &Call<'_>, namespace: &str, uid: &str) {
    let metadata = &mut request["metadata"];
    metadata["name"] = call.name().into();
    metadata["namespace"] = namespace.into();
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = time_text(call.now()).into();
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([ISSUER]);
    }
}

fn check_duration(seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = Path::new("spec").child("expirationSeconds");
    let error = Error::invalid(&path, seconds, why);
    Err(Status::invalid(&GroupKind::new(GROUP, KIND), "", &[error]))
}

/// The claims about the object that a token is bound to. The token is valid as long as that object
/// exists.
async fn bound(call: &Call<'_>, namespace: &str, reference: &Value) -> Result<Value, Status> {
    if !reference.is_object() {
        return Ok(json!({}));
    }
    let text = |member: &str| reference[member].as_str().unwrap_or_default();
    let version =
        GroupVersion::parse(text("apiVersion")).unwrap_or_else(|| GroupVersion::new("", ""));
    let (kind, name) = (text("kind"), text("name"));
    let (plural, claim) = match (version.group.as_str(), kind) {
        ("", "Pod") => ("pods", "pod"),
        ("", "Node") => ("nodes", "node"),
        ("", "Secret") => ("secrets", "secret"),
        _ => {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {}/{}, Kind={kind}",
                version.group, version.version
            )));
        }
    };
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let namespace = (kind != "Node").then_some(namespace);
    let object = stored(call, plural, namespace, name).await?;
    let object = object.ok_or_else(|| Status::not_found(&GroupResource::new("", plural), name))?;
    let mut claims = json!({});
    if kind == "Pod" {
        if object["spec"]["serviceAccountName"] != call.name() {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name()
            )));
        }
        if let Some(node) = object["spec"]["nodeName"]
            .as_str()
            .filter(|n| !n.is_empty())
        {
            claims["node"] = json!({"name": node});
            if let Some(object) = stored(call, "nodes", None, node).await? {
                claims["node"]["uid"] = Meta::new(&object).uid().into();
            }
        }
    }
    let uid = Meta::new(&object).uid();
    if !text("uid").is_empty() && text("uid") != uid {
        let why = format_args!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            text("uid")
        );
        let resource = GroupResource::new("", kind);
        return Err(Status::conflict(&resource, name, why));
    }
    claims[claim] = json!({"name": name, "uid": uid});
    Ok(claims)
}

async fn stored(
    call: &Call<'_>,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, Status> {
    let key = Keys::new("", plural, namespace.is_some()).object(namespace, name);
    let stored = call.stored(&key).await?;
    Ok(stored.map(|entry| serde_json::from_slice(&entry.value).unwrap_or_default()))
}
