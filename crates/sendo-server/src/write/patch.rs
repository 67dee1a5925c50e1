//! PATCH: changing an object by a patch.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`: `jsonPatcher`, `smpPatcher`

use std::collections::BTreeSet;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use sendo_apimachinery::decode::{self as reader, FieldValidation, Format};
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::managed_fields::without_managers;
use sendo_apimachinery::patch::{JsonPatch, json_type, merge_patch, strategic_merge_patch};
use sendo_apimachinery::schema::SchemaRef;
use sendo_apimachinery::{GroupKind, GroupVersion, Status, go_quote, go_value};
use serde_json::{Map, Value};

use super::{Change, Presence, Strategy, Writer, apply, field_managers};
use crate::catalog::custom::Custom;
use crate::read::answer::ApiResponse;
use crate::read::view;
use crate::request::options::{Write, WriteOptions};
use crate::state::call::Call;
use crate::state::decode;

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// The media types of patches, as requests name them.
    const MEDIA_TYPES: [(&str, PatchType); 4] = [
        ("application/json-patch+json", PatchType::Json),
        ("application/merge-patch+json", PatchType::Merge),
        (
            "application/strategic-merge-patch+json",
            PatchType::Strategic,
        ),
        ("application/apply-patch+yaml", PatchType::Apply),
    ];

    /// The type of a request's patch, if it is one that is known.
    pub(crate) fn from_request(request: &crate::request::Request) -> Option<PatchType> {
        let content_type = request
            .header(CONTENT_TYPE)
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let found = Self::MEDIA_TYPES
            .iter()
            .find(|(name, _)| *name == content_type);
        found.map(|(_, kind)| *kind)
    }
}

/// Patches the object that the path names.
pub(crate) async fn patch(call: &Call<'_>, strategy: Strategy) -> Result<ApiResponse, Status> {
    if PatchType::from_request(call.request) == Some(PatchType::Apply) {
        return apply::apply(call, strategy).await;
    }
    let options = WriteOptions::parse(&call.request.query, Write::Patch)?;
    let change = Change {
        strategy,
        presence: Presence::Present,
        writer: Writer::Client,
        options: &options,
    };
    let saved = super::save(call, change, |old| {
        let old = old.ok_or_else(|| call.not_found(call.name()))?;
        let current = decode::from_storage(call, old);
        let mut patched = match &call.resource.custom {
            Some(custom) => patched_custom(call, &options, &current, custom)?,
            None => {
                let types = &call.resource.types;
                let schema = call.server.types.kind(&types.api_version, &types.kind);
                patched(
                    call,
                    &options,
                    &current,
                    schema.expect("every built-in kind has a type"),
                )?
            }
        };
        call.resource.default_object(&mut patched);
        field_managers::update(call, &current, &mut patched);
        decode::check_name(call, &patched)?;
        let mut new = decode::to_storage(call, patched);
        decode::set_namespace(call, &mut new)?;
        Ok(new.into())
    })
    .await?;
    view::saved(call, StatusCode::OK, saved.stored).await
}

/// Applies the request's patch to an object of a built-in type, and reads the outcome as that type.
pub(crate) fn patched(
    call: &Call<'_>,
    options: &WriteOptions,
    current: &Value,
    schema: SchemaRef<'_>,
) -> Result<Value, Status> {
    let Outcome {
        object: mut patched,
        touched,
        mut problems,
        ..
    } = outcome(call, current, Some(schema), Managers::IfNeeded)?;
    // What is refused is shown, and made once more for that.
    let strategic = PatchType::from_request(call.request) == Some(PatchType::Strategic);
    let again = || outcome(call, current, Some(schema), Managers::Kept);
    let refused = |error: &str| match again() {
        Ok(outcome) => refuse(&outcome, error),
        Err(status) => status,
    };
    if let Some(fault) = other_kind(call, &patched, current) {
        return Err(refused(&fault));
    }
    if text(&patched, "apiVersion").is_empty() {
        // An object of no version has no field that is known, and no name that could be read.
        let members = patched.as_object().into_iter().flatten();
        let unknown = members.filter(|(name, _)| !["kind", "apiVersion"].contains(&name.as_str()));
        problems.extend(unknown.map(|(name, _)| format!("unknown field {}", go_quote(name))));
        report(call, options, problems).map_err(|error| refused(&error))?;
        return Err(decode::nameless(call));
    }
    // What the patch does not name has its type already.
    let mut untouched = Map::new();
    if let (Some(touched), Value::Object(members)) = (touched, &mut patched) {
        for (name, member) in std::mem::take(members) {
            match touched.contains(&name) {
                true => members.insert(name, member),
                false => untouched.insert(name, member),
            };
        }
    }
    let read = if strategic {
        reader::typed
    } else {
        reader::typed_as_sent
    };
    let decoded = read(patched, schema).map_err(|error| {
        let again = again().ok().filter(|_| strategic);
        let fault = again.and_then(|outcome| reader::restore_fault(&outcome.object, schema));
        refused(&fault.unwrap_or_else(|| error.to_string()))
    })?;
    problems.extend(decoded.problems);
    report(call, options, problems).map_err(|error| refused(&error))?;
    let mut object = decoded.value;
    if let Value::Object(members) = &mut object {
        members.append(&mut untouched);
    }
    for member in ["kind", "apiVersion"] {
        object[member] = current[member].clone();
    }
    Ok(object)
}

/// Why the outcome of a patch is of another kind than the object was.
fn other_kind(call: &Call<'_>, patched: &Value, current: &Value) -> Option<String> {
    let (version, kind) = (text(patched, "apiVersion"), text(patched, "kind"));
    let same = |own: &str, member: &str| own.is_empty() || current[member] == own;
    if same(version, "apiVersion") && same(kind, "kind") {
        return None;
    }
    let kind = if kind.is_empty() {
        text(current, "kind")
    } else {
        kind
    };
    let place = match version {
        "" => {
            let group = GroupVersion::parse(text(current, "apiVersion"))?.group;
            format!("the internal version of group {}", go_quote(&group))
        }
        _ if call.server.types.kind(version, kind).is_some() => {
            return Some("the kind was changed".to_owned());
        }
        _ => format!("version {}", go_quote(version)),
    };
    Some(format!(
        "no kind {} is registered for {place} in scheme \"pkg/runtime/scheme.go:111\"",
        go_quote(kind)
    ))
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member].as_str().unwrap_or_default()
}

/// Applies the request's patch to a custom resource, and prunes the outcome to its schema.
fn patched_custom(
    call: &Call<'_>,
    options: &WriteOptions,
    current: &Value,
    custom: &Custom,
) -> Result<Value, Status> {
    let mut shown = outcome(call, current, None, Managers::Kept)?;
    let mut problems = std::mem::take(&mut shown.problems);
    let mut patched = shown.object.clone();
    if text(&patched, "kind").is_empty() {
        let fault = format!("Object 'Kind' is missing in '{patched}'");
        return Err(refuse(&shown, &fault));
    }
    if text(&patched, "apiVersion").is_empty() {
        let fault = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::internal_error(fault));
    }
    let unknown = custom.schema().admit(&mut patched, &call.server.types);
    let unknown = unknown.map_err(|error| refuse(&shown, &error.to_string()))?;
    problems.extend(
        unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\"")),
    );
    report(call, options, problems).map_err(|error| refuse(&shown, &error))?;
    Ok(patched)
}

/// Whether a patched object has its managers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Managers {
    Kept,
    /// Left out if the patch cannot change them: they are a third of most
    /// objects, and of an object without them, the ones before go on.
    IfNeeded,
}

/// What a patch makes of an object.
struct Outcome {
    object: Value,
    /// The members of the object that the patch names; `None` if it may change any.
    touched: Option<BTreeSet<String>>,
    /// What is odd about the patch itself.
    problems: Vec<String>,
    /// What is left of a strategic patch, whose directives are carried out.
    rest: Option<Value>,
}

/// The members that a patch names, if it is one that changes no others.
fn touched(patch_type: Option<PatchType>, patch: &Value) -> Option<BTreeSet<String>> {
    let named = matches!(patch_type, Some(PatchType::Merge | PatchType::Strategic));
    let members = patch.as_object().filter(|_| named)?;
    let plain = !members.keys().any(|name| name.starts_with('$'));
    plain.then(|| members.keys().cloned().collect())
}

/// Whether a patch of the given members leaves the managers as they are.
fn leaves_managers(patch: &Value) -> bool {
    let Some(metadata) = patch.get("metadata") else {
        return true;
    };
    let names = metadata.as_object().map(Map::keys);
    names.is_some_and(|mut names| {
        !names.any(|name| name.starts_with('$') || name == "managedFields")
    })
}

/// Makes of an object what the request's patch says.
fn outcome(
    call: &Call<'_>,
    current: &Value,
    schema: Option<SchemaRef<'_>>,
    managers: Managers,
) -> Result<Outcome, Status> {
    let patch_type = PatchType::from_request(call.request);
    let untyped = reader::untyped(&call.request.body, Format::Json).map_err(|error| {
        Status::bad_request(match patch_type {
            Some(PatchType::Strategic) if schema.is_some() => error.to_string(),
            _ => format!("error decoding patch: {error}"),
        })
    })?;
    let touched = touched(patch_type, &untyped.value);
    let mut patched = match managers {
        Managers::IfNeeded if touched.is_some() && leaves_managers(&untyped.value) => {
            without_managers(current)
        }
        _ => current.clone(),
    };
    let mut problems = untyped.problems;
    let mut rest = None;
    match (patch_type, schema) {
        (Some(PatchType::Json), _) => {
            let patch = JsonPatch::from_body(untyped.value)?;
            let unknown = patch.unknown_fields().iter();
            problems.extend(unknown.map(|field| format!("unknown field \"{field}\"")));
            for problem in &mut problems {
                problem.insert_str(0, "json patch ");
            }
            patch.apply(&mut patched)?;
        }
        (Some(PatchType::Strategic), Some(schema)) => {
            let patch = rest.insert(untyped.value);
            strategic_merge_patch(&mut patched, patch, &schema)?;
            // Whatever it says of the kind is passed over, if it is a text.
            for member in ["kind", "apiVersion"] {
                if patched[member].is_null() || patched[member].is_string() {
                    patched[member] = current[member].clone();
                }
            }
        }
        _ => merge_patch(&mut patched, untyped.value)?,
    }
    let outcome = Outcome {
        object: patched,
        touched,
        problems,
        rest,
    };
    match (&outcome.rest, type_fault(&outcome.object)) {
        (None, Some(fault)) => Err(refuse(&outcome, &fault)),
        _ => Ok(outcome),
    }
}

/// Why kind and version of a document cannot be read.
fn type_fault(document: &Value) -> Option<String> {
    let place = match document.as_object() {
        None => {
            "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }"
        }
        Some(members) => {
            let odd = |name: &&str| {
                let member = members.get(*name);
                member.is_some_and(|member| !member.is_null() && !member.is_string())
            };
            let name = ["apiVersion", "kind"].into_iter().find(odd)?;
            return Some(unreadable(
                &members[name],
                &format!("Go struct field .{name} of type string"),
            ));
        }
    };
    Some(unreadable(document, place))
}

fn unreadable(value: &Value, place: &str) -> String {
    let found = json_type(value);
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into {place}"
    )
}

/// Warns of what is unknown or there twice, or refuses it.
fn report(call: &Call<'_>, options: &WriteOptions, problems: Vec<String>) -> Result<(), String> {
    match options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Strict if !problems.is_empty() => {
            Err(format!("strict decoding error: {}", problems.join(", ")))
        }
        FieldValidation::Strict => Ok(()),
        FieldValidation::Warn => {
            problems
                .into_iter()
                .for_each(|problem| call.request.warn(problem));
            Ok(())
        }
    }
}

/// 422 for a patch whose outcome is no object of its kind.
///
/// The outcome is shown, but of a strategic patch what is left of it, as Go prints it.
fn refuse(outcome: &Outcome, why: &str) -> Status {
    let shown = match &outcome.rest {
        Some(patch) => go_value(patch),
        None => outcome.object.to_string(),
    };
    let error = FieldError::invalid(&Path::new("patch"), shown, why);
    Status::invalid(&GroupKind::default(), "", &[error])
}
