//! Errors about single fields of an object, and the paths that name the fields.
//!
//! Validation collects every [`Error`] it finds; [`Status::invalid`](crate::Status::invalid)
//! makes the answer of them.

mod text;

use std::fmt;

use serde_json::Value;

use self::text::PathText;
use crate::go_text::{go_float, go_json, go_quote};

/// One fault of one field.
///
/// Displays as `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong, in one word.
    pub kind: ErrorKind,
    /// The path of the field, as text.
    pub field: String,
    /// The value at fault, where the text shows one.
    pub bad_value: BadValue,
    /// What would be right; may be empty.
    pub detail: String,
}

/// The classes of field errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The value names something that is not there.
    NotFound,
    /// A value is missing.
    Required,
    /// A value occurs twice.
    Duplicate,
    /// A value does not fit.
    Invalid,
    /// A value is none of the known ones.
    NotSupported,
    /// A value is right in form, but not allowed here.
    Forbidden,
    /// A value has too many bytes or characters.
    TooLong,
    /// A value has too few bytes or characters.
    TooShort,
    /// A list has too many items.
    TooMany,
    /// A list has too few items.
    TooFew,
    /// The server failed while it looked at the value.
    Internal,
    /// A value is of the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// The word for it in `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required
                | ErrorKind::Forbidden
                | ErrorKind::TooLong
                | ErrorKind::TooShort
                | ErrorKind::Internal
        )
    }
}

/// The value an error shows.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// None is shown.
    Omitted,
    /// A JSON value: strings are quoted, the rest is written as Go's JSON.
    Value(Value),
    /// Text shown unchanged, for values whose Go form JSON cannot give
    /// (a struct's members in the order of its declaration).
    Raw(String),
}

impl<T: Into<Value>> From<T> for BadValue {
    fn from(value: T) -> Self {
        BadValue::Value(value.into())
    }
}

impl Error {
    /// `path: Not found: value`.
    pub fn not_found(path: &Path, value: impl Into<BadValue>) -> Self {
        Error::new(ErrorKind::NotFound, path, value, "")
    }

    /// `path: Required value`, with `: detail` where there is one.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Error::new(ErrorKind::Required, path, BadValue::Omitted, detail)
    }

    /// `path: Duplicate value: value`.
    pub fn duplicate(path: &Path, value: impl Into<BadValue>) -> Self {
        Error::new(ErrorKind::Duplicate, path, value, "")
    }

    /// `path: Invalid value: value: detail`.
    pub fn invalid(path: &Path, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, path, value, detail)
    }

    /// `path: Invalid value: value: detail`, different from [`Error::invalid`] in its reason.
    pub fn type_invalid(
        path: &Path,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Error::new(ErrorKind::TypeInvalid, path, value, detail)
    }

    /// `path: Unsupported value: value: supported values: "A", "B"`, in the order given.
    pub fn not_supported<S: AsRef<str>>(
        path: &Path,
        value: impl Into<BadValue>,
        supported: &[S],
    ) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|s| go_quote(s.as_ref())).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Error::new(ErrorKind::NotSupported, path, value, detail)
    }

    /// `path: Forbidden: detail`.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Error::new(ErrorKind::Forbidden, path, BadValue::Omitted, detail)
    }

    /// `path: Too long: may not be more than N bytes`.
    pub fn too_long(path: &Path, max_bytes: usize) -> Self {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max_bytes} {unit}");
        Error::new(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// `path: Too long: may not be more than N characters`.
    pub fn too_long_characters(path: &Path, max_characters: usize) -> Self {
        let unit = if max_characters == 1 {
            "character"
        } else {
            "characters"
        };
        let detail = format!("may not be more than {max_characters} {unit}");
        Error::new(ErrorKind::TooLong, path, BadValue::Omitted, detail)
    }

    /// `path: Too short: must be at least N characters`.
    pub fn too_short(path: &Path, min_characters: usize) -> Self {
        let unit = if min_characters == 1 {
            "character"
        } else {
            "characters"
        };
        let detail = format!("must be at least {min_characters} {unit}");
        Error::new(ErrorKind::TooShort, path, BadValue::Omitted, detail)
    }

    /// `path: Too many: N: must have at most M items`.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Error::new(
            ErrorKind::TooMany,
            path,
            actual,
            format!("must have at most {max} {unit}"),
        )
    }

    /// `path: Too few: N: must have at least M items`.
    pub fn too_few(path: &Path, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        Error::new(
            ErrorKind::TooFew,
            path,
            actual,
            format!("must have at least {min} {unit}"),
        )
    }

    /// `path: Internal error: detail`.
    pub fn internal(path: &Path, detail: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, path, BadValue::Omitted, detail)
    }

    /// The general form of all the above.
    pub fn new(
        kind: ErrorKind,
        path: &Path,
        bad_value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Error {
            kind,
            field: path.to_string(),
            bad_value: bad_value.into(),
            detail: detail.into(),
        }
    }

    /// The text without the field's path: what `details.causes[].message` holds.
    pub fn body(&self) -> String {
        let mut text = self.kind.title().to_owned();
        if self.kind.shows_value() {
            match &self.bad_value {
                BadValue::Omitted => {}
                BadValue::Raw(raw) => {
                    text.push_str(": ");
                    text.push_str(raw);
                }
                BadValue::Value(value) => {
                    text.push_str(": ");
                    text.push_str(&value_text(value));
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(s) => go_quote(s),
        Value::Number(n) if n.is_f64() => go_float(n.as_f64().expect("a float is a float")),
        other => go_json(other),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

/// The path of a field from an object's root: `spec.containers[0].env[NAME]`.
///
/// A path is a value; [`Path::child`], [`Path::index`] and [`Path::key`] make
/// longer ones of it and leave it as it is.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    text: Option<PathText>,
}

impl Path {
    /// The path of the object as a whole. Displays as `<nil>`.
    pub fn root() -> Self {
        Path { text: None }
    }

    /// A member of the object. An empty name displays as `[]`.
    pub fn new(name: &str) -> Self {
        Path::root().child(name)
    }

    /// A member of the object at this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        match (&self.text, name) {
            (_, "") => self.with(&["[]"]),
            (None, name) => self.with(&[name]),
            (Some(text), name) => {
                let mut text = text.clone();
                text.push_byte(b'.');
                text.push(name);
                Path { text: Some(text) }
            }
        }
    }

    /// An item of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        match u8::try_from(index) {
            Ok(digit @ 0..=9) => {
                let mut text = self.text.clone().unwrap_or_default();
                [b'[', b'0' + digit, b']']
                    .into_iter()
                    .for_each(|byte| text.push_byte(byte));
                Path { text: Some(text) }
            }
            _ => self.bracketed(&index.to_string()),
        }
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.bracketed(key)
    }

    fn bracketed(&self, inner: &str) -> Self {
        self.with(&["[", inner, "]"])
    }

    fn with(&self, step: &[&str]) -> Self {
        let mut text = self.text.clone().unwrap_or_default();
        step.iter().for_each(|part| text.push(part));
        Path { text: Some(text) }
    }

    /// Whether this is the object as a whole.
    pub fn is_root(&self) -> bool {
        self.text.is_none()
    }

    fn as_str(&self) -> &str {
        self.text.as_ref().map_or("<nil>", PathText::as_str)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Path").field(&self.as_str()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_name_members_items_and_keys() {
        let spec = Path::new("spec");
        assert_eq!(
            spec.child("containers").index(0).child("name").to_string(),
            "spec.containers[0].name"
        );
        assert_eq!(spec.child("m").key("a/b").to_string(), "spec.m[a/b]");
        assert_eq!(Path::root().to_string(), "<nil>");
        assert_eq!(Path::root().child("x").to_string(), "x");
        assert_eq!(Path::root().index(2).to_string(), "[2]");
        assert_eq!(Path::new("").to_string(), "[]");
    }

    #[test]
    fn errors_read_as_in_kubernetes() {
        let p = Path::new("spec").child("x");
        let cases = [
            (Error::required(&p, ""), "spec.x: Required value"),
            (
                Error::required(&p, "give one"),
                "spec.x: Required value: give one",
            ),
            (
                Error::invalid(&p, "A\"", "must be b"),
                "spec.x: Invalid value: \"A\\\"\": must be b",
            ),
            (
                Error::invalid(&p, -1, "too low"),
                "spec.x: Invalid value: -1: too low",
            ),
            (
                Error::invalid(&p, 1e6, "too high"),
                "spec.x: Invalid value: 1e+06: too high",
            ),
            (
                Error::invalid(&p, Value::Null, "no"),
                "spec.x: Invalid value: null: no",
            ),
            (
                Error::invalid(&p, json!({"a": "<"}), "no"),
                "spec.x: Invalid value: {\"a\":\"\\u003c\"}: no",
            ),
            (
                Error::invalid(&p, BadValue::Raw("{B}".into()), "no"),
                "spec.x: Invalid value: {B}: no",
            ),
            (
                Error::invalid(&p, BadValue::Omitted, "no"),
                "spec.x: Invalid value: no",
            ),
            (
                Error::not_supported(&p, "Z", &["B", "A"]),
                "spec.x: Unsupported value: \"Z\": supported values: \"B\", \"A\"",
            ),
            (
                Error::not_supported::<&str>(&p, "Z", &[]),
                "spec.x: Unsupported value: \"Z\"",
            ),
            (
                Error::forbidden(&p, "not here"),
                "spec.x: Forbidden: not here",
            ),
            (Error::duplicate(&p, "a"), "spec.x: Duplicate value: \"a\""),
            (Error::not_found(&p, "a"), "spec.x: Not found: \"a\""),
            (
                Error::too_long(&p, 63),
                "spec.x: Too long: may not be more than 63 bytes",
            ),
            (
                Error::too_long(&p, 1),
                "spec.x: Too long: may not be more than 1 byte",
            ),
            (
                Error::too_many(&p, 5, 4),
                "spec.x: Too many: 5: must have at most 4 items",
            ),
            (
                Error::too_few(&p, 0, 1),
                "spec.x: Too few: 0: must have at least 1 item",
            ),
            (Error::internal(&p, "oh"), "spec.x: Internal error: oh"),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }
}
