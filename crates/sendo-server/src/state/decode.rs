//! Decodes the body of a request into an object.

use std::borrow::Cow;

use sendo_apimachinery::decode::{
    Body, DecodeError, FieldValidation, Format, check_delete_options, read_as, unrecognized,
};
use sendo_apimachinery::structural::Structural;
use sendo_apimachinery::{GroupVersion, GroupVersionKind, Meta, MetaMut, Status, protobuf};
use serde_json::Value;

use crate::catalog::custom::Custom;
use crate::request::options::WriteOptions;
use crate::state::call::Call;

/// Media types that bodies come in, in the order Kubernetes lists them.
const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];

/// Reads the body as an object of the resource, with defaults.
pub(crate) fn object(call: &Call<'_>, options: &WriteOptions) -> Result<Value, Status> {
    let facts = &call.resource.facts;
    let expected = GroupVersionKind::new(&facts.group, &facts.version, &facts.kind);
    let mut object = match &call.resource.custom {
        Some(custom) => custom_body(call, custom, &expected, options)?,
        None => body(call, &expected, options)?,
    };
    call.resource.default_object(&mut object);
    call.request.keep_sent_object(&object);
    Ok(object)
}

/// Reads the body as an object of a custom kind, pruned to its schema.
fn custom_body(
    call: &Call<'_>,
    custom: &Custom,
    expected: &GroupVersionKind,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let format = match call.request.content_type().as_deref() {
        Some("application/json") => Format::Json,
        Some("application/yaml") => Format::Yaml,
        _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    };
    let body = Body {
        bytes: &call.request.body,
        format,
        validation: options.field_validation,
    };
    let catalog = call.server.catalog();
    let admit = |object: &mut Value| {
        // A body of another version is read as that one; nothing is known of one that is not served.
        let named = GroupVersion::parse(object["apiVersion"].as_str().unwrap_or_default());
        let other = named.filter(|named| *named != expected.group_version());
        let nothing = Structural::default();
        let schema = match other {
            None => custom.schema(),
            Some(other) => catalog
                .find(&other.group, &other.version, &call.resource.facts.plural)
                .and_then(|resource| resource.custom.as_ref())
                .map_or(&nothing, |custom| custom.schema()),
        };
        schema
            .admit(object, &call.server.types)
            .map_err(|error| error.to_string())
    };
    let found = body.custom(expected, admit)?;
    for warning in &found.warnings {
        call.request.warn(warning.as_str());
    }
    found.check_version(expected)?;
    Ok(found.value)
}

/// Reads the body as an object of a built-in kind, which need not be the resource's.
pub(crate) fn body(
    call: &Call<'_>,
    expected: &GroupVersionKind,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let bytes = &call.request.body;
    let format = match call.request.content_type().as_deref() {
        Some("application/json") => Format::Json,
        Some("application/yaml") => Format::Yaml,
        Some(protobuf::MEDIA_TYPE) => return from_protobuf(call, expected),
        _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    };
    let body = Body {
        bytes,
        format,
        validation: options.field_validation,
    };
    let found = body.built_in(expected, &call.server.types)?;
    for warning in found.warnings {
        call.request.warn(warning);
    }
    let object = of_kind(found.value, expected);
    call.request.keep_sent_object(&object);
    Ok(object)
}

fn from_protobuf(call: &Call<'_>, expected: &GroupVersionKind) -> Result<Value, Status> {
    let bytes = &call.request.body;
    let (envelope, object) = protobuf::decode(&call.server.types, bytes)
        .map_err(|error| unrecognized(bytes, expected, &error.to_string()))?;
    let version = expected.group_version().to_string();
    if envelope.kind != expected.kind {
        return Err(Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}",
            envelope.kind, envelope.api_version, expected.kind
        )));
    }
    if read_as(&envelope.api_version, &envelope.kind) != version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({version})",
            envelope.api_version
        )));
    }
    Ok(object)
}

fn of_kind(mut object: Value, kind: &GroupVersionKind) -> Value {
    object["kind"] = kind.kind.as_str().into();
    object["apiVersion"] = kind.group_version().to_string().into();
    object
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

/// A stored object in the version of the request.
pub(crate) fn from_storage<'o>(call: &Call<'_>, object: &'o Value) -> Cow<'o, Value> {
    if call.resource.is_stored_version() {
        return Cow::Borrowed(object);
    }
    Cow::Owned(call.server.convert(call.resource, object))
}

const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Sets the namespace of an object to that of the path; if it has one, it must be equal.
pub(crate) fn set_namespace(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let mut meta = MetaMut::new(object);
    let Some(namespace) = call.namespace() else {
        meta.remove("namespace");
        return Ok(());
    };
    match meta.view().namespace() {
        "" => meta.set_namespace(namespace),
        own if own == namespace => {}
        _ => return Err(Status::bad_request(OTHER_NAMESPACE)),
    }
    Ok(())
}

/// The refusal of an object without a name.
pub(crate) fn nameless(call: &Call<'_>) -> Status {
    let wanted = call.name();
    Status::bad_request(format!(
        "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
    ))
}

/// Refuses an object whose namespace or name is not that of the path.
pub(crate) fn check_name(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let (meta, wanted) = (Meta::new(object), call.name());
    let elsewhere =
        |own: &str| !own.is_empty() && call.namespace().is_some_and(|place| place != own);
    if elsewhere(meta.namespace()) {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    let own = meta.name();
    if own.is_empty() {
        return Err(nameless(call));
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
    let bytes = &call.request.body;
    if bytes.is_empty() {
        return Ok(None);
    }
    let bad = |error: DecodeError| Status::bad_request(error.to_string());
    let format = match call.request.content_type().as_deref() {
        Some("application/json") => Format::Json,
        Some("application/yaml") => Format::Yaml,
        Some(protobuf::MEDIA_TYPE) => {
            let decoded = protobuf::decode(&call.server.types, bytes);
            let (envelope, options) =
                decoded.map_err(|error| Status::bad_request(error.to_string()))?;
            check_delete_options(&envelope.api_version, &envelope.kind).map_err(bad)?;
            return Ok(Some(options));
        }
        _ => return Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    };
    let body = Body {
        bytes,
        format,
        validation: FieldValidation::Ignore,
    };
    body.delete_options(&call.server.types)
        .map(Some)
        .map_err(bad)
}
