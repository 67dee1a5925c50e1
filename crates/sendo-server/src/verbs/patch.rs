//! Changing an object by a patch.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use sendo_apimachinery::decode::{self as reader, FieldValidation, Format};
use sendo_apimachinery::field::{Error as FieldError, Path};
use sendo_apimachinery::managed_fields::without_managers;
use sendo_apimachinery::patch::{JsonPatch, merge_patch, strategic_merge_patch};
use sendo_apimachinery::schema::SchemaRef;
use sendo_apimachinery::{GroupKind, Status, go_value};
use serde_json::Value;

use crate::answer::Answer;
use crate::call::Call;
use crate::crd::Custom;
use crate::decode;
use crate::options::{Write, WriteOptions};
use crate::ownership;
use crate::strategy::Strategy;
use crate::verbs::{apply, update};
use crate::view;

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
    pub(crate) fn of(request: &crate::request::Request) -> Option<PatchType> {
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
pub(crate) async fn patch(call: &Call<'_>, strategy: Strategy) -> Result<Answer, Status> {
    if PatchType::of(call.request) == Some(PatchType::Apply) {
        return apply::apply(call, strategy).await;
    }
    let options = WriteOptions::parse(&call.request.query, Write::Patch)?;
    let stored = update::change(call, strategy, &options, |old| {
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
        ownership::update(call, &current, &mut patched);
        decode::check_name(call, &patched)?;
        let mut new = decode::to_storage(call, patched);
        decode::place(call, &mut new)?;
        Ok(new)
    })
    .await?;
    view::object(call, StatusCode::OK, &stored)
}

/// Applies the request's patch to an object of a built-in type, and reads the outcome as that type.
pub(crate) fn patched(
    call: &Call<'_>,
    options: &WriteOptions,
    current: &Value,
    schema: SchemaRef<'_>,
) -> Result<Value, Status> {
    let (patched, mut problems) = outcome(call, current, Some(schema), Managers::IfNeeded)?;
    for member in ["kind", "apiVersion"] {
        let own = patched[member].as_str().unwrap_or_default();
        if !own.is_empty() && current[member] != own {
            return Err(refuse(&patched, &format!("{member} was changed")));
        }
    }
    if patched["apiVersion"].is_null() {
        return Err(Status::bad_request("apiVersion must be set"));
    }
    // What is refused is shown, and made once more for that.
    let strategic = PatchType::of(call.request) == Some(PatchType::Strategic);
    let again = || outcome(call, current, Some(schema), Managers::Kept);
    let refused = |error: &str| match again() {
        Ok(_) if strategic => refuse_strategic(call, error),
        Ok((patched, _)) => refuse(&patched, error),
        Err(status) => status,
    };
    let decoded = reader::typed(patched, schema).map_err(|error| {
        let again = again().ok().filter(|_| strategic);
        let fault = again.and_then(|(patched, _)| reader::restore_fault(&patched, schema));
        refused(&fault.unwrap_or_else(|| error.to_string()))
    })?;
    problems.extend(decoded.problems);
    judge(call, options, problems).map_err(|error| refused(&error))?;
    let mut object = decoded.value;
    for member in ["kind", "apiVersion"] {
        object[member] = current[member].clone();
    }
    Ok(object)
}

/// Applies the request's patch to a custom resource, and prunes the outcome to its schema.
fn patched_custom(
    call: &Call<'_>,
    options: &WriteOptions,
    current: &Value,
    custom: &Custom,
) -> Result<Value, Status> {
    let (mut patched, mut problems) = outcome(call, current, None, Managers::Kept)?;
    let shown = patched.clone();
    let unknown = custom.schema().admit(&mut patched, &call.server.types);
    let unknown = unknown.map_err(|error| refuse(&shown, &error.to_string()))?;
    problems.extend(
        unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\"")),
    );
    judge(call, options, problems).map_err(|error| refuse(&shown, &error))?;
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

impl Managers {
    fn are_needed(self, patch_type: Option<PatchType>, patch: &Value) -> bool {
        let plain = |object: &Value| {
            let names = object.as_object().map(|members| members.keys());
            names.is_some_and(|mut names| {
                !names.any(|name| name.starts_with('$') || name == "managedFields")
            })
        };
        self == Managers::Kept
            || !matches!(patch_type, Some(PatchType::Merge | PatchType::Strategic))
            || !plain(patch)
            || !patch.get("metadata").is_none_or(plain)
    }
}

/// What the request's patch makes of an object, and what is odd about the patch itself.
fn outcome(
    call: &Call<'_>,
    current: &Value,
    schema: Option<SchemaRef<'_>>,
    managers: Managers,
) -> Result<(Value, Vec<String>), Status> {
    let patch_type = PatchType::of(call.request);
    let untyped = reader::untyped(&call.request.body, Format::Json).map_err(|error| {
        Status::bad_request(match patch_type {
            Some(PatchType::Strategic) if schema.is_some() => error.to_string(),
            _ => format!("error decoding patch: {error}"),
        })
    })?;
    let mut patched = match managers.are_needed(patch_type, &untyped.value) {
        true => current.clone(),
        false => without_managers(current),
    };
    let mut problems = untyped.problems;
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
            strategic_merge_patch(&mut patched, untyped.value, &schema)?;
            // Whatever it says of the kind is passed over.
            for member in ["kind", "apiVersion"] {
                patched[member] = current[member].clone();
            }
        }
        _ => merge_patch(&mut patched, untyped.value)?,
    }
    if !patched.is_object() {
        return Err(refuse(&patched, "the patched document is no object"));
    }
    Ok((patched, problems))
}

/// Warns of what is unknown or there twice, or refuses it.
fn judge(call: &Call<'_>, options: &WriteOptions, problems: Vec<String>) -> Result<(), String> {
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
fn refuse(patched: &Value, why: &str) -> Status {
    let error = FieldError::invalid(&Path::new("patch"), patched.to_string(), why);
    Status::invalid(&GroupKind::default(), "", &[error])
}

/// The same for a strategic patch, which is shown itself, as Go prints it.
fn refuse_strategic(call: &Call<'_>, why: &str) -> Status {
    let sent = reader::untyped(&call.request.body, Format::Json);
    let shown = sent.map(|sent| go_value(&sent.value)).unwrap_or_default();
    let error = FieldError::invalid(&Path::new("patch"), shown, why);
    Status::invalid(&GroupKind::default(), "", &[error])
}
