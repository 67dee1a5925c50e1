//! The behavior of a custom resource: defaults, pruning, validation and table cells by the schema
//! of its definition.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/status_strategy.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`:
//!   `scaleFromCustomResource`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`: `apply`
//! - `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go`:
//!   `NestedFieldNoCopy`

use std::sync::Arc;

use jiff::Timestamp;
use sendo_apimachinery::field::{Error, ErrorKind, Path};
use sendo_apimachinery::jsonpath::{JsonPath, cell_text};
use sendo_apimachinery::meta::{self, FinalizerNames, MetaRules, Scope};
use sendo_apimachinery::resources::Column;
use sendo_apimachinery::schema::{SchemaRef, Types};
use sendo_apimachinery::structural::{Part, Structural};
use sendo_apimachinery::validation_rules::{Rules as Expressions, ValidationResult};
use sendo_apimachinery::{Meta, MetaMut, go_quote, go_value, names};
use sendo_store::Revision;
use sendo_world::Stop;
use serde_json::Value;

use super::text;
use super::versions::{Version, Versions};
use crate::catalog::stored_form::TypeMeta;
use crate::kinds::{NAMESPACE, Rules, UnknownFields};
use crate::printers;

/// The rules of all custom resources.
pub(crate) static RULES: Rules = Rules {
    allow_unconditional_update: false,
    unknown_fields: UnknownFields::NotSupported,
    selectable_fields: &[NAMESPACE],
    ..Rules::NEUTRAL
};

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct Custom {
    /// The name of its CustomResourceDefinition.
    pub(crate) definition: String,
    /// The kind and version of its objects.
    pub(super) types: TypeMeta,
    pub(super) schema: Arc<Structural>,
    /// The CEL rules of the schema, compiled when the definition was written.
    pub(super) expressions: Arc<Expressions>,
    /// All versions of the definition.
    pub(crate) versions: Arc<Versions>,
    /// The schema as the definition gives it.
    pub(crate) published: Value,
    pub(super) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// The JSON paths of the table columns. The first column is the name, which has no path.
    pub(crate) columns: Vec<Option<JsonPath>>,
    /// The descriptions of the columns.
    pub(crate) descriptions: Vec<String>,
    pub(crate) selectable: Vec<(String, JsonPath)>,
    pub(crate) deprecation: Option<String>,
    /// The revision at which the definition was created.
    pub(crate) since: Revision,
    pub(super) schema_since: Revision,
    /// Whether its definition is being deleted.
    pub(crate) terminating: bool,
    /// Cancelled when it is no longer served.
    pub(crate) gone: Stop,
}

/// The JSON paths of the fields of a Scale in an object.
#[derive(Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: NumberPath,
    pub(crate) status_replicas: NumberPath,
    pub(crate) selector: Option<JsonPath>,
}

/// The JSON path of a number of replicas.
#[derive(Debug)]
pub(crate) struct NumberPath {
    /// The path as the definition writes it.
    pub(crate) text: String,
    path: JsonPath,
}

impl NumberPath {
    fn parse(text: &str) -> Option<Self> {
        Some(NumberPath {
            text: text.to_owned(),
            path: JsonPath::parse(text).ok()?,
        })
    }

    /// Reads the number, `None` if it is absent. Validation refuses a value that is not a number.
    pub(crate) fn read(&self, object: &Value) -> Option<i64> {
        self.path.first(object)?.as_i64()
    }

    /// The names of the members on the path.
    pub(crate) fn members(&self) -> Option<Vec<&str>> {
        self.path.members()
    }

    /// Sets the number and creates the objects on the path.
    pub(crate) fn write(&self, object: &mut Value, number: i64) {
        self.path.set(object, number.into());
    }

    fn validate(&self, object: &Value) -> Option<Error> {
        let path = Path::new(&self.text);
        let refuse = |number: i64, why: String| Some(Error::invalid(&path, number, why));
        let number = match nested(object, &self.members()?) {
            Ok(None | Some(Value::Null)) => return None,
            Ok(Some(value)) => match value.as_i64() {
                Some(number) => number,
                None => return refuse(0, wrong_type(&self.text, value, "int64")),
            },
            Err(why) => return refuse(0, why),
        };
        match number {
            ..0 => refuse(number, "should be a non-negative integer".to_owned()),
            0..=MAX_REPLICAS => None,
            _ => refuse(
                number,
                format!("should be less than or equal to {MAX_REPLICAS}"),
            ),
        }
    }
}

/// The largest number of replicas of a Scale.
const MAX_REPLICAS: i64 = i32::MAX as i64;

/// The value at a path of members, if there is one.
///
/// # Errors
/// Go's error message if a value on the path is not an object.
fn nested<'a>(object: &'a Value, members: &[&str]) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for (i, member) in members.iter().enumerate() {
        match value {
            Value::Null => return Ok(None),
            Value::Object(own) => match own.get(*member) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            other => {
                let path = format!(".{}", members[..=i].join("."));
                return Err(wrong_type(&path, other, "map[string]interface{}"));
            }
        }
    }
    Ok(Some(value))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let kind = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!(
        "{path} accessor error: {} is of the type {kind}, expected {expected}",
        go_value(value)
    )
}

impl ScalePaths {
    pub(super) fn from_version(version: &Value) -> Option<Self> {
        let scale = version["subresources"]
            .get("scale")
            .filter(|scale| !scale.is_null())?;
        Some(ScalePaths {
            spec_replicas: NumberPath::parse(text(&scale["specReplicasPath"]))?,
            status_replicas: NumberPath::parse(text(&scale["statusReplicasPath"]))?,
            selector: scale["labelSelectorPath"]
                .as_str()
                .and_then(|path| JsonPath::parse(path).ok()),
        })
    }

    fn validate(&self, object: &Value) -> impl Iterator<Item = Error> {
        let spec = self.spec_replicas.validate(object);
        spec.into_iter()
            .chain(self.status_replicas.validate(object))
    }
}

impl Version {
    /// Applies the schema to an object that was stored under an older one.
    pub(crate) fn refresh(&self, object: &mut Value) {
        self.schema.prune(object, Part::Resource);
        self.schema.set_defaults(object);
    }
}

impl Custom {
    /// The schema of this version.
    pub(crate) fn schema(&self) -> &Structural {
        &self.schema
    }

    /// The schema of this version as server-side apply uses it.
    pub(crate) fn merge_schema<'a>(&'a self, types: &'a Types) -> SchemaRef<'a> {
        let own = self.versions.find(&self.types.api_version);
        own.expect("a resource is of a version of its definition")
            .merge_schema(types)
    }

    /// Sets the defaults of the schema.
    pub(crate) fn default_object(&self, object: &mut Value) {
        self.schema.set_defaults(object);
    }

    /// Whether a webhook has to convert what is stored in another version.
    ///
    /// Such objects are brought into this version before they are decoded
    /// ([`crate::state::Server::in_version`]).
    pub(crate) fn has_webhook(&self) -> bool {
        self.versions.webhook.is_some()
    }

    /// Whether an object stored at revision `at` must be decoded to be served in this version: it
    /// was stored under another schema.
    pub(crate) fn must_refresh(&self, stored: &[u8], at: Revision) -> bool {
        !self.has_webhook() && (self.is_outdated(at) || !self.shares_schema(self.stored_as(stored)))
    }

    /// Whether the schemas have changed since an object was stored at revision `at`.
    pub(crate) fn is_outdated(&self, at: Revision) -> bool {
        at < self.schema_since
    }

    fn stored_as(&self, stored: &[u8]) -> &Version {
        let versions = &self.versions;
        versions
            .of_stored(stored)
            .unwrap_or_else(|_| versions.storage())
    }

    fn shares_schema(&self, version: &Version) -> bool {
        Arc::ptr_eq(&self.schema, &version.schema)
    }

    /// Applies the current schemas to an object that these stored bytes hold.
    pub(crate) fn refresh(&self, object: &mut Value, stored: &[u8]) {
        let version = self.stored_as(stored);
        version.refresh(object);
        if !self.shares_schema(version) {
            self.schema.prune(object, Part::Resource);
        }
    }

    /// Prunes fields that the storage version does not have and nulls that an apply left in
    /// non-nullable fields, and sets the defaults of the storage version. The status of a new
    /// object is otherwise never defaulted, since it did not come through the status subresource.
    pub(crate) fn prepare_storage(&self, object: &mut Value) {
        let storage = self.versions.storage();
        if !self.shares_schema(storage) {
            storage.schema.prune(object, Part::Resource);
        }
        storage.schema.drop_nulls(object);
        storage.schema.set_defaults(object);
    }

    /// The table cells of an object.
    pub(crate) fn cells(&self, columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
        let cell = |(column, path): (&Column, &Option<JsonPath>)| match path {
            None => Meta::new(object).name().into(),
            Some(path) => path
                .first(object)
                .map_or(Value::Null, |value| cell(&column.kind, value, now)),
        };
        columns.iter().zip(&self.columns).map(cell).collect()
    }

    pub(crate) fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            remove(object, "status");
        }
        MetaMut::new(object).set_generation(1);
    }

    /// Restores the status if there is a status subresource. Any other change outside of metadata
    /// increments the generation.
    pub(crate) fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status {
            match old.get("status") {
                Some(status) => new["status"] = status.clone(),
                None => remove(new, "status"),
            }
        }
        let content = |object: &Value| {
            let mut copy = object.clone();
            remove(&mut copy, "metadata");
            if self.has_status {
                remove(&mut copy, "status");
            }
            copy
        };
        if content(new) != content(old) {
            MetaMut::new(new).set_generation(Meta::new(old).generation() + 1);
        }
    }

    /// Restores everything but the status.
    pub(crate) fn prepare_status_update(&self, new: &mut Value, old: &Value) {
        let status = new.get("status").cloned();
        let version = Meta::new(new).resource_version().to_owned();
        *new = old.clone();
        match status {
            Some(status) => new["status"] = status,
            None => remove(new, "status"),
        }
        MetaMut::new(new).set_resource_version(&version);
    }

    pub(crate) fn validate_create(&self, object: &Value) -> Vec<Error> {
        let mut errors = self.validate_types(object);
        let namespaced = !Meta::new(object).namespace().is_empty();
        let rules = MetaRules {
            scope: if namespaced {
                Scope::Namespaced
            } else {
                Scope::Cluster
            },
            name: names::dns1123_subdomain,
            finalizers: FinalizerNames::Any,
        };
        errors.extend(meta::validate_create(
            Meta::new(object),
            &rules,
            &Path::new("metadata"),
        ));
        errors.extend(self.schema.validate(object, None, &Path::root()));
        errors.extend(self.scale.iter().flat_map(|scale| scale.validate(object)));
        errors.extend(
            self.schema
                .validate_metadata(object, Part::Value, &Path::root()),
        );
        errors.extend(self.schema.validate_lists(object, &Path::root()));
        self.with_expressions(object, None, errors).errors
    }

    pub(crate) fn validate_update(&self, new: &Value, old: &Value) -> ValidationResult {
        let mut errors = self.validate_types(new);
        errors.extend(validate_metadata_update(new, old));
        errors.extend(self.schema.validate(new, Some(old), &Path::root()));
        errors.extend(self.scale.iter().flat_map(|scale| scale.validate(new)));
        errors.extend(
            self.schema
                .validate_metadata(new, Part::Value, &Path::root()),
        );
        errors.extend(ratcheted_lists(&self.schema, new, old, &Path::root()));
        self.with_expressions(new, Some(old), errors)
    }

    /// Validates an update through the status subresource, which cannot change anything else.
    pub(crate) fn validate_status_update(&self, new: &Value, old: &Value) -> ValidationResult {
        let mut errors = validate_metadata_update(new, old);
        let path = Path::new("status");
        if let (Some(schema), Some(status)) =
            (self.schema.properties.get("status"), new.get("status"))
        {
            errors.extend(schema.validate(status, old.get("status"), &path));
            let was = old.get("status").unwrap_or(&Value::Null);
            errors.extend(ratcheted_lists(schema, status, was, &path));
        }
        errors.extend(self.scale.iter().flat_map(|scale| scale.validate(new)));
        self.with_expressions(new, Some(old), errors)
    }

    /// Adds the errors of the CEL rules, unless structural errors block their evaluation.
    fn with_expressions(
        &self,
        new: &Value,
        old: Option<&Value>,
        mut errors: Vec<Error>,
    ) -> ValidationResult {
        let mut result = ValidationResult::default();
        if self.expressions.is_empty() {
            result.errors = errors;
            return result;
        }
        let blocks = |error: &Error| {
            matches!(
                error.kind,
                ErrorKind::NotSupported
                    | ErrorKind::Required
                    | ErrorKind::TooLong
                    | ErrorKind::TooMany
                    | ErrorKind::TypeInvalid
            )
        };
        if errors.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(Error::invalid(&Path::root(), Value::Null, why));
        } else {
            result = self.expressions.validate(new, old);
        }
        result.errors.splice(..0, errors);
        result
    }

    /// Warnings for finalizers without a domain.
    pub(crate) fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known =
            |name: &str| old.is_some_and(|old| Meta::new(old).finalizers().any(|own| own == name));
        Meta::new(new)
            .finalizers()
            .filter(|name| !name.contains('/') && !known(name))
            .filter(|name| !["orphan", "foregroundDeletion", "kubernetes"].contains(name))
            .map(|name| {
                format!(
                    "metadata.finalizers: {}: prefer a domain-qualified finalizer name to avoid accidental \
                     conflicts with other finalizer writers",
                    go_quote(name)
                )
            })
            .collect()
    }

    /// Validates that kind and apiVersion are those of the request path.
    fn validate_types(&self, object: &Value) -> Vec<Error> {
        let mut errors = Vec::new();
        for (member, wanted) in [
            ("kind", &self.types.kind),
            ("apiVersion", &self.types.api_version),
        ] {
            let own = text(&object[member]);
            if own != wanted {
                errors.push(Error::invalid(
                    &Path::new(member),
                    own,
                    format!("must be {wanted}"),
                ));
            }
        }
        errors
    }
}

fn validate_metadata_update(new: &Value, old: &Value) -> Vec<Error> {
    let path = Path::new("metadata");
    meta::validate_update(Meta::new(new), Meta::new(old), FinalizerNames::Any, &path)
}

/// Errors for duplicate items and keys of lists, tolerated if the old object has some too.
fn ratcheted_lists(schema: &Structural, new: &Value, old: &Value, path: &Path) -> Vec<Error> {
    let errors = schema.validate_lists(new, path);
    if errors.is_empty() || !schema.validate_lists(old, path).is_empty() {
        return Vec::new();
    }
    errors
}

/// The cell of a value in a column of this type. It is null if the value has another type.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => cell_text(value).into(),
        (_, Value::Null) => Value::Null,
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            (None, Some(float)) => (float as i64).into(),
            _ => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => printers::human_duration(now.duration_since(time)).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

fn remove(object: &mut Value, member: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_a_number_in_the_range_of_a_scale() {
        let path = NumberPath::parse(".spec.n").unwrap();
        for (object, expected) in [
            (json!({}), None),
            (json!({"spec": null}), None),
            (json!({"spec": {"n": 3}}), None),
            (
                json!({"spec": {"n": -1}}),
                Some("Invalid value: -1: should be a non-negative integer"),
            ),
            (
                json!({"spec": {"n": 2_147_483_648_i64}}),
                Some("Invalid value: 2147483648: should be less than or equal to 2147483647"),
            ),
            (
                json!({"spec": {"n": 2.0}}),
                Some(
                    "Invalid value: 0: .spec.n accessor error: 2 is of the type float64, expected int64",
                ),
            ),
            (
                json!({"spec": "x"}),
                Some(
                    "Invalid value: 0: .spec.n accessor error: x is of the type string, expected map[string]interface{}",
                ),
            ),
        ] {
            let found = path.validate(&object).map(|error| error.to_string());
            let expected = expected.map(|text| format!(".spec.n: {text}"));
            assert_eq!(found, expected, "{object}");
        }
    }
}
