//! The schema of a kind in a document of OpenAPI v3, with all that it refers to in its place.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/discovery.go`: `resolveSchema`
//! - `staging/src/k8s.io/apiserver/pkg/cel/openapi/resolver/refs.go`: `PopulateRefs`

use serde_json::{Map, Value, json};

use crate::group::GroupVersionKind;

const SCHEMAS: &str = "#/components/schemas/";

/// The schema of a kind; none if the document has none.
///
/// Where a type contains itself, an object without members stands for it.
pub fn resolve(document: &Value, kind: &GroupVersionKind) -> Option<Value> {
    let schemas = document["components"]["schemas"].as_object()?;
    let is_wanted = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|own| {
            own["group"] == *kind.group
                && own["version"] == *kind.version
                && own["kind"] == *kind.kind
        })
    };
    let (name, schema) = schemas.iter().find(|(_, schema)| is_wanted(schema))?;
    let mut visited = vec![name.as_str()];
    populate(schemas, schema, &mut visited)
}

fn populate<'d>(
    schemas: &'d Map<String, Value>,
    schema: &'d Value,
    visited: &mut Vec<&'d str>,
) -> Option<Value> {
    let Some(name) = reference(schema) else {
        return populate_parts(schemas, schema, visited);
    };
    if visited.contains(&name) {
        return Some(json!({"type": "object"}));
    }
    visited.push(name);
    let populated = populate_parts(schemas, schemas.get(name)?, visited);
    visited.pop();
    populated
}

fn populate_parts<'d>(
    schemas: &'d Map<String, Value>,
    schema: &'d Value,
    visited: &mut Vec<&'d str>,
) -> Option<Value> {
    let mut populated = Map::new();
    for (key, value) in schema.as_object()? {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let mut resolved = Map::new();
                for (name, property) in properties {
                    resolved.insert(name.clone(), populate(schemas, property, visited)?);
                }
                Value::Object(resolved)
            }
            ("additionalProperties" | "items", Value::Object(_)) => {
                populate(schemas, value, visited)?
            }
            _ => value.clone(),
        };
        populated.insert(key.clone(), value);
    }
    Some(Value::Object(populated))
}

/// What a schema refers to, by itself or, to have a description of its own, by `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.strip_prefix(SCHEMAS);
    }
    let parts = schema["allOf"].as_array()?;
    parts.iter().find_map(reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_circles_cut() {
        let document = json!({"components": {"schemas": {
            "dev.A": {
                "type": "object",
                "properties": {
                    "b": {"allOf": [{"$ref": "#/components/schemas/dev.B"}], "default": {}},
                    "list": {"type": "array", "items": {"$ref": "#/components/schemas/dev.B"}},
                },
                "x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "A"}],
            },
            "dev.B": {"type": "object", "properties": {
                "n": {"type": "integer"},
                "again": {"$ref": "#/components/schemas/dev.B"},
            }},
        }}});
        let b = json!({"type": "object", "properties": {
            "n": {"type": "integer"}, "again": {"type": "object"},
        }});
        let found = resolve(&document, &GroupVersionKind::new("g", "v1", "A")).unwrap();
        assert_eq!(found["properties"]["b"], b);
        assert_eq!(found["properties"]["list"]["items"], b);
        assert_eq!(
            resolve(&document, &GroupVersionKind::new("g", "v2", "A")),
            None
        );
    }
}
