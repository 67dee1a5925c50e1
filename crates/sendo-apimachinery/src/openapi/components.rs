//! The schemas that a document refers to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::operation::reference;
use super::{Describe, META, sentences};
use crate::schema::{
    Empty, Field, ListType, MapType, PatchRule, Raw, Schema, SchemaRef, Shape, Types,
};

const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Collects schemas by name, each with those it refers to in turn.
pub(super) struct Components<'a> {
    types: &'a Types,
    describe: Describe<'a>,
    /// The document's group and version, of which types shared by all are kinds.
    group_version: (&'a str, &'a str),
    schemas: BTreeMap<String, Value>,
}

impl<'a> Components<'a> {
    pub(super) fn new(
        types: &'a Types,
        describe: Describe<'a>,
        group_version: (&'a str, &'a str),
    ) -> Self {
        Self {
            types,
            describe,
            group_version,
            schemas: BTreeMap::new(),
        }
    }

    /// Adds a schema of the caller's own making.
    pub(super) fn insert(&mut self, name: String, schema: Value) {
        self.require(&schema);
        self.schemas.insert(name, schema);
    }

    /// Adds every schema that a value refers to.
    pub(super) fn require(&mut self, value: &Value) {
        let mut wanted = Vec::new();
        collect(value, &mut wanted);
        while let Some(name) = wanted.pop() {
            if self.schemas.contains_key(&name) {
                continue;
            }
            if let Some(schema) = self.publish(&name) {
                collect(&schema, &mut wanted);
                self.schemas.insert(name, schema);
            }
        }
    }

    pub(super) fn finish(self) -> Value {
        Value::Object(self.schemas.into_iter().collect())
    }

    fn publish(&self, name: &str) -> Option<Value> {
        let mut schema = match special(name) {
            Some(schema) => schema,
            None => self.publish_type(name, self.types.named(name)?),
        };
        if let Some(text) = self.description(name, None) {
            schema.insert("description".to_owned(), json!(text));
        }
        Some(Value::Object(schema))
    }

    fn publish_type(&self, name: &str, schema: SchemaRef<'_>) -> Map<String, Value> {
        let mut published = Map::new();
        published.insert("type".to_owned(), json!("object"));
        let Some(object) = schema.object() else {
            return published;
        };
        let properties: Map<_, _> = object
            .fields()
            .iter()
            .map(|field| (field.name.to_string(), self.publish_field(name, field)))
            .collect();
        if !properties.is_empty() {
            published.insert("properties".to_owned(), Value::Object(properties));
        }
        let required: Vec<_> = object
            .declared()
            .filter(|field| field.required)
            .map(|field| field.name.as_ref())
            .collect();
        if !required.is_empty() {
            published.insert("required".to_owned(), json!(required));
        }
        if let Some(unions) = &object.unions {
            published.insert("x-kubernetes-unions".to_owned(), unions.clone());
        }
        if let Some(map_type) = schema.target().map_type {
            publish_map_type(map_type, &mut published);
        }
        if let Some(kinds) = self.kinds(schema) {
            published.insert("x-kubernetes-group-version-kind".to_owned(), kinds);
        }
        published
    }

    fn publish_field(&self, type_name: &str, field: &Field) -> Value {
        let mut published = Map::new();
        let schema = &field.schema;
        if let Some(text) = self.description(type_name, Some(&field.name)) {
            published.insert("description".to_owned(), json!(text));
        }
        if let Some(default) = schema.default.clone().or_else(|| shown_default(field)) {
            published.insert("default".to_owned(), default);
        }
        self.publish_shape(schema, &mut published);
        Value::Object(published)
    }

    /// Lists that nobody describes describe themselves; their `kind` and
    /// `apiVersion` are what every object's are.
    fn description(&self, type_name: &str, field: Option<&str>) -> Option<String> {
        if (self.describe)(type_name, None).is_some() {
            return (self.describe)(type_name, field);
        }
        (self.describe)(type_name, field).or_else(|| {
            let (_, name) = type_name.rsplit_once('.')?;
            let kind = name.strip_suffix("List").filter(|kind| !kind.is_empty())?;
            self.types.named(type_name.strip_suffix("List")?)?;
            sentences::list(kind, field)
                .or_else(|| (self.describe)("io.k8s.api.core.v1.ConfigMap", field))
        })
    }

    /// An item or a value: it has the zero value for default, as Go has it.
    fn publish_element(&self, schema: &Schema) -> Value {
        let mut published = Map::new();
        if let Some(default) = zero(&schema.shape) {
            published.insert("default".to_owned(), default);
        }
        self.publish_shape(schema, &mut published);
        Value::Object(published)
    }

    fn publish_shape(&self, schema: &Schema, published: &mut Map<String, Value>) {
        let (kind, format) = match &schema.shape {
            Shape::Boolean => ("boolean", None),
            Shape::Int32 => ("integer", Some("int32")),
            Shape::Int64 => ("integer", Some("int64")),
            Shape::Double => ("number", Some("double")),
            Shape::String => ("string", None),
            Shape::Bytes => ("string", Some("byte")),
            Shape::List(list) => {
                published.insert("items".to_owned(), self.publish_element(&list.items));
                publish_list_type(list.list_type.as_ref(), published);
                ("array", None)
            }
            Shape::Map(values) => {
                let values = self.publish_element(values);
                published.insert("additionalProperties".to_owned(), values);
                ("object", None)
            }
            Shape::Any => return,
            // Fields of built-in types never hold an object but by its name.
            Shape::Object(_) => ("object", None),
            Shape::Reference(id) => {
                publish_reference(&self.types.name(*id), schema, published);
                return;
            }
            Shape::Quantity
            | Shape::IntOrString
            | Shape::Time
            | Shape::MicroTime
            | Shape::Raw(_) => {
                publish_reference(&special_name(&schema.shape), schema, published);
                return;
            }
        };
        published.insert("type".to_owned(), json!(kind));
        if let Some(format) = format {
            published.insert("format".to_owned(), json!(format));
        }
        publish_attributes(schema, published);
    }

    /// The kinds that a type is: one, or for types that every group repeats the
    /// core one and the document's own.
    fn kinds(&self, schema: SchemaRef<'_>) -> Option<Value> {
        let id = schema.type_id()?;
        let (api_version, kind, _) = self.types.kinds().find(|(_, _, own)| *own == id)?;
        let one =
            |group: &str, version: &str| json!({"group": group, "version": version, "kind": kind});
        if api_version != "*" {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            return Some(json!([one(group, version)]));
        }
        Some(match self.group_version {
            ("", version) => json!([one("", version)]),
            (group, version) => json!([one("", "v1"), one(group, version)]),
        })
    }
}

/// A reference beside other facts hides in `allOf`, for OpenAPI 3.0 ignores
/// all other members beside `$ref`.
fn publish_reference(name: &str, schema: &Schema, published: &mut Map<String, Value>) {
    publish_attributes(schema, published);
    if published.is_empty() {
        published.extend(reference(name).as_object().cloned().unwrap_or_default());
    } else {
        published.insert("allOf".to_owned(), json!([reference(name)]));
    }
}

fn publish_attributes(schema: &Schema, published: &mut Map<String, Value>) {
    if !schema.allowed.is_empty() {
        published.insert("enum".to_owned(), json!(schema.allowed));
    }
    if let Some(map_type) = schema.map_type {
        publish_map_type(map_type, published);
    }
    let PatchRule {
        merge,
        retain_keys,
        replace,
        merge_key,
    } = &schema.patch;
    let strategies = [
        ("merge", *merge),
        ("retainKeys", *retain_keys),
        ("replace", *replace),
    ];
    let strategies: Vec<_> = strategies
        .iter()
        .filter(|(_, chosen)| *chosen)
        .map(|(name, _)| *name)
        .collect();
    if !strategies.is_empty() {
        let strategies = json!(strategies.join(","));
        published.insert("x-kubernetes-patch-strategy".to_owned(), strategies);
    }
    if let Some(key) = merge_key {
        published.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
    }
}

fn publish_map_type(map_type: MapType, published: &mut Map<String, Value>) {
    let word = match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    };
    published.insert("x-kubernetes-map-type".to_owned(), json!(word));
}

fn publish_list_type(list_type: Option<&ListType>, published: &mut Map<String, Value>) {
    let word = match list_type {
        None => return,
        Some(ListType::Atomic) => "atomic",
        Some(ListType::Set) => "set",
        Some(ListType::Map(keys)) => {
            published.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
            "map"
        }
    };
    published.insert("x-kubernetes-list-type".to_owned(), json!(word));
}

/// OpenAPI states the zero value as default of whatever Go always shows.
fn shown_default(field: &Field) -> Option<Value> {
    let shown = field.empty == Empty::Shown || matches!(field.schema.shape, Shape::Reference(_));
    zero(&field.schema.shape).filter(|_| shown && !field.pointer)
}

fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Boolean => Some(json!(false)),
        Shape::Int32 | Shape::Int64 | Shape::Double => Some(json!(0)),
        Shape::String => Some(json!("")),
        Shape::Reference(_) => Some(json!({})),
        _ => None,
    }
}

/// The name of a type that has a shape of its own in this model.
fn special_name(shape: &Shape) -> String {
    let (package, name) = match shape {
        Shape::Quantity => ("io.k8s.apimachinery.pkg.api.resource", "Quantity"),
        Shape::IntOrString => ("io.k8s.apimachinery.pkg.util.intstr", "IntOrString"),
        Shape::Time => (META, "Time"),
        Shape::MicroTime => (META, "MicroTime"),
        Shape::Raw(Raw::Fields) => (META, "FieldsV1"),
        Shape::Raw(Raw::Patch) => (META, "Patch"),
        Shape::Raw(Raw::Extension) => ("io.k8s.apimachinery.pkg.runtime", "RawExtension"),
        Shape::Raw(Raw::SchemaOrList) => (CRD, "JSONSchemaPropsOrArray"),
        Shape::Raw(Raw::SchemaOrBool) => (CRD, "JSONSchemaPropsOrBool"),
        Shape::Raw(Raw::SchemaOrStrings) => (CRD, "JSONSchemaPropsOrStringArray"),
        _ => (CRD, "JSON"),
    };
    format!("{package}.{name}")
}

/// What is published of such a type.
fn special(full_name: &str) -> Option<Map<String, Value>> {
    let (package, name) = full_name.rsplit_once('.')?;
    let schema = match (package, name) {
        ("io.k8s.apimachinery.pkg.api.resource", "Quantity") => {
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
        }
        ("io.k8s.apimachinery.pkg.util.intstr", "IntOrString") => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        (META, "Time" | "MicroTime") => json!({"type": "string", "format": "date-time"}),
        (META, "FieldsV1" | "Patch") | ("io.k8s.apimachinery.pkg.runtime", "RawExtension") => {
            json!({"type": "object"})
        }
        (
            CRD,
            "JSON"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrStringArray",
        ) => json!({}),
        _ => return None,
    };
    schema.as_object().cloned()
}

/// The names of all schemas that a value refers to.
pub(super) fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().filter(|_| key == "$ref") {
                    Some(path) => {
                        let name = path.strip_prefix("#/components/schemas/");
                        names.extend(name.map(str::to_owned));
                    }
                    None => collect(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}
