//! OpenAPI v2 in protobuf: the messages that Go's OpenAPI library reads.
//!
//! What the messages have no field for goes as text: enum values, defaults and
//! everything that Kubernetes adds. Readers parse that text as YAML, of which
//! JSON is a part.

use serde_json::{Map, Value};

use crate::protobuf::Writer;

/// Writes a document of version 2.
pub fn version_two_binary(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    text(&mut out, 1, &document["swagger"]);
    out.message(2, |out| {
        text(out, 1, &document["info"]["title"]);
        text(out, 2, &document["info"]["version"]);
    });
    out.message(8, |out| named(out, 2, &document["paths"], path_item));
    out.message(9, |out| named(out, 1, &document["definitions"], schema));
    out.messages(12, &document["security"], |out, needed| {
        named(out, 1, needed, |out, scopes| texts(out, 1, scopes));
    });
    out.message(13, |out| {
        named(out, 1, &document["securityDefinitions"], |out, way| {
            out.message(2, |out| api_key(out, way));
        });
    });
    out.into_bytes()
}

fn api_key(out: &mut Writer, way: &Value) {
    text(out, 1, &way["type"]);
    text(out, 2, &way["name"]);
    text(out, 3, &way["in"]);
    text(out, 4, &way["description"]);
}

fn path_item(out: &mut Writer, item: &Value) {
    let methods = ["get", "put", "post", "delete", "options", "head", "patch"];
    for (number, method) in (2..).zip(methods) {
        if let Some(value) = item.get(method) {
            out.message(number, |out| operation(out, value));
        }
    }
    out.messages(9, &item["parameters"], parameter);
    extensions(out, 10, item);
}

fn operation(out: &mut Writer, operation: &Value) {
    texts(out, 1, &operation["tags"]);
    text(out, 3, &operation["description"]);
    text(out, 5, &operation["operationId"]);
    texts(out, 6, &operation["produces"]);
    texts(out, 7, &operation["consumes"]);
    out.messages(8, &operation["parameters"], parameter);
    out.message(9, |out| named(out, 1, &operation["responses"], response));
    texts(out, 10, &operation["schemes"]);
    extensions(out, 13, operation);
}

/// A response may be a reference too, and its schema a file's; these are neither.
fn response(out: &mut Writer, response: &Value) {
    out.message(1, |out| {
        text(out, 1, &response["description"]);
        if let Some(value) = response.get("schema") {
            out.message(2, |out| out.message(1, |out| schema(out, value)));
        }
    });
}

fn parameter(out: &mut Writer, parameter: &Value) {
    out.message(1, |out| match parameter["in"].as_str() {
        Some("body") => out.message(1, |out| {
            text(out, 1, &parameter["description"]);
            text(out, 2, &parameter["name"]);
            text(out, 3, &parameter["in"]);
            flag(out, 4, &parameter["required"]);
            out.message(5, |out| schema(out, &parameter["schema"]));
        }),
        place => out.message(2, |out| {
            // A query's message has one field more, which moves those after it.
            let (number, shift) = match place {
                Some("path") => (4, 0),
                _ => (3, 1),
            };
            out.message(number, |out| {
                flag(out, 1, &parameter["required"]);
                text(out, 2, &parameter["in"]);
                text(out, 3, &parameter["description"]);
                text(out, 4, &parameter["name"]);
                text(out, 5 + shift, &parameter["type"]);
                text(out, 6 + shift, &parameter["format"]);
                flag(out, 19 + shift, &parameter["uniqueItems"]);
            });
        }),
    });
}

fn schema(out: &mut Writer, schema: &Value) {
    text(out, 1, &schema["$ref"]);
    text(out, 2, &schema["format"]);
    text(out, 3, &schema["title"]);
    text(out, 4, &schema["description"]);
    if let Some(value) = schema.get("default") {
        out.message(5, |out| any(out, value));
    }
    for (at, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        match schema[name].as_f64() {
            Some(number) if number != 0.0 => out.fixed64(at, number.to_bits()),
            _ => {}
        }
    }
    flag(out, 8, &schema["exclusiveMaximum"]);
    flag(out, 10, &schema["exclusiveMinimum"]);
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (at, name) in counts {
        match schema[name].as_u64() {
            Some(count) if count != 0 => out.varint(at, count),
            _ => {}
        }
    }
    text(out, 13, &schema["pattern"]);
    flag(out, 16, &schema["uniqueItems"]);
    texts(out, 19, &schema["required"]);
    out.messages(20, &schema["enum"], any);
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            out.message(21, |out| out.varint(2, u64::from(*allowed)));
        }
        Some(of) => out.message(21, |out| out.message(1, |out| self::schema(out, of))),
        None => {}
    }
    if schema["type"].is_string() {
        out.message(22, |out| text(out, 1, &schema["type"]));
    }
    if let Some(of) = schema.get("items") {
        out.message(23, |out| out.message(1, |out| self::schema(out, of)));
    }
    out.messages(24, &schema["allOf"], self::schema);
    if let Some(properties) = schema.get("properties") {
        out.message(25, |out| named(out, 1, properties, self::schema));
    }
    extensions(out, 31, schema);
}

/// A map is a list of pairs.
fn named(out: &mut Writer, number: u32, map: &Value, write: fn(&mut Writer, &Value)) {
    for (name, value) in map.as_object().into_iter().flatten() {
        out.message(number, |out| {
            out.bytes(1, name.as_bytes());
            out.message(2, |out| write(out, value));
        });
    }
}

/// What Kubernetes adds to OpenAPI.
fn extensions(out: &mut Writer, number: u32, value: &Value) {
    let own = value.as_object().into_iter().flatten();
    let own = own.filter(|(name, _)| name.starts_with("x-"));
    let own: Map<String, Value> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
    named(out, number, &Value::Object(own), any);
}

fn any(out: &mut Writer, value: &Value) {
    out.bytes(2, value.to_string().as_bytes());
}

/// An empty text is no text.
fn text(out: &mut Writer, number: u32, value: &Value) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        out.bytes(number, text.as_bytes());
    }
}

fn texts(out: &mut Writer, number: u32, list: &Value) {
    each_text(list).for_each(|text| out.bytes(number, text.as_bytes()));
}

fn each_text(list: &Value) -> impl Iterator<Item = &str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str)
}

fn flag(out: &mut Writer, number: u32, value: &Value) {
    if value == &Value::Bool(true) {
        out.varint(number, 1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The bytes at a way of field numbers through a message, first of each.
    fn at<'b>(bytes: &'b [u8], way: &[u32]) -> Option<&'b [u8]> {
        let Some((first, rest)) = way.split_first() else {
            return Some(bytes);
        };
        let mut reader = crate::protobuf::Reader::new(bytes);
        while let Some((number, content)) = reader.field().unwrap() {
            if let (true, crate::protobuf::Content::Bytes(inner)) = (number == *first, content) {
                return at(inner, rest);
            }
        }
        None
    }

    #[test]
    fn a_definition_is_found_by_its_name_with_what_kubernetes_adds() {
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1"},
            "definitions": {"io.example.Boat": {
                "type": "object",
                "properties": {"size": {"type": "string", "enum": ["small", "big"]}},
                "x-kubernetes-group-version-kind": [{"kind": "Boat"}],
            }},
        });
        let bytes = version_two_binary(&document);
        assert_eq!(at(&bytes, &[1]), Some(&b"2.0"[..]));
        assert_eq!(at(&bytes, &[9, 1, 1]), Some(&b"io.example.Boat"[..]));
        let boat = at(&bytes, &[9, 1, 2]).unwrap();
        assert_eq!(at(boat, &[22, 1]), Some(&b"object"[..]));
        assert_eq!(at(boat, &[25, 1, 2, 20, 2]), Some(&b"\"small\""[..]));
        assert_eq!(at(boat, &[31, 2, 2]), Some(&b"[{\"kind\":\"Boat\"}]"[..]));
    }

    #[test]
    fn parameters_lie_where_their_place_says() {
        let name = |place: &str| json!({"in": place, "name": "x", "type": "string"});
        let item = json!({"parameters": [name("path")], "get": {"parameters": [name("query")]}});
        let bytes = version_two_binary(&json!({"paths": {"/x": item}}));
        let item = at(&bytes, &[8, 2, 2]).unwrap();
        assert_eq!(at(item, &[9, 1, 2, 4, 5]), Some(&b"string"[..]));
        assert_eq!(at(item, &[2, 8, 1, 2, 3, 6]), Some(&b"string"[..]));
    }
}
