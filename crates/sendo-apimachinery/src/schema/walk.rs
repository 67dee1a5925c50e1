//! A schema together with the registry that resolves its references.

use serde_json::Value;

use super::{Field, ListType, MapType, Object, PatchRule, Raw, Schema, Shape, TypeId, Types};

/// The type that schemas in custom resource definitions have.
const JSON_SCHEMA: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// A place in a schema, from which one walks down by field or item.
///
/// What the place says (default, list type, patch rule) and what the type it
/// refers to says (fields) are both at hand; references are followed silently.
#[derive(Clone, Copy)]
pub struct SchemaRef<'a> {
    types: &'a Types,
    /// What is said at this place.
    schema: &'a Schema,
    /// The same, or the type it refers to.
    target: &'a Schema,
}

impl<'a> SchemaRef<'a> {
    pub(super) fn new(types: &'a Types, schema: &'a Schema) -> Self {
        let target = match schema.shape {
            Shape::Reference(id) => types.schema(id),
            _ => schema,
        };
        Self {
            types,
            schema,
            target,
        }
    }

    /// The registry that resolves references.
    pub fn types(self) -> &'a Types {
        self.types
    }

    /// What is said at this place, references not followed.
    pub fn schema(self) -> &'a Schema {
        self.schema
    }

    /// What the named type says, or this place if it refers to none.
    pub fn target(self) -> &'a Schema {
        self.target
    }

    /// The shape, never a reference.
    pub fn shape(self) -> &'a Shape {
        &self.target.shape
    }

    /// The named type this place refers to.
    pub fn type_id(self) -> Option<TypeId> {
        match self.schema.shape {
            Shape::Reference(id) => Some(id),
            _ => None,
        }
    }

    /// The object's fields; none for other shapes.
    pub fn object(self) -> Option<&'a Object> {
        match self.shape() {
            Shape::Object(object) => Some(object),
            _ => None,
        }
    }

    /// All fields, sorted by name; none for other shapes than objects.
    pub fn fields(self) -> &'a [Field] {
        self.object().map(Object::fields).unwrap_or_default()
    }

    /// Down into a field of an object.
    pub fn field(self, name: &str) -> Option<SchemaRef<'a>> {
        let field = self.object()?.field(name)?;
        Some(self.at(&field.schema))
    }

    /// Down into the items of a list.
    pub fn items(self) -> Option<SchemaRef<'a>> {
        match self.shape() {
            Shape::List(list) => Some(self.at(&list.items)),
            _ => None,
        }
    }

    /// Down into the values of a map.
    pub fn values(self) -> Option<SchemaRef<'a>> {
        match self.shape() {
            Shape::Map(values) => Some(self.at(values)),
            _ => None,
        }
    }

    /// Down into whatever lies at a key: a field, or a map's value.
    pub fn key(self, name: &str) -> Option<SchemaRef<'a>> {
        self.field(name).or_else(|| self.values())
    }

    /// The schema type that the objects in `SchemaOrList` and the like have;
    /// none for other shapes.
    pub fn nested_schema(self) -> Option<SchemaRef<'a>> {
        match self.shape() {
            Shape::Raw(Raw::SchemaOrList | Raw::SchemaOrBool | Raw::SchemaOrStrings) => {
                self.types.named(JSON_SCHEMA)
            }
            _ => None,
        }
    }

    /// Another place below this one, with the same registry.
    pub fn at(self, schema: &'a Schema) -> SchemaRef<'a> {
        Self::new(self.types, schema)
    }

    /// How the list merges; none for other shapes.
    pub fn list_type(self) -> Option<&'a ListType> {
        match self.shape() {
            Shape::List(list) => Some(list.list_type.as_ref().unwrap_or(&ListType::Atomic)),
            _ => None,
        }
    }

    /// Whether apply replaces the value as a whole: every scalar, an atomic
    /// list, an object or map marked so at this place or by its type.
    pub fn is_atomic(self) -> bool {
        match self.shape() {
            Shape::List(_) => self.list_type() == Some(&ListType::Atomic),
            Shape::Map(_) | Shape::Object(_) => {
                let map_type = self.schema.map_type.or(self.target.map_type);
                map_type == Some(MapType::Atomic)
            }
            _ => true,
        }
    }

    /// How a strategic merge patch treats the value.
    pub fn patch(self) -> &'a PatchRule {
        &self.schema.patch
    }

    /// The value that an absent one is taken for.
    pub fn default(self) -> Option<&'a Value> {
        self.schema.default.as_ref()
    }
}
