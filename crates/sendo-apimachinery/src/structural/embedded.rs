//! The metadata of a resource and of resources embedded in it.

use serde_json::Value;

use super::{Part, Structural};
use crate::field::{Error, Path};
use crate::meta::{FinalizerNames, Meta, MetaRules, Scope, validate_create};
use crate::schema::{Types, show_as_go};
use crate::{GroupVersion, decode, names};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Why an object cannot be read as a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(String);

impl Structural {
    /// Brings an object that was read into the form of its kind: metadata gets
    /// its type, what the schema does not know is pruned, null members that may
    /// not be null and have no default are dropped.
    ///
    /// Returns the paths of what went because it is unknown.
    pub fn admit(&self, object: &mut Value, types: &Types) -> Result<Vec<String>, MetadataError> {
        let mut unknown = type_metadata(object, &Path::root(), types).map_err(MetadataError)?;
        unknown.extend(self.prune(object, Part::Resource));
        self.drop_nulls(object);
        let embedded = self.type_metadata(object, Part::Value, types);
        let mut embedded = embedded.map_err(|error| MetadataError(error.to_string()))?;
        embedded.sort();
        unknown.extend(embedded);
        Ok(unknown)
    }

    /// Gives the metadata of embedded resources its type; with [`Part::Resource`]
    /// that of the object itself too. Returns the paths of unknown fields.
    pub fn type_metadata(
        &self,
        value: &mut Value,
        part: Part,
        types: &Types,
    ) -> Result<Vec<String>, Error> {
        let mut unknown = Vec::new();
        self.coerce(
            value,
            self.holds_metadata(part),
            &Path::root(),
            types,
            &mut unknown,
        )?;
        Ok(unknown)
    }

    fn coerce(
        &self,
        value: &mut Value,
        is_resource: bool,
        path: &Path,
        types: &Types,
        unknown: &mut Vec<String>,
    ) -> Result<(), Error> {
        if is_resource && let Value::Object(members) = &*value {
            for name in ["apiVersion", "kind"] {
                if let Some(member) = members.get(name).filter(|member| !member.is_string()) {
                    return Err(Error::invalid(
                        &path.child(name),
                        member.clone(),
                        "must be a string",
                    ));
                }
            }
            let typed = type_metadata(value, path, types);
            unknown.extend(typed.map_err(|error| {
                let metadata = value.get("metadata").cloned().unwrap_or_default();
                Error::invalid(&path.child("metadata"), metadata, error)
            })?);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    let (schema, path) = match self.properties.get(name) {
                        Some(property) => (property, path.child(name)),
                        None => match self.member(name) {
                            Some(schema) => (schema, path.key(name)),
                            None => continue,
                        },
                    };
                    schema.coerce(member, schema.embedded_resource, &path, types, unknown)?;
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else {
                    return Ok(());
                };
                for (i, item) in items.iter_mut().enumerate() {
                    let path = path.index(i);
                    schema.coerce(item, schema.embedded_resource, &path, types, unknown)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks kind, version and metadata of embedded resources; with
    /// [`Part::Resource`] of the object itself too.
    pub fn validate_metadata(&self, value: &Value, part: Part, path: &Path) -> Vec<Error> {
        let mut errors = Vec::new();
        self.check_metadata(value, self.holds_metadata(part), path, &mut errors);
        errors
    }

    fn check_metadata(
        &self,
        value: &Value,
        is_resource: bool,
        path: &Path,
        errors: &mut Vec<Error>,
    ) {
        match value {
            Value::Object(members) => {
                if is_resource {
                    errors.extend(validate_resource(value, path));
                }
                for (name, member) in members {
                    let (schema, path) = match self.properties.get(name) {
                        Some(property) => (property, path.child(name)),
                        None => match self.member(name) {
                            Some(schema) => (schema, path.key(name)),
                            None => continue,
                        },
                    };
                    schema.check_metadata(member, schema.embedded_resource, &path, errors);
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else {
                    return;
                };
                for (i, item) in items.iter().enumerate() {
                    schema.check_metadata(item, schema.embedded_resource, &path.index(i), errors);
                }
            }
            _ => {}
        }
    }
}

/// Gives the `metadata` of an object its type; returns the paths of unknown fields in it.
fn type_metadata(object: &mut Value, path: &Path, types: &Types) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    let Some(schema) = types.named(OBJECT_META) else {
        return Ok(Vec::new());
    };
    let decoded = decode::typed(metadata.clone(), schema).map_err(|error| error.to_string())?;
    *metadata = decoded.value;
    show_as_go(schema, metadata);
    let prefix = path.child("metadata");
    let unknown = decoded.problems.iter().filter_map(|problem| {
        let inner = problem
            .strip_prefix("unknown field \"")?
            .strip_suffix('"')?;
        Some(format!("{prefix}.{inner}"))
    });
    Ok(unknown.collect())
}

fn validate_resource(object: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    for name in ["apiVersion", "kind"] {
        if object.get(name).is_none() {
            errors.push(Error::required(&path.child(name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        let at = path.child(name);
        match object.get(name) {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(&at, "", "must not be empty"));
            }
            Some(Value::String(text)) => errors.extend(match name {
                "apiVersion" => validate_api_version(text, &at),
                _ => validate_kind(text, &at),
            }),
            Some(other) => errors.push(Error::invalid(&at, other.clone(), "must be a string")),
        }
    }
    if object.get("metadata").is_some() {
        let meta = Meta::new(object);
        let rules = MetaRules {
            scope: if meta.namespace().is_empty() {
                Scope::Cluster
            } else {
                Scope::Namespaced
            },
            name: names::path_segment,
            finalizers: FinalizerNames::Any,
        };
        let found = validate_create(meta, &rules, &path.child("metadata"));
        // A name may be missing here.
        let name = path.child("metadata").child("name").to_string();
        let missing = |e: &Error| e.kind == crate::field::ErrorKind::Required && e.field == name;
        errors.extend(found.into_iter().filter(|error| !missing(error)));
    }
    errors
}

fn validate_api_version(text: &str, path: &Path) -> Option<Error> {
    let fits = GroupVersion::parse(text).is_some();
    (!fits).then(|| {
        Error::invalid(
            path,
            text,
            format!("unexpected GroupVersion string: {text}"),
        )
    })
}

fn validate_kind(text: &str, path: &Path) -> Option<Error> {
    let faults = names::dns1035_label(&text.to_lowercase());
    let rule = "may have mixed case, but should otherwise match: ";
    (!faults.is_empty()).then(|| Error::invalid(path, text, format!("{rule}{}", faults.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Structural {
        Structural::from_json(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "e": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                    "spec": {"type": "object", "properties": {"x": {"type": "integer"}}},
                }},
                "n": {"type": "string"},
            }}}}),
        )
    }

    #[test]
    fn an_object_is_brought_into_form() {
        let mut object = json!({
            "apiVersion": "v1", "kind": "K",
            "metadata": {"name": "a", "bogus": 1, "labels": null, "creationTimestamp": null},
            "spec": {"n": null, "zz": 1, "e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "odd": 1}, "other": 2}},
        });
        let unknown = schema().admit(&mut object, &Types::builtin()).unwrap();
        assert_eq!(
            unknown,
            [
                "metadata.bogus",
                "spec.e.other",
                "spec.zz",
                "spec.e.metadata.odd"
            ]
        );
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"name": "a"},
                "spec": {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}},
            })
        );
    }

    #[test]
    fn metadata_of_a_wrong_type_is_refused() {
        let mut object = json!({"metadata": {"labels": {"a": 1}}});
        assert_eq!(
            schema()
                .admit(&mut object, &Types::builtin())
                .unwrap_err()
                .to_string(),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
        );
    }

    #[test]
    fn an_embedded_resource_names_its_kind() {
        let object = json!({"spec": {"e": {"kind": "pod!", "metadata": {"labels": {"-": "x"}}}}});
        let errors = schema().validate_metadata(&object, Part::Value, &Path::root());
        assert_eq!(errors[0].to_string(), "spec.e.apiVersion: Required value");
        assert!(
            errors[1]
                .to_string()
                .starts_with("spec.e.kind: Invalid value: \"pod!\": may have mixed case")
        );
        assert!(
            errors[2]
                .to_string()
                .starts_with("spec.e.metadata.labels: Invalid value: \"-\"")
        );
        assert_eq!(errors.len(), 3);
    }
}
