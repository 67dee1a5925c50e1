//! Scalars of YAML 1.1.

use serde_json::{Number, Value};
use serde_saphyr::granit_parser::{ScalarStyle, Tag};

use crate::go_text::go_quote;

/// A single value of a document, resolved by YAML 1.1.
#[derive(Debug)]
pub(super) struct Scalar {
    text: String,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Null,
    Bool(bool),
    Int(Number),
    Float(f64),
    Text,
    Merge,
}

/// A member's name, and how messages show it.
pub(super) struct Key {
    pub(super) text: String,
    pub(super) shown: String,
}

impl Scalar {
    pub(super) fn is_null(&self) -> bool {
        self.kind == Kind::Null
    }

    pub(super) fn new(text: String, style: ScalarStyle, tag: Option<&Tag>) -> Result<Self, String> {
        let tag = tag.map(Tag::to_string).unwrap_or_default();
        let tag = tag
            .strip_prefix("tag:yaml.org,2002:")
            .unwrap_or(&tag)
            .trim_start_matches("!!");
        let kind = match tag {
            "" if style != ScalarStyle::Plain => Kind::Text,
            "" => resolve(&text),
            "str" => Kind::Text,
            "bool" | "int" | "float" | "null" => {
                let kind = resolve(&text);
                match (tag, kind) {
                    ("bool", kind @ Kind::Bool(_))
                    | ("int", kind @ Kind::Int(_))
                    | ("float", kind @ Kind::Float(_))
                    | ("null", kind @ Kind::Null) => kind,
                    ("float", Kind::Int(number)) => Kind::Float(number.as_f64().unwrap_or(0.0)),
                    (_, kind) => {
                        let found = kind.tag();
                        return Err(format!("cannot decode {found} `{text}` as a !!{tag}"));
                    }
                }
            }
            "binary" => {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(text.replace(['\r', '\n'], ""))
                    .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                return Ok(Scalar {
                    text,
                    kind: Kind::Text,
                });
            }
            _ => Kind::Text,
        };
        Ok(Scalar { text, kind })
    }

    /// How many bytes its text has.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn is_merge(&self) -> bool {
        self.kind == Kind::Merge
    }

    pub(super) fn value(&self) -> Result<Value, String> {
        Ok(match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => (*value).into(),
            Kind::Int(number) => Value::Number(number.clone()),
            Kind::Float(value) => json_float(*value)?,
            Kind::Text | Kind::Merge => self.text.as_str().into(),
        })
    }

    pub(super) fn key(&self) -> Result<Key, String> {
        Ok(match &self.kind {
            Kind::Text | Kind::Merge => Key {
                text: self.text.clone(),
                shown: go_quote(&self.text),
            },
            Kind::Bool(value) => Key {
                text: value.to_string(),
                shown: value.to_string(),
            },
            Kind::Int(number) => Key {
                text: number.to_string(),
                shown: number.to_string(),
            },
            Kind::Float(value) => {
                let text = match value {
                    v if v.is_nan() => ".nan".to_owned(),
                    v if v.is_infinite() && *v > 0.0 => ".inf".to_owned(),
                    v if v.is_infinite() => "-.inf".to_owned(),
                    v => crate::go_text::go_float_key(*v),
                };
                Key {
                    shown: text.clone(),
                    text,
                }
            }
            Kind::Null => {
                let message = "unsupported map key of type: %!s(<nil>), key: <nil>";
                return Err(message.to_owned());
            }
        })
    }
}

impl Kind {
    fn tag(&self) -> &'static str {
        match self {
            Kind::Null => "!!null",
            Kind::Bool(_) => "!!bool",
            Kind::Int(_) => "!!int",
            Kind::Float(_) => "!!float",
            Kind::Text => "!!str",
            Kind::Merge => "!!merge",
        }
    }
}

/// A float as JSON keeps it: a whole one is read back as a whole number.
fn json_float(value: f64) -> Result<Value, String> {
    let Some(number) = Number::from_f64(value) else {
        let shown = crate::go_text::go_float(value);
        return Err(format!("json: unsupported value: {shown}"));
    };
    let text = crate::go_text::go_json(&Value::Number(number.clone()));
    Ok(text
        .parse::<i64>()
        .map_or(Value::Number(number), Value::from))
}

/// The value of a plain scalar.
fn resolve(text: &str) -> Kind {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Kind::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Kind::Bool(false);
        }
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Null,
        ".nan" | ".NaN" | ".NAN" => return Kind::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Kind::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Kind::Float(f64::NEG_INFINITY),
        "<<" => return Kind::Merge,
        _ => {}
    }
    match text.as_bytes()[0] {
        b'0'..=b'9' | b'+' | b'-' => {
            let plain = text.replace('_', "");
            integer(&plain)
                .map(Kind::Int)
                .or_else(|| float(&plain))
                .unwrap_or(Kind::Text)
        }
        b'.' => float(text).unwrap_or(Kind::Text),
        _ => Kind::Text,
    }
}

/// A whole number: decimal, or with one of the prefixes `0x`, `0o`, `0b` and `0` for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let size = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -size } else { size };
    match i64::try_from(value) {
        Ok(value) => Some(value.into()),
        // Only one without a sign may be larger.
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            u64::try_from(value).ok().map(Number::from)
        }
        Err(_) => None,
    }
}

fn float(text: &str) -> Option<Kind> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        None => !mantissa.is_empty() && digits(mantissa),
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    if !mantissa_fits || !exponent_fits {
        return None;
    }
    text.parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .map(Kind::Float)
}
