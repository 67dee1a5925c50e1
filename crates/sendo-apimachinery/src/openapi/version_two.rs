//! OpenAPI v2: one document of everything that is served, made of those of v3.

use serde_json::{Map, Value, json};

/// Makes one document of version 2 of documents of version 3.
///
/// What version 2 cannot say is left out: defaults, alternatives, whether
/// null is a value.
pub fn version_two(documents: impl IntoIterator<Item = Value>, version: &str) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for document in documents {
        for (path, item) in members(&document["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, definition) in members(&document["components"]["schemas"]) {
            match definitions.get_mut(name) {
                None => {
                    definitions.insert(name.clone(), schema(definition));
                }
                Some(known) => join_kinds(known, definition),
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {
            "description": "Bearer Token authentication",
            "type": "apiKey",
            "name": "authorization",
            "in": "header",
        }},
        "security": [{"BearerToken": []}],
    })
}

const KIND: &str = "x-kubernetes-group-version-kind";

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Types that every group repeats are kinds of all of them.
fn join_kinds(known: &mut Value, other: &Value) {
    let Some(kinds) = known.get_mut(KIND).and_then(Value::as_array_mut) else {
        return;
    };
    for kind in other[KIND].as_array().into_iter().flatten() {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
}

fn path_item(item: &Value) -> Value {
    let mut converted = Map::new();
    for (name, value) in members(item) {
        let value = match name.as_str() {
            "parameters" => value
                .as_array()
                .into_iter()
                .flatten()
                .map(parameter)
                .collect(),
            _ => operation(value),
        };
        converted.insert(name.clone(), value);
    }
    Value::Object(converted)
}

fn operation(operation: &Value) -> Value {
    let mut converted = Map::new();
    for (name, value) in members(operation) {
        if !["parameters", "requestBody", "responses"].contains(&name.as_str()) {
            converted.insert(name.clone(), value.clone());
        }
    }
    let mut parameters: Vec<Value> = Vec::new();
    let body = &operation["requestBody"];
    let consumes = match body["content"].as_object() {
        Some(content) => {
            let mut sent = Map::new();
            sent.insert("name".to_owned(), json!("body"));
            sent.insert("in".to_owned(), json!("body"));
            if body["required"] == true {
                sent.insert("required".to_owned(), json!(true));
            }
            let of_first = content
                .values()
                .next()
                .map(|media| schema(&media["schema"]));
            sent.extend(of_first.map(|schema| ("schema".to_owned(), schema)));
            parameters.push(Value::Object(sent));
            content.keys().cloned().collect()
        }
        None => vec!["*/*".to_owned()],
    };
    parameters.extend(
        operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(parameter),
    );
    if !parameters.is_empty() {
        converted.insert("parameters".to_owned(), json!(parameters));
    }
    let mut produces: Vec<String> = Vec::new();
    let mut responses = Map::new();
    for (code, response) in members(&operation["responses"]) {
        let mut answer = Map::new();
        answer.insert("description".to_owned(), response["description"].clone());
        for (media_type, content) in members(&response["content"]) {
            if !produces.contains(media_type) {
                produces.push(media_type.clone());
            }
            answer.insert("schema".to_owned(), schema(&content["schema"]));
        }
        responses.insert(code.clone(), Value::Object(answer));
    }
    converted.insert("consumes".to_owned(), json!(consumes));
    converted.insert("produces".to_owned(), json!(produces));
    converted.insert("responses".to_owned(), Value::Object(responses));
    converted.insert("schemes".to_owned(), json!(["https"]));
    Value::Object(converted)
}

/// The members of a parameter's schema, which are beside its name.
fn parameter(parameter: &Value) -> Value {
    let mut converted = parameter.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(schema)) = converted.remove("schema") {
        converted.extend(schema);
    }
    Value::Object(converted)
}

fn schema(value: &Value) -> Value {
    let Some(said) = value.as_object() else {
        return value.clone();
    };
    if said.contains_key(KIND) && is_set(said, PRESERVES) {
        // Any property, even those of every object, would make kubectl refuse all others.
        return json!({"type": "object", KIND: said[KIND]});
    }
    let mut converted = Map::new();
    for (name, value) in said {
        let value = match (name.as_str(), value) {
            ("default" | "nullable" | "oneOf" | "anyOf" | "not", _) => continue,
            ("$ref", Value::String(path)) => {
                json!(path.replace("#/components/schemas/", "#/definitions/"))
            }
            // A reference that hides behind other facts needs not hide here.
            ("allOf", Value::Array(all)) => {
                if let [Value::Object(one)] = all.as_slice()
                    && one.contains_key("$ref")
                {
                    let one = schema(&Value::Object(one.clone()));
                    converted.extend(members(&one).map(|(k, v)| (k.clone(), v.clone())));
                }
                continue;
            }
            ("properties", Value::Object(properties)) => {
                let property = |(name, value): (&String, &Value)| (name.clone(), schema(value));
                Value::Object(properties.iter().map(property).collect())
            }
            ("items" | "additionalProperties", value) => schema(value),
            (_, value) => value.clone(),
        };
        converted.insert(name.clone(), value);
    }
    leave_out_what_clients_misread(said, &mut converted);
    // Amounts, and numbers that may be names, are text to those who read this version.
    if said.contains_key("oneOf") && !converted.contains_key("type") {
        converted.insert("type".to_owned(), json!("string"));
    }
    Value::Object(converted)
}

const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";

fn is_set(schema: &Map<String, Value>, flag: &str) -> bool {
    schema.get(flag) == Some(&Value::Bool(true))
}

/// Leaves out of a custom resource's schema what kubectl cannot cope with. The rules are those of
/// `ToStructuralOpenAPIV2` in k8s.io/apiextensions-apiserver (pkg/controller/openapi/v2/conversion.go).
fn leave_out_what_clients_misread(said: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let (is_nullable, preserves) = (is_set(said, "nullable"), is_set(said, PRESERVES));
    if is_nullable || preserves {
        converted.remove("items");
        converted.remove("properties");
    }
    let kind = said.get("type").and_then(Value::as_str);
    let has_no_type = match kind {
        Some("array") => !converted.contains_key("items"),
        Some("object") => preserves,
        _ => false,
    };
    if is_nullable || has_no_type {
        converted.remove("type");
    }
    let nullable = |schema: &Value| {
        schema
            .as_object()
            .is_some_and(|own| is_set(own, "nullable"))
    };
    let is_needless = |name: &Value| {
        let property = name
            .as_str()
            .and_then(|name| said.get("properties")?.get(name));
        converted.contains_key("properties") && property.is_some_and(nullable)
    };
    let required = said.get("required").and_then(Value::as_array);
    let mut required: Vec<Value> = required.cloned().unwrap_or_default();
    required.retain(|name| !is_needless(name));
    if said.get("additionalProperties").is_some_and(nullable) {
        required.clear();
    }
    match required.is_empty() {
        true => drop(converted.remove("required")),
        false => drop(converted.insert("required".to_owned(), required.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of version 2 that a custom resource of such a schema has.
    fn of_custom(schema: Value) -> Value {
        let mut published = schema;
        published[KIND] = json!([{"group": "g", "version": "v1", "kind": "K"}]);
        let document = json!({"paths": {}, "components": {"schemas": {"K": published}}});
        let mut found = version_two([document], "v1")["definitions"]["K"].take();
        found.as_object_mut().unwrap().remove(KIND);
        found
    }

    #[test]
    fn a_custom_resource_of_unknown_fields_is_any_object() {
        let schema = json!({
            "type": "object", "description": "gone too", PRESERVES: true,
            "properties": {"apiVersion": {"type": "string"}, "spec": {"type": "object"}},
        });
        assert_eq!(of_custom(schema), json!({"type": "object"}));
    }

    #[test]
    fn what_clients_misread_inside_of_a_custom_resource_is_left_out() {
        let cases = [
            (
                json!({"type": "object", PRESERVES: true, "properties": {"a": {"type": "string"}}}),
                json!({PRESERVES: true}),
            ),
            (
                json!({"type": "string", PRESERVES: true}),
                json!({"type": "string", PRESERVES: true}),
            ),
            (
                json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}}),
                json!({}),
            ),
            (
                json!({"type": "array", "nullable": true, "items": {"type": "string"}}),
                json!({}),
            ),
            (
                json!({"type": "array", PRESERVES: true, "items": {"type": "string"}}),
                json!({PRESERVES: true}),
            ),
            (json!({"type": "array"}), json!({})),
            (
                json!({"type": "array", "items": {"type": "object", PRESERVES: true}}),
                json!({"type": "array", "items": {PRESERVES: true}}),
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "object", PRESERVES: true}}),
                json!({"type": "object", "additionalProperties": {PRESERVES: true}}),
            ),
            (
                json!({"type": "object", "required": ["a", "b"], "properties": {
                    "a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
                json!({"type": "object", "required": ["b"], "properties": {
                    "a": {}, "b": {"type": "string"}}}),
            ),
            (
                json!({"type": "object", "required": ["a"], "properties": {
                    "a": {"type": "string", "nullable": true}}}),
                json!({"type": "object", "properties": {"a": {}}}),
            ),
            (
                json!({"type": "object", "required": ["a"],
                    "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {}}),
            ),
            (
                json!({"type": "integer", "allOf": [{"minimum": 3}], "not": {"maximum": 5}}),
                json!({"type": "integer"}),
            ),
        ];
        for (schema, expected) in cases {
            let around = |inner: &Value| json!({"type": "object", "properties": {"spec": inner}});
            assert_eq!(of_custom(around(&schema)), around(&expected), "{schema}");
        }
    }
    use crate::openapi::Publisher;
    use crate::resources::Resources;
    use crate::schema::Types;

    fn document() -> Value {
        let (types, resources) = (Types::builtin(), Resources::builtin());
        let publisher = Publisher {
            types: &types,
            resources: &resources,
            describe: &|_, _| None,
        };
        let documents = ["api/v1", "apis/apps/v1"].map(|path| publisher.document(path).unwrap());
        version_two(documents, "v1")
    }

    #[test]
    fn what_refers_to_a_type_refers_to_one_that_is_there() {
        fn check(value: &Value, definitions: &Map<String, Value>) {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(path)) = map.get("$ref") {
                        let name = path.strip_prefix("#/definitions/").expect("a definition");
                        assert!(definitions.contains_key(name), "{name}");
                    }
                    map.values().for_each(|value| check(value, definitions));
                }
                Value::Array(items) => items.iter().for_each(|item| check(item, definitions)),
                _ => {}
            }
        }
        let document = document();
        check(&document, document["definitions"].as_object().unwrap());
    }

    #[test]
    fn bodies_and_answers_are_parameters_and_media_types() {
        let document = document();
        let path = "/apis/apps/v1/namespaces/{namespace}/deployments";
        let post = &document["paths"][path]["post"];
        assert_eq!(post["parameters"][0]["in"], "body");
        assert_eq!(
            post["parameters"][0]["schema"]["$ref"],
            "#/definitions/io.k8s.api.apps.v1.Deployment"
        );
        assert_eq!(post["parameters"][1]["type"], "string");
        assert!(post["responses"]["201"]["schema"]["$ref"].is_string());
        let get = &document["paths"][path]["get"];
        assert_eq!(get["consumes"], json!(["*/*"]));
    }

    #[test]
    fn quantities_are_text() {
        let document = document();
        let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
        assert_eq!(document["definitions"][quantity]["type"], "string");
    }
}
