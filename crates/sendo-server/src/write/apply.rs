//! PATCH with an apply configuration: it says what its manager wants, and with that
//! what the manager owns.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`: `applyPatcher`

use http::StatusCode;
use sendo_apimachinery::decode::{self as reader, Decoded, FieldValidation, Format};
use sendo_apimachinery::managed_fields::without_managers;
use sendo_apimachinery::schema::{SchemaRef, show_as_go};
use sendo_apimachinery::structural::Part;
use sendo_apimachinery::{Meta, MetaMut, Status};
use serde_json::{Map, Value, json};

use super::{Change, Presence, Strategy, Writer, field_managers};
use crate::read::answer::ApiResponse;
use crate::read::view;
use crate::request::options::{Write, WriteOptions};
use crate::request::query::parse_uint;
use crate::state::call::Call;
use crate::state::decode;

/// Applies the configuration of the body to the object that the path names, or creates it.
///
/// Through a subresource nothing is created.
pub(crate) async fn apply(call: &Call<'_>, strategy: Strategy) -> Result<ApiResponse, Status> {
    let options = WriteOptions::parse(&call.request.query, Write::Apply)?;
    let body = read(call)?;
    let change = Change {
        strategy,
        presence: match call.path.subresource {
            Some(_) => Presence::Present,
            None => Presence::Either,
        },
        writer: Writer::Client,
        options: &options,
    };
    let saved = super::save(call, change, |old| {
        let mut new = match old {
            Some(old) => changed(call, &options, old, &body)?,
            None => {
                let mut new = applied(call, &options, &Value::Null, &body)?;
                MetaMut::new(&mut new).remove("resourceVersion");
                decode::to_storage(call, new)
            }
        };
        decode::set_namespace(call, &mut new)?;
        Ok(new.into())
    })
    .await?;
    let code = if saved.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    view::saved(call, code, saved.stored).await
}

/// What the configuration makes of a stored object, in its storage version.
fn changed(
    call: &Call<'_>,
    options: &WriteOptions,
    old: &Value,
    body: &Decoded,
) -> Result<Value, Status> {
    let current = decode::from_storage(call, old);
    let applied = applied(call, options, &current, body)?;
    let is_same = || without_managers(&applied) == without_managers(&current);
    if !call.resource.is_stored_version() && is_same() {
        // Where only managers change, no way there and back through another
        // version may move anything.
        let mut kept = old.clone();
        field_managers::take_managers(&applied, &mut kept);
        return Ok(kept);
    }
    Ok(decode::to_storage(call, applied))
}

/// Reads the configuration of the body. An empty one says nothing.
pub(super) fn read(call: &Call<'_>) -> Result<Decoded, Status> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let mut body = reader::untyped(&call.request.body, Format::Yaml)
        .map_err(|error| refuse(format!("error converting YAML to JSON: {error}")))?;
    let kind = match &body.value {
        Value::Object(_) => return Ok(body),
        Value::Null => {
            body.value = json!({});
            return Ok(body);
        }
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
    };
    Err(refuse(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type \
         map[string]interface {{}}"
    )))
}

/// Warns of keys that the configuration has twice, or refuses them.
pub(super) fn report(
    call: &Call<'_>,
    options: &WriteOptions,
    body: &Decoded,
) -> Result<(), Status> {
    match options.field_validation {
        FieldValidation::Strict if !body.repeated_keys.is_empty() => {
            Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                body.repeated_keys.join("\n  ")
            )))
        }
        FieldValidation::Warn => {
            let warnings = body.repeated_keys.iter();
            warnings.for_each(|key| call.request.warn(key.as_str()));
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// What the configuration makes of an object, with defaults, in the version of the request.
fn applied(
    call: &Call<'_>,
    options: &WriteOptions,
    live: &Value,
    body: &Decoded,
) -> Result<Value, Status> {
    let applied = field_managers::apply(call, live, &body.value, options.force)?;
    let types = &call.resource.types;
    let object = match call.server.types.kind(&types.api_version, &types.kind) {
        Some(schema) if call.resource.custom.is_none() => {
            let refuse = |error: reader::DecodeError| {
                // What is refused is made once more, to say why.
                let again = field_managers::apply(call, live, &body.value, options.force).ok();
                let fault = again.and_then(|applied| reader::restore_fault(&applied, schema));
                let (meta, kind) = (
                    Meta::new(&body.value),
                    field_managers::kind_of(call.resource),
                );
                let Some(error) = fault else {
                    // A number that is too large for its field, of which Go keeps the lower bits.
                    return reader::cannot_be_handled(&kind, &kind, &error.to_string());
                };
                Status::unclassified(format!(
                    "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured \
                     object to {kind}: {error}",
                    meta.namespace(),
                    meta.name(),
                ))
            };
            let mut object = typed(applied, live, schema).map_err(refuse)?;
            object["kind"] = types.kind.as_str().into();
            object["apiVersion"] = types.api_version.as_str().into();
            call.resource.default_object(&mut object);
            show_as_go(schema, &mut object);
            object
        }
        _ => {
            let mut object = applied;
            if let Some(custom) = &call.resource.custom {
                // What is empty in metadata is absent, as in what is read from a body.
                let types = &call.server.types;
                let typed = custom
                    .schema()
                    .type_metadata(&mut object, Part::Resource, types);
                typed.map_err(|error| Status::unclassified(error.to_string()))?;
            }
            call.resource.default_object(&mut object);
            object
        }
    };
    report(call, options, body)?;
    if live.is_null() {
        check_new(call, &object)?;
    }
    decode::check_name(call, &object)?;
    Ok(object)
}

/// Reads what an apply has made of a live object as one of its built-in type.
///
/// What is as it was has its type already, and so have the managers.
fn typed(
    mut applied: Value,
    live: &Value,
    schema: SchemaRef<'_>,
) -> Result<Value, reader::DecodeError> {
    fn others(metadata: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
        let members = metadata.and_then(Value::as_object).into_iter().flatten();
        members.filter(|(name, _)| *name != "managedFields")
    }
    let managers = MetaMut::new(&mut applied).remove("managedFields");
    let mut unchanged = Map::new();
    if let Value::Object(members) = &mut applied {
        let is_same = |name: &str, member: &Value| match name {
            "metadata" => others(Some(member)).eq(others(live.get("metadata"))),
            _ => live.get(name) == Some(member),
        };
        let all = std::mem::take(members).into_iter();
        (unchanged, *members) = all.partition(|(name, member)| is_same(name, member));
    }
    let mut object = reader::typed(applied, schema)?.value;
    if let Value::Object(members) = &mut object {
        members.append(&mut unchanged);
    }
    if let Some(managers) = managers {
        MetaMut::new(&mut object).set("managedFields", managers);
    }
    Ok(object)
}

/// Refuses to create what can only be meant for something that was there.
fn check_new(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let meta = Meta::new(object);
    let uid = meta.uid();
    if !uid.is_empty() {
        let why = format_args!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(
            &call.resource.group_resource(),
            call.name(),
            why,
        ));
    }
    match meta.resource_version() {
        "" => Ok(()),
        version => parse_uint(version).map(drop).map_err(Status::unclassified),
    }
}
