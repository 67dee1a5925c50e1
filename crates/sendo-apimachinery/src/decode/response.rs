//! What another program answers: an object in JSON or YAML.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/recognizer/recognizer.go`: `Decode`
//! - `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go`: `Decode`, `RecognizesData`

use super::{Body, DecodeError, FieldValidation, Format, Object};
use crate::GroupVersionKind;

/// Reads the body of a response, or says why it is no object.
///
/// The body is JSON if it begins with `{`, and YAML otherwise. It may have any size. What it does
/// not say of its kind and version is as expected; whether the rest of it is, is for the caller to
/// see. Null, and a body without content, is an object that says nothing.
pub fn read_response(body: &[u8], expected: &GroupVersionKind) -> Result<Object, DecodeError> {
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let body = Body {
        bytes: body,
        format: match is_json {
            true => Format::Json,
            false => Format::Yaml,
        },
        validation: FieldValidation::Ignore,
    };
    let (parsed, named) = body.parts().map_err(DecodeError)?;
    let decoded = parsed.untyped().map_err(DecodeError)?;
    Ok(Object {
        value: decoded.value,
        kind: named.or_expected(expected),
        warnings: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(body: &[u8]) -> Result<(Value, String), String> {
        let expected = GroupVersionKind {
            group: "g".to_owned(),
            version: "v1".to_owned(),
            kind: "Review".to_owned(),
        };
        let object = read_response(body, &expected).map_err(|error| error.to_string())?;
        let kind = format!("{} {}", object.kind.group_version(), object.kind.kind);
        Ok((object.value, kind))
    }

    #[test]
    fn json_and_yaml_are_read_and_need_not_say_their_kind() {
        let review = |value| Ok((value, "g/v1 Review".to_owned()));
        assert_eq!(read(b" {\"a\": 1}\n"), review(json!({"a": 1})));
        assert_eq!(read(b"a: [b]"), review(json!({"a": ["b"]})));
        assert_eq!(read(b"  \n"), review(Value::Null));
        let other = json!({"apiVersion": "x/v2", "kind": "Y"});
        let text = other.to_string();
        assert_eq!(read(text.as_bytes()), Ok((other, "x/v2 Y".to_owned())));
        let unnamed = json!({"apiVersion": "g/"});
        assert_eq!(read(b"{\"apiVersion\":\"g/\"}"), review(unnamed));
    }

    #[test]
    fn what_is_no_object_is_refused_in_the_words_of_go() {
        let target = r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let unread = "couldn't get version/kind; json parse error: ";
        let unmarshal =
            |found: &str| format!("{unread}json: cannot unmarshal {found} into {target}");
        let cases: [(&[u8], String); 9] = [
            (b"no JSON", unmarshal("string")),
            (b"<p>", unmarshal("string")),
            (b"12", unmarshal("number")),
            (b"[1]", unmarshal("array")),
            (
                b"{\"kind\":",
                format!("{unread}unexpected end of JSON input"),
            ),
            (
                b"{} x",
                format!("{unread}invalid character 'x' after top-level value"),
            ),
            (
                b"a: b: c",
                "yaml: mapping values are not allowed in this context".to_owned(),
            ),
            (
                b"\x1f\x8b\x08",
                "yaml: control characters are not allowed".to_owned(),
            ),
            (
                b"{\"apiVersion\":\"a/b/c\"}",
                "unexpected GroupVersion string: a/b/c".to_owned(),
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(read(body).unwrap_err(), expected, "{body:?}");
        }
    }
}
