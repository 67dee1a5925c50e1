//! Documents of custom resources.

use serde_json::{Map, Value, json};

use super::components::Components;
use super::names::Names;
use super::operation::reference;
use super::paths::{Origin, Served};
use super::{Describe, META, document};
use crate::resources::Resource;
use crate::schema::Types;

/// A served version of a custom resource.
pub struct CustomResource<'a> {
    /// How it is served.
    pub resource: &'a Resource,
    /// The kind of a list of its objects.
    pub list_kind: &'a str,
    /// The schema that its definition gives, which is published as it is with
    /// `apiVersion`, `kind` and `metadata` added.
    pub schema: &'a Value,
}

/// The document of a group version of custom resources, which must all be of it.
pub fn custom_document(
    types: &Types,
    describe: Describe<'_>,
    group: &str,
    version: &str,
    resources: &[CustomResource<'_>],
) -> Value {
    let names = Names::of_version(group, version);
    let mut paths = Map::new();
    let mut components = Components::new(types, describe, (group, version));
    for custom in resources {
        let kind = &custom.resource.kind;
        let object = schema_name(group, version, kind);
        let list = schema_name(group, version, custom.list_kind);
        let served = Served {
            resource: custom.resource,
            object: object.clone(),
            list: list.clone(),
            origin: Origin::Definition,
            types,
        };
        for (path, item) in served.paths(&names) {
            paths.insert(path, item.render(describe));
        }
        let list_schema = published_list(custom, &object, describe);
        components.insert(object, published(custom, describe));
        components.insert(list, list_schema);
    }
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    document(info, paths, components)
}

/// `Widget` of `stable.example.com` is `com.example.stable.v1.Widget`.
fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let mut labels: Vec<_> = group.split('.').rev().collect();
    labels.extend([version, kind]);
    labels.join(".")
}

fn published(custom: &CustomResource<'_>, describe: Describe<'_>) -> Value {
    let mut schema = custom.schema.clone();
    if !schema.is_object() {
        schema = json!({});
    }
    add_alternatives(&mut schema);
    add_to_embedded(&mut schema, describe);
    schema["type"] = json!("object");
    schema[KIND] = json!([group_version_kind(custom.resource, &custom.resource.kind)]);
    add_object_fields(&mut schema, describe);
    schema
}

/// A number or a text is published as the two that it may be.
fn add_alternatives(schema: &mut Value) {
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(key) {
            add_alternatives(schema);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|map| map.values_mut()) {
        add_alternatives(property);
    }
    let either = schema.get("x-kubernetes-int-or-string") == Some(&json!(true));
    if either && schema.get("anyOf").is_none() {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
}

/// Whole objects inside others have the fields of objects too, and need them.
fn add_to_embedded(schema: &mut Value, describe: Describe<'_>) {
    let below = ["items", "additionalProperties"];
    for key in below {
        if let Some(schema) = schema.get_mut(key) {
            add_to_embedded(schema, describe);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|map| map.values_mut()) {
        add_to_embedded(property, describe);
    }
    if schema.get("x-kubernetes-embedded-resource") != Some(&json!(true)) {
        return;
    }
    add_object_fields(schema, describe);
    let required = schema.get_mut("required").and_then(Value::as_array_mut);
    let mut required = required.map(std::mem::take).unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|own| own == name) {
            required.push(json!(name));
        }
    }
    schema["required"] = json!(required);
}

fn add_object_fields(schema: &mut Value, describe: Describe<'_>) {
    let own = schema.get_mut("properties").and_then(Value::as_object_mut);
    let mut properties = own.map(std::mem::take).unwrap_or_default();
    properties.extend(type_meta(describe));
    properties.insert("metadata".to_owned(), object_meta(describe));
    schema["properties"] = Value::Object(properties);
}

/// The link to the documentation of lists.
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

const KIND: &str = "x-kubernetes-group-version-kind";

fn published_list(custom: &CustomResource<'_>, object: &str, describe: Describe<'_>) -> Value {
    let mut properties = type_meta(describe);
    let metadata = json!({
        "allOf": [reference(&format!("{META}.ListMeta"))],
        "description": format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
    });
    properties.insert("metadata".to_owned(), metadata);
    let items = json!({
        "type": "array",
        "items": reference(object),
        "description": format!("List of {}. More info: {CONVENTIONS}", custom.resource.plural),
    });
    properties.insert("items".to_owned(), items);
    json!({
        "description": format!("{} is a list of {}", custom.list_kind, custom.resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": properties,
        KIND: [group_version_kind(custom.resource, custom.list_kind)],
    })
}

/// Fields that every object has are described alike; those of any kind do.
fn type_meta(describe: Describe<'_>) -> Map<String, Value> {
    let field = |name: &str| {
        let mut field = json!({"type": "string"});
        if let Some(text) = describe("io.k8s.api.core.v1.ConfigMap", Some(name)) {
            field["description"] = json!(text);
        }
        (name.to_owned(), field)
    };
    Map::from_iter([field("apiVersion"), field("kind")])
}

fn object_meta(describe: Describe<'_>) -> Value {
    let target = reference(&format!("{META}.ObjectMeta"));
    match describe("io.k8s.api.core.v1.ConfigMap", Some("metadata")) {
        Some(text) => json!({"allOf": [target], "description": text}),
        None => target,
    }
}

fn group_version_kind(resource: &Resource, kind: &str) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": kind})
}
