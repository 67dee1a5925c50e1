//! The body of a request: its format, its kind and its object.

use serde_json::Value;

use super::document::{Document, Numbers, ValueView};
use super::{Decoded, FieldValidation, json, older, typed, untyped, yaml};
use crate::go_text::go_quote;
use crate::schema::{SchemaRef, Types};
use crate::{GroupVersion, GroupVersionKind, Status};

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// The body of a request that creates or replaces an object.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// How they are written.
    pub format: Format,
    /// What happens to fields that are unknown or there twice.
    pub validation: FieldValidation,
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The object, with the `apiVersion` and `kind` it was sent with, if any.
    pub value: Value,
    /// The kind it was read as.
    pub kind: GroupVersionKind,
    /// What the client is to be warned of.
    pub warnings: Vec<String>,
}

impl Body<'_> {
    /// Reads an object of a built-in kind.
    ///
    /// A body that names no kind or version has the expected ones. One that
    /// names others is refused, as is one that has a value of a wrong type.
    pub fn built_in(&self, expected: &GroupVersionKind, types: &Types) -> Result<Object, Status> {
        let (parsed, named) = self.parse(expected)?;
        let kind = named.or_expected(expected);
        let refuse = |error: &str| cannot_be_handled(&kind, expected, error);
        let version = kind.group_version().to_string();
        let read_as = older::read_as(&version, &kind.kind);
        let wanted = expected.group_version().to_string();
        let Some(schema) = types.kind(read_as, &kind.kind) else {
            if kind.kind == expected.kind && older::is_older(&version, &kind.kind) {
                return Err(other_version(&version, &wanted));
            }
            // A list of anything is known, and nothing can be made of it.
            return Err(refuse(&match (&*version, &*kind.kind) {
                ("v1", "List") => no_conversion(&kind, expected),
                _ => unregistered(&version, &kind.kind),
            }));
        };
        let decoded = parsed.typed(schema).map_err(|e| refuse(&e))?;
        // Events of both their groups are one thing within.
        let is_same = kind.kind == "Event" || kind.group == expected.group;
        if kind.kind != expected.kind || !is_same {
            return Err(refuse(&no_conversion(&kind, expected)));
        }
        let is_wanted = read_as == wanted;
        let object = self.validate_fields(decoded, kind, expected)?;
        match is_wanted {
            true => Ok(object),
            false => Err(other_version(&version, &wanted)),
        }
    }

    /// Reads an object of a custom kind, as it is; `admit` brings it into
    /// the form of its kind and returns the paths of what was unknown and went, or
    /// why it cannot.
    ///
    /// The kind must be named, but need not be the expected one: that is for
    /// validation to say. The version is for [`Object::check_version`].
    pub fn custom(
        &self,
        expected: &GroupVersionKind,
        admit: impl FnOnce(&mut Value) -> Result<Vec<String>, String>,
    ) -> Result<Object, Status> {
        let (parsed, named) = self.parse(expected)?;
        if named.kind.is_empty() {
            let body = String::from_utf8_lossy(self.bytes);
            let error = format!("Object 'Kind' is missing in '{body}'");
            return Err(self.unrecognized(expected, &error));
        }
        let kind = named.version.with_kind(named.kind);
        let mut decoded = parsed
            .untyped()
            .map_err(|e| cannot_be_handled(&kind, expected, &e))?;
        let unknown =
            admit(&mut decoded.value).map_err(|e| cannot_be_handled(&kind, expected, &e))?;
        decoded.problems.extend(
            unknown
                .iter()
                .map(|p| format!("unknown field {}", go_quote(p))),
        );
        self.validate_fields(decoded, kind, expected)
    }

    fn parse(&self, expected: &GroupVersionKind) -> Result<(Parsed<'_>, Named), Status> {
        self.parts().map_err(|e| self.unrecognized(expected, &e))
    }

    /// The body, not yet given a type, and the kind that it names.
    pub(super) fn parts(&self) -> Result<(Parsed<'_>, Named), String> {
        let parsed = Parsed::parse(self.bytes, self.format).map_err(|error| match self.format {
            Format::Json => format!("couldn't get version/kind; json parse error: {error}"),
            Format::Yaml => error,
        })?;
        let named = Named::from_document(&parsed.document)?;
        Ok((parsed, named))
    }

    /// Applies the field validation of the request, and checks kind and version.
    fn validate_fields(
        &self,
        decoded: Decoded,
        kind: GroupVersionKind,
        expected: &GroupVersionKind,
    ) -> Result<Object, Status> {
        let warnings = match self.validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn => decoded.warnings().map(str::to_owned).collect(),
            FieldValidation::Strict => match decoded.strict_error() {
                Some(error) => return Err(cannot_be_handled(&kind, expected, &error)),
                None => Vec::new(),
            },
        };
        Ok(Object {
            value: decoded.value,
            kind,
            warnings,
        })
    }

    fn unrecognized(&self, expected: &GroupVersionKind, error: &str) -> Status {
        unrecognized(self.bytes, expected, error)
    }
}

/// What is said of a body that cannot be read, and how that body begins.
pub fn unrecognized(body: &[u8], expected: &GroupVersionKind, error: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {error} ({})",
        expected.kind,
        summary(body)
    ))
}

impl Object {
    /// Refuses an object of another version than the one of the request.
    pub fn check_version(&self, expected: &GroupVersionKind) -> Result<(), Status> {
        let (found, expected) = (self.kind.group_version(), expected.group_version());
        if found == expected {
            return Ok(());
        }
        Err(other_version(&found.to_string(), &expected.to_string()))
    }
}

fn other_version(found: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// A body that was parsed, but not yet given a type.
pub(super) struct Parsed<'a> {
    document: Document<'a>,
    repeated_keys: Vec<String>,
}

/// Reads YAML that is JSON, as most programs write it; `None` if YAML could
/// read it in any other way.
pub(super) fn json_in_yaml(body: &[u8]) -> Option<Decoded> {
    /// The longest name that YAML takes without an explicit `?` key indicator.
    const LONGEST_NAME: usize = 1000;
    fn is_plain(value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) => true,
            Value::Number(number) => number.is_i64(),
            Value::Array(items) => items.iter().all(is_plain),
            Value::Object(members) => members.iter().all(|(name, member)| {
                name.len() < LONGEST_NAME && name != "<<" && is_plain(member)
            }),
        }
    }
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    let has_code = || body.windows(2).any(|pair| pair == b"\\u");
    if !body.starts_with(b"{") || !body.iter().all(is_text) || has_code() {
        return None;
    }
    let decoded = Parsed::parse(body, Format::Json).ok()?.untyped().ok()?;
    (decoded.problems.is_empty() && is_plain(&decoded.value)).then_some(decoded)
}

impl<'a> Parsed<'a> {
    pub(super) fn parse(bytes: &'a [u8], format: Format) -> Result<Self, String> {
        match format {
            Format::Json => Ok(Parsed {
                document: json::read(bytes)?,
                repeated_keys: Vec::new(),
            }),
            Format::Yaml => {
                let yaml = yaml::read(bytes)?;
                let document = Document::from_value(yaml.value, Numbers::Plain);
                Ok(Parsed {
                    document,
                    repeated_keys: yaml.duplicates,
                })
            }
        }
    }

    pub(super) fn of_value(value: Value, numbers: Numbers) -> Self {
        Parsed {
            document: Document::from_value(value, numbers),
            repeated_keys: Vec::new(),
        }
    }

    /// Reads it by a schema. Null is as good as an empty object.
    pub(super) fn typed(self, schema: SchemaRef<'_>) -> Result<Decoded, String> {
        let read = typed::read(self.document.root(), schema)?;
        Ok(Decoded {
            value: if read.value.is_null() {
                Value::Object(Default::default())
            } else {
                read.value
            },
            repeated_keys: self.repeated_keys,
            problems: read.problems.into_vec(),
        })
    }

    pub(super) fn untyped(self) -> Result<Decoded, String> {
        let read = untyped::read(self.document.root())?;
        Ok(Decoded {
            value: read.value,
            repeated_keys: self.repeated_keys,
            problems: read.problems.into_vec(),
        })
    }
}

/// The kind that a body names; parts may be empty.
pub(super) struct Named {
    pub(super) version: GroupVersion,
    pub(super) kind: String,
}

impl Named {
    fn from_document(document: &Document<'_>) -> Result<Self, String> {
        let (mut api_version, mut kind) = ("", "");
        match document.root().look() {
            ValueView::Null => {}
            ValueView::Map(members) => {
                for (name, member) in members {
                    let place = match name {
                        "apiVersion" => &mut api_version,
                        "kind" => &mut kind,
                        _ => continue,
                    };
                    match member.look() {
                        ValueView::Text(text) => *place = text,
                        ValueView::Null => {}
                        other => {
                            return Err(unmarshal(
                                other.type_name(),
                                &format!("Go struct field .{name} of type string"),
                            ));
                        }
                    }
                }
            }
            other => {
                let target = r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
                return Err(unmarshal(other.type_name(), target));
            }
        }
        let version = GroupVersion::parse(api_version)
            .ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
        Ok(Named {
            version,
            kind: kind.to_owned(),
        })
    }

    pub(super) fn or_expected(self, expected: &GroupVersionKind) -> GroupVersionKind {
        let Named {
            mut version,
            mut kind,
        } = self;
        if kind.is_empty() {
            kind.clone_from(&expected.kind);
        }
        if version.version.is_empty() && version.group.is_empty() {
            version = expected.group_version();
        }
        if version.version.is_empty() && version.group == expected.group {
            version.version.clone_from(&expected.version);
        }
        version.with_kind(kind)
    }
}

fn unmarshal(value: &str, target: &str) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {value} into {target}"
    )
}

/// What Go says of a kind that it does not know.
pub(super) fn unregistered(api_version: &str, kind: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        go_quote(kind),
        go_quote(api_version)
    )
}

fn no_conversion(kind: &GroupVersionKind, expected: &GroupVersionKind) -> String {
    format!(
        "converting ({}.{}) to ({}.{}): unknown conversion",
        kind.version,
        kind.kind,
        internal_package(&expected.group),
        expected.kind
    )
}

/// The refusal of an object of one kind that is no object of another, or of its own.
pub fn cannot_be_handled(
    kind: &GroupVersionKind,
    expected: &GroupVersionKind,
    error: &str,
) -> Status {
    Status::bad_request(format!(
        "{} in version {} cannot be handled as a {}: {error}",
        kind.kind,
        go_quote(&kind.version),
        expected.kind
    ))
}

/// The package of a group's internal types in Go: the first word of its name.
fn internal_package(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(word) => word,
    }
}

/// The beginning of a body, as messages show it: text if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (shown, dots) = match body.len() {
        0 => return "<empty>".to_owned(),
        1..=SHOWN => (body, ""),
        _ => (&body[..SHOWN], " ..."),
    };
    if body[0] == b'{' {
        return format!("{}{dots}", String::from_utf8_lossy(shown));
    }
    let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}{dots}")
}
