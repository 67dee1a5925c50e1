//! Changes an object by what the expression of a mutation makes.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`: `Patch`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go`: `Patch`

use sendo_apimachinery::Status;
use sendo_apimachinery::cel::{Made, Value as Cel};
use sendo_apimachinery::managed_fields::merge_unowned;
use sendo_apimachinery::patch::{JsonPatch, PatchFault};
use serde_json::{Map, Value};

use super::super::Attributes;
use super::super::versions::{Unknown, Versioned};
use crate::state::admission::policies::MutationKind;

/// Why an object was not changed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The policy cannot: its failure policy decides.
    Policy(String),
    /// The request is refused, whatever the policy says.
    Refused(Status),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Failure::Policy(why)
    }
}

/// The object that results, with defaults.
pub(super) fn apply(
    attributes: &Attributes<'_>,
    versioned: &Versioned,
    kind: MutationKind,
    made: &Cel<'_>,
) -> Result<Value, Failure> {
    let mut object = match kind {
        MutationKind::ApplyConfiguration => merged(attributes, versioned, made)?,
        MutationKind::JsonPatch => patched(attributes, versioned, made)?,
    };
    if attributes.is_of_own_kind() {
        versioned.version.resource.default_object(&mut object);
    }
    Ok(object)
}

fn merged(
    attributes: &Attributes<'_>,
    versioned: &Versioned,
    made: &Cel<'_>,
) -> Result<Value, Failure> {
    let Cel::Made(config) = made else {
        let kind = made.type_name();
        return Err(Failure::Policy(format!(
            "unsupported return type from ApplyConfiguration expression: {kind}"
        )));
    };
    let names = config.check_type_names();
    names.map_err(|why| format!("type mismatch: {why}"))?;
    let mut config = made.to_json()?;
    for member in ["apiVersion", "kind"] {
        config[member] = versioned.object[member].clone();
    }
    let schema = versioned.merge_schema(attributes).ok_or_else(|| {
        let version = &versioned.version.kind;
        Failure::Refused(Status::service_unavailable(format!(
            "Resource kind {}/{}, Kind={} not found. There can be a delay between when \
             CustomResourceDefinitions are created and when they are available.",
            version.group, version.version, version.kind
        )))
    })?;
    let merged = merge_unowned(&versioned.object, &config, schema);
    let merged = merged.map_err(|why| format!("error applying patch: {why}"))?;
    versioned
        .read(attributes, merged, Unknown::Dropped)
        .map_err(|status| Failure::Policy(status.message))
}

fn patched(
    attributes: &Attributes<'_>,
    versioned: &Versioned,
    made: &Cel<'_>,
) -> Result<Value, Failure> {
    let Cel::List(operations) = made else {
        return Err(Failure::Policy(
            "type mismatch: JSONPatchType.expression should evaluate to array".to_owned(),
        ));
    };
    let mut body = Vec::with_capacity(operations.len());
    for operation in operations.iter() {
        body.push(match operation.map_err(|fault| fault.to_string())? {
            Cel::Made(operation) => self::operation(&operation)?,
            other => {
                let kind = other.type_name();
                return Err(Failure::Policy(format!(
                    "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {kind}"
                )));
            }
        });
    }
    let patch = JsonPatch::from_body(Value::Array(body));
    let patch = patch.map_err(|status| status.message)?;
    let mut object = versioned.object.clone();
    match patch.apply_or_fault(&mut object) {
        // What a test does not find is left as it is.
        Err(PatchFault::TestFailed(_)) => return Ok(versioned.object.clone()),
        Err(PatchFault::Inapplicable(why)) => {
            return Err(Failure::Policy(format!("JSON Patch: {why}")));
        }
        Ok(()) => {}
    }
    versioned
        .read(attributes, object, Unknown::Refused)
        .map_err(Failure::Refused)
}

/// An operation of a JSON patch. A `from` that is empty is left out.
fn operation(made: &Made<'_>) -> Result<Value, String> {
    let mut operation = Map::new();
    for member in ["op", "path", "from"] {
        let text = match made.fields.get(member) {
            Some(Cel::Text(text)) => text.to_string(),
            None => String::new(),
            Some(other) => {
                let kind = other.type_name();
                return Err(format!(
                    "unexpected type {kind} for JSONPatchType '{member}' field"
                ));
            }
        };
        if member != "from" || !text.is_empty() {
            operation.insert(member.to_owned(), text.into());
        }
    }
    if let Some(value) = made.fields.get("value") {
        if let Cel::Made(object) = value {
            let names = object.check_type_names();
            names.map_err(|why| format!("type mismatch: {why}"))?;
        }
        let json = value.to_json().map_err(|why| {
            format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
            )
        })?;
        operation.insert("value".to_owned(), json);
    }
    Ok(Value::Object(operation))
}
