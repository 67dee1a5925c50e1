//! The shape of a JSON value, and whether its protobuf message has the same shape.

use anyhow::{Context as _, bail, ensure};
use protox::prost_reflect::{FieldDescriptor, Kind};
use serde_json::{Value, json};

use super::openapi::reference;

/// Types with an encoding of their own, and the word for each in `types.txt`.
const SPECIAL: [(&str, &str); 11] = [
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "quantity"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "fields"),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        "micro-time",
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", "patch"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "time"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "extension"),
    (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        "int-or-string",
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "json",
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
        "props-or-array",
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        "props-or-bool",
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "props-or-strings",
    ),
];

/// The JSON shape of a value.
pub(crate) enum Shape {
    /// A scalar or one of the special types, by its word.
    Word(&'static str),
    Reference(String),
    List(Box<Shape>),
    Map(Box<Shape>),
}

impl Shape {
    /// The shape of a property's schema.
    pub(crate) fn from_schema(schema: &Value) -> anyhow::Result<Self> {
        if let Some(name) = reference(schema) {
            return Ok(match special(name) {
                Some(word) => Self::Word(word),
                None => Self::Reference(name.to_owned()),
            });
        }
        let format = schema["format"].as_str().unwrap_or_default();
        Ok(
            match (schema["type"].as_str().unwrap_or_default(), format) {
                ("boolean", "") => Self::Word("bool"),
                ("integer", "int32") => Self::Word("int32"),
                ("integer", "int64") => Self::Word("int64"),
                ("number", "double") => Self::Word("double"),
                ("string", "") => Self::Word("string"),
                ("string", "byte") => Self::Word("bytes"),
                ("array", "") => Self::List(Box::new(Self::element(&schema["items"])?)),
                ("object", "") if schema.get("additionalProperties").is_some() => {
                    Self::Map(Box::new(Self::element(&schema["additionalProperties"])?))
                }
                (kind, format) => bail!("unknown shape: type {kind:?}, format {format:?}"),
            },
        )
    }

    /// Elements have no default but the zero value that every one of them has.
    fn element(schema: &Value) -> anyhow::Result<Self> {
        let shape = Self::from_schema(schema)?;
        let default = schema.get("default");
        ensure!(
            default == shape.zero().as_ref(),
            "an element with the default {default:?}"
        );
        Ok(shape)
    }

    /// The default in OpenAPI of a value that is always present.
    pub(crate) fn zero(&self) -> Option<Value> {
        match self {
            Self::Word("bool") => Some(json!(false)),
            Self::Word("int32" | "int64" | "double") => Some(json!(0)),
            Self::Word("string") => Some(json!("")),
            Self::Reference(_) => Some(json!({})),
            Self::Word(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Checks that the protobuf field has the shape. Returns the rest of the path if the value is in a
    /// message of its own, as for a named list type.
    pub(crate) fn wire_path(&self, field: &FieldDescriptor) -> anyhow::Result<Option<u32>> {
        match self {
            Self::List(items) if field.is_list() => check_single(items, &field.kind())?,
            Self::List(items) => return Ok(Some(wrapped(items, &field.kind())?)),
            Self::Map(values) if field.is_map() => {
                let entry = field.kind();
                let entry = entry.as_message().context("a map without entries")?;
                check_single(values, &entry.map_entry_value_field().kind())?;
            }
            single => check_single(single, &field.kind())?,
        }
        Ok(None)
    }

    /// As `types.txt` has it; types of the same package go by their short name.
    pub(crate) fn write(&self, package: &str, line: &mut String) {
        match self {
            Self::Word(word) => line.push_str(word),
            Self::Reference(name) => match name.rsplit_once('.') {
                Some((own, name)) if own == package => line.push_str(name),
                _ => line.push_str(name),
            },
            Self::List(items) => {
                line.push_str("[]");
                items.write(package, line);
            }
            Self::Map(values) => {
                line.push_str("{}");
                values.write(package, line);
            }
        }
    }
}

fn check_single(shape: &Shape, kind: &Kind) -> anyhow::Result<()> {
    let agrees = match (shape, kind) {
        (Shape::List(items), kind) => return wrapped(items, kind).map(drop),
        (Shape::Word("bool"), Kind::Bool)
        | (Shape::Word("int32"), Kind::Int32)
        | (Shape::Word("int64"), Kind::Int64)
        | (Shape::Word("double"), Kind::Double)
        | (Shape::Word("string"), Kind::String)
        | (Shape::Word("bytes"), Kind::Bytes) => true,
        (Shape::Word(word), Kind::Message(message)) => SPECIAL
            .iter()
            .any(|(name, special)| special == word && same_type(name, message.full_name())),
        (Shape::Reference(name), Kind::Message(message)) => same_type(name, message.full_name()),
        _ => false,
    };
    ensure!(agrees, "protobuf has {kind:?} here");
    Ok(())
}

/// A list inside a message that has no other field.
fn wrapped(items: &Shape, kind: &Kind) -> anyhow::Result<u32> {
    let message = kind
        .as_message()
        .context("neither repeated nor a message")?;
    let mut fields = message.fields();
    match (fields.next(), fields.next()) {
        (Some(field), None) if field.is_list() && field.number() == 1 => {
            check_single(items, &field.kind())?;
            Ok(1)
        }
        _ => bail!("{} is not a list in a message", message.full_name()),
    }
}

fn same_type(openapi: &str, proto: &str) -> bool {
    let rest = openapi
        .strip_prefix("io.k8s.")
        .unwrap_or(openapi)
        .replace('-', "_");
    proto.strip_prefix("k8s.io.") == Some(&rest)
}

/// The word for a type with an encoding of its own.
pub(crate) fn special(full_name: &str) -> Option<&'static str> {
    SPECIAL
        .iter()
        .find_map(|(name, word)| (*name == full_name).then_some(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(schema: Value) -> anyhow::Result<String> {
        let mut line = String::new();
        Shape::from_schema(&schema)?.write("io.k8s.api.core.v1", &mut line);
        Ok(line)
    }

    #[test]
    fn references_in_the_same_package_are_short() {
        let own = json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.Probe"});
        assert_eq!(written(own).unwrap(), "Probe");
        let other = json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.X"}]});
        assert_eq!(written(other).unwrap(), "io.k8s.api.apps.v1.X");
    }

    #[test]
    fn an_element_has_the_default_that_the_rule_gives_it() {
        let list = json!({"type": "array", "items": {"type": "string", "default": ""}});
        assert_eq!(written(list).unwrap(), "[]string");
        let list = json!({"type": "array", "items": {"type": "string", "default": "x"}});
        assert!(written(list).is_err());
    }

    #[test]
    fn an_unknown_shape_is_an_error() {
        assert!(written(json!({"type": "string", "format": "uuid"})).is_err());
        assert!(written(json!({"type": "object"})).is_err());
    }
}
