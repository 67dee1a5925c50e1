//! What a schema says of the values that rules see.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::escape::{escape, is_reserved};
use super::types::Type;
use crate::structural::{Additional, Structural};

/// The largest request, from which sizes without a bound of their own follow.
pub const MAX_REQUEST: i64 = 3 * 1024 * 1024;

const QUOTES: i64 = 2;

/// The type of a value with bounds on its size.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type.
    pub kind: Type,
    /// The type of items of a list or of values of a map.
    pub element: Option<Arc<Declared>>,
    /// The most items, entries or bytes it can have; 0 where size means nothing.
    pub max_elements: u64,
    /// The least bytes a value takes in JSON.
    pub min_size: i64,
}

/// An object with declared fields.
#[derive(Debug)]
pub struct ObjectType {
    /// A name that no expression can spell.
    pub name: String,
    /// Its fields by the names that expressions use.
    pub fields: BTreeMap<String, Arc<Declared>>,
}

impl ObjectType {
    /// A field that an expression selects. Behind a dot a reserved word needs no escape.
    pub(super) fn selected(&self, name: &str) -> Option<&Arc<Declared>> {
        self.fields.get(name).or_else(|| {
            let reserved = escape(name).filter(|_| is_reserved(name))?;
            self.fields.get(&reserved)
        })
    }
}

impl Declared {
    /// The type that a schema declares; none where rules cannot see the values.
    ///
    /// The root of a resource has kind, version and the names in its metadata,
    /// whatever its schema says.
    pub fn from_schema(schema: &Structural, is_resource: bool) -> Option<Declared> {
        declare(schema, is_resource, Declared::ROOT)
    }

    /// The name of the type that a resource has.
    pub(super) const ROOT: &str = "selfType";

    /// The name that the types of objects in it begin with.
    pub(super) fn type_name(&self) -> Option<&str> {
        match (&self.kind, &self.element) {
            (Type::Object(object), _) => Some(&object.name),
            (Type::List(_), Some(item)) => item.type_name()?.strip_suffix(".@idx"),
            (Type::Map(_), Some(value)) => value.type_name()?.strip_suffix(".@elem"),
            _ => None,
        }
    }

    fn scalar(kind: Type, min_size: i64, max_elements: i64) -> Declared {
        Declared {
            kind,
            element: None,
            max_elements: u64::try_from(max_elements).unwrap_or(0),
            min_size,
        }
    }

    /// The declaration of a field, by the name that expressions use.
    pub fn field(&self, name: &str) -> Option<&Arc<Declared>> {
        match &self.kind {
            Type::Object(object) => object.fields.get(name),
            _ => None,
        }
    }
}

fn declare(schema: &Structural, is_resource: bool, name: &str) -> Option<Declared> {
    let constraints = &schema.constraints;
    let text_bound = || match constraints.max_length {
        // A character takes up to four bytes.
        Some(length) => length.max(0).saturating_mul(4),
        None => MAX_REQUEST - QUOTES,
    };
    if schema.int_or_string {
        return Some(Declared::scalar(Type::Dyn, 1, text_bound()));
    }
    match schema.type_name.as_str() {
        "array" => {
            let items = schema.items.as_deref()?;
            let element = declare(items, items.embedded_resource, &format!("{name}.@idx"))?;
            let most = match constraints.max_items {
                Some(most) => most.max(0),
                None => (MAX_REQUEST - 2) / (element.min_size + 1),
            };
            Some(Declared {
                kind: Type::list(element.kind.clone()),
                element: Some(Arc::new(element)),
                max_elements: most as u64,
                min_size: 2,
            })
        }
        "object" => declare_object(schema, is_resource, name),
        "string" => Some(match constraints.format.as_str() {
            "byte" => Declared::scalar(
                Type::Bytes,
                2,
                constraints
                    .max_length
                    .map_or(MAX_REQUEST - QUOTES, |most| most.max(0)),
            ),
            "duration" => Declared::scalar(Type::Duration, 3, 32),
            "date" => Declared::scalar(Type::Timestamp, 12, 12),
            "date-time" => Declared::scalar(Type::Timestamp, 21, 32),
            _ => {
                let longest = constraints
                    .allowed
                    .iter()
                    .filter_map(|value| value.as_str());
                let bound = match (constraints.max_length, longest.map(str::len).max()) {
                    (None, Some(longest)) => longest as i64,
                    (None, None) if !constraints.allowed.is_empty() => 0,
                    _ => text_bound(),
                };
                Declared::scalar(Type::Text, 2, bound)
            }
        }),
        "boolean" => Some(Declared::scalar(Type::Bool, 4, 0)),
        "number" => Some(Declared::scalar(Type::Double, 1, 0)),
        "integer" => Some(Declared::scalar(Type::Int, 1, 0)),
        _ => None,
    }
}

fn declare_object(schema: &Structural, is_resource: bool, name: &str) -> Option<Declared> {
    if let Some(Additional::Schema(values)) = &schema.additional_properties {
        let element = declare(values, values.embedded_resource, &format!("{name}.@elem"))?;
        let most = match schema.constraints.max_properties {
            Some(most) => most.max(0),
            None => (MAX_REQUEST - 2) / (element.min_size + 6),
        };
        return Some(Declared {
            kind: Type::map(Type::Text, element.kind.clone()),
            element: Some(Arc::new(element)),
            max_elements: most as u64,
            min_size: 2,
        });
    }
    let completed;
    let schema = if is_resource {
        completed = with_resource_fields(schema.clone());
        &completed
    } else {
        schema
    };
    let mut fields = BTreeMap::new();
    let mut min_size = 2;
    for (property, of) in &schema.properties {
        let escaped = escape(property);
        let path = format!("{name}.{}", escaped.as_deref().unwrap_or(property));
        let Some(declared) = declare(of, of.embedded_resource, &path) else {
            continue;
        };
        if schema.constraints.required.contains(property) && of.default.is_none() {
            min_size += property.len() as i64 + declared.min_size + 4;
        }
        if let Some(escaped) = escaped {
            fields.insert(escaped, Arc::new(declared));
        }
    }
    Some(Declared {
        kind: Type::Object(Arc::new(ObjectType {
            name: name.to_owned(),
            fields,
        })),
        element: None,
        max_elements: 0,
        min_size,
    })
}

/// A schema with the fields that every resource has.
pub(crate) fn with_resource_fields(mut schema: Structural) -> Structural {
    let is = |schema: Option<&Structural>, name: &str| {
        schema.is_some_and(|schema| schema.type_name == name)
    };
    let property = |name: &str| schema.properties.get(name);
    let metadata = property("metadata");
    let below = |name: &str| metadata.and_then(|metadata| metadata.properties.get(name));
    let complete = is(property("kind"), "string")
        && is(property("apiVersion"), "string")
        && is(metadata, "object")
        && is(below("name"), "string")
        && is(below("generateName"), "string");
    if complete {
        return schema;
    }
    let text = || Structural {
        type_name: "string".to_owned(),
        ..Structural::default()
    };
    let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
    let metadata = Structural {
        type_name: "object".to_owned(),
        properties: BTreeMap::from(names),
        ..Structural::default()
    };
    schema.properties.insert("kind".to_owned(), text());
    schema.properties.insert("apiVersion".to_owned(), text());
    schema.properties.insert("metadata".to_owned(), metadata);
    schema
}
