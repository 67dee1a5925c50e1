//! From the bytes of a body to an object.

use sendo_apimachinery::{GroupVersion, Meta, MetaMut, Status};
use serde_json::Value;

use crate::call::Call;
use crate::options::WriteOptions;

/// Media types that bodies come in, in the order Kubernetes lists them.
const MEDIA_TYPES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Reads the body as an object of the resource, with defaults.
pub(crate) fn object(call: &Call<'_>, _options: &WriteOptions) -> Result<Value, Status> {
    let mut object = match call.request.content_type().as_deref() {
        Some("application/json") => parse(call)?,
        _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    };
    check_kind(call, &mut object)?;
    (call.resource.rules.default)(&mut object);
    Ok(object)
}

fn parse(call: &Call<'_>) -> Result<Value, Status> {
    let kind = &call.resource.facts.kind;
    let unrecognised = |why: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why}"
        ))
    };
    let object: Value =
        serde_json::from_slice(&call.request.body).map_err(|error| unrecognised(&error))?;
    match object {
        Value::Object(_) => Ok(object),
        Value::Null => Ok(Value::Object(Default::default())),
        _ => Err(unrecognised(&"it is no JSON object")),
    }
}

/// Takes kind and version of the path where the body names none, and refuses others.
fn check_kind(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let types = &call.resource.types;
    let text = |member: &str| object[member].as_str().unwrap_or_default().to_owned();
    let (kind, version) = (text("kind"), text("apiVersion"));
    let same_kind = kind.is_empty() || kind == types.kind;
    if !version.is_empty() && version != types.api_version {
        let group = GroupVersion::parse(&version).map(|version| version.group);
        if same_kind && group.as_deref() == Some(&call.resource.facts.group) {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({})",
                types.api_version
            )));
        }
    } else if same_kind {
        object["kind"] = types.kind.as_str().into();
        object["apiVersion"] = types.api_version.as_str().into();
        return Ok(());
    }
    let version = if version.is_empty() {
        &types.api_version
    } else {
        &version
    };
    Err(Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: no conversion is known",
        types.kind
    )))
}

/// An object of the request's version in the version that is stored.
pub(crate) fn to_storage(call: &Call<'_>, object: Value) -> Value {
    let resource = call.resource;
    if resource.is_stored_version() {
        return object;
    }
    (resource.rules.convert)(
        &object,
        &resource.types.api_version,
        &resource.stored.api_version,
    )
}

/// Puts an object where the path says it lives; a namespace of its own must be that one.
pub(crate) fn place(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let mut meta = MetaMut::of(object);
    let Some(namespace) = call.namespace() else {
        meta.remove("namespace");
        return Ok(());
    };
    match meta.view().namespace() {
        "" => meta.set_namespace(namespace),
        own if own == namespace => {}
        _ => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}

/// Refuses an object whose name is not that of the path.
pub(crate) fn check_name(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let (own, wanted) = (Meta::of(object).name(), call.name());
    if own.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if own != wanted {
        return Err(Status::bad_request(format!(
            "the name of the object ({own}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// The `DeleteOptions` of a body; `None` if there is no body.
pub(crate) fn delete_options(call: &Call<'_>) -> Result<Option<Value>, Status> {
    if call.request.body.is_empty() {
        return Ok(None);
    }
    match call.request.content_type().as_deref() {
        Some("application/json") => {}
        _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    }
    let body: Value = serde_json::from_slice(&call.request.body)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let named = |member: &str| body[member].as_str().filter(|text| !text.is_empty());
    match (named("kind"), named("apiVersion")) {
        (Some("DeleteOptions"), _) | (None, None) => Ok(Some(body)),
        (kind, version) => Err(Status::bad_request(format!(
            "{} in version {:?} cannot be handled as DeleteOptions",
            kind.unwrap_or_default(),
            version.unwrap_or_default()
        ))),
    }
}
