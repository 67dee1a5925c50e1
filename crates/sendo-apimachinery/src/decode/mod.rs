//! From the bytes of a request to a value: JSON and YAML, with and without a type.
//!
//! Built-in kinds are read by their schema, as Go reads them into its structs;
//! custom resources are read as they are and pruned later. [`Body`] is the
//! whole way for an object; [`typed`] gives a value that was changed in the
//! server (by a patch, say) the form it would have if it had just been read.
//!
//! Time and memory are bounded by [`BODY_LIMIT`]: nesting is limited, what aliases expand to
//! counts as if it had been sent, and nothing is kept of what a type does not know.

mod body;
mod deletion;
mod document;
mod json;
mod older;
mod problems;
mod response;
mod restored;
mod scalars;
mod typed;
mod untyped;
mod yaml;

use document::Numbers;
use serde_json::Value;

pub use body::{Body, Format, Object, cannot_be_handled, unrecognized};
pub use deletion::check_delete_options;
pub use older::read_as;
pub use response::read_response;

use crate::schema::SchemaRef;

/// The most that a body may have, in bytes, what its aliases expand to included: 3 MiB, as in
/// Kubernetes.
///
/// Whoever receives a body has to keep it within that; readers only see to the aliases.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Why a body could not be read; the text is the one Go's readers give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

/// A value that was read, and what a strict reader says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The value.
    pub value: Value,
    /// Keys of a YAML body that were there twice, as `line 5: key "k" already set in map`.
    pub repeated_keys: Vec<String>,
    /// Fields that are unknown or there twice, in the order they were met, as
    /// `unknown field "spec.x"`.
    pub problems: Vec<String>,
}

/// What happens to fields that are unknown or there twice: the parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing.
    Ignore,
    /// Each is a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

impl FieldValidation {
    /// Reads the parameter; empty means the default. `None` for any other word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Warn" => Some(FieldValidation::Warn),
            "Ignore" => Some(FieldValidation::Ignore),
            "Strict" => Some(FieldValidation::Strict),
            _ => None,
        }
    }
}

impl Decoded {
    /// What the strict reader says, one text for each problem.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.repeated_keys
            .iter()
            .chain(&self.problems)
            .map(String::as_str)
    }

    /// All of it as one error: `strict decoding error: …`. `None` if there is nothing to say.
    pub fn strict_error(&self) -> Option<String> {
        let mut errors = Vec::new();
        if !self.repeated_keys.is_empty() {
            errors.push(format!(
                "yaml: unmarshal errors:\n  {}",
                self.repeated_keys.join("\n  ")
            ));
        }
        errors.extend(self.problems.iter().cloned());
        (!errors.is_empty()).then(|| format!("strict decoding error: {}", errors.join(", ")))
    }
}

/// Reads a body as it is, without a type.
pub fn untyped(body: &[u8], format: Format) -> Result<Decoded, DecodeError> {
    if format == Format::Yaml
        && let Some(decoded) = body::json_in_yaml(body)
    {
        return Ok(decoded);
    }
    let parsed = body::Parsed::parse(body, format).map_err(DecodeError)?;
    parsed.untyped().map_err(DecodeError)
}

/// Gives a value the form that its type has when it is read from a body.
pub fn typed(value: Value, schema: SchemaRef<'_>) -> Result<Decoded, DecodeError> {
    let parsed = body::Parsed::of_value(value, Numbers::Plain);
    parsed.typed(schema).map_err(DecodeError)
}

/// The same for a value that was changed as JSON text, by a JSON or a merge patch: there `1.0`
/// is no whole number.
pub fn typed_as_sent(value: Value, schema: SchemaRef<'_>) -> Result<Decoded, DecodeError> {
    let parsed = body::Parsed::of_value(value, Numbers::AsSent);
    parsed.typed(schema).map_err(DecodeError)
}

/// Why a value that was put together in the server is none of its type, in the words of Go's
/// conversion without JSON; none if it is, or if only [`typed`] can tell.
pub fn restore_fault(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    restored::fault(value, schema)
}

#[cfg(test)]
mod tests;
