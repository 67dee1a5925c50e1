//! Named formats and the function `format` of texts.

use std::fmt::Write;

use super::convert;
use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;
use crate::structural::has_format;
use crate::{go_quote, names};

/// A format of texts that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFormat(usize);

struct Definition {
    name: &'static str,
    /// The size of its pattern.
    pattern: u64,
    check: fn(&str) -> Vec<String>,
}

fn has(text: &str, format: &str, otherwise: &str) -> Vec<String> {
    match has_format(text, format) {
        Some(false) => vec![otherwise.to_owned()],
        _ => Vec::new(),
    }
}

/// All formats, by their names.
const DEFINITIONS: [Definition; 13] = [
    Definition {
        name: "byte",
        pattern: 84,
        check: |text| has(text, "byte", "invalid base64"),
    },
    Definition {
        name: "date",
        pattern: 71,
        check: |text| has(text, "date", "invalid date"),
    },
    Definition {
        name: "datetime",
        pattern: 71,
        check: |text| has(text, "datetime", "invalid datetime"),
    },
    Definition {
        name: "dns1035Label",
        pattern: 30,
        check: names::dns1035_label,
    },
    Definition {
        name: "dns1035LabelPrefix",
        pattern: 30,
        check: |text| names::generate_name(text, names::dns1035_label),
    },
    Definition {
        name: "dns1123Label",
        pattern: 30,
        check: names::dns1123_label,
    },
    Definition {
        name: "dns1123LabelPrefix",
        pattern: 30,
        check: |text| names::generate_name(text, names::dns1123_label),
    },
    Definition {
        name: "dns1123Subdomain",
        pattern: 60,
        check: names::dns1123_subdomain,
    },
    Definition {
        name: "dns1123SubdomainPrefix",
        pattern: 60,
        check: |text| names::generate_name(text, names::dns1123_subdomain),
    },
    Definition {
        name: "labelValue",
        pattern: 40,
        check: names::label_value,
    },
    Definition {
        name: "qualifiedName",
        pattern: 60,
        check: names::qualified_name,
    },
    Definition {
        name: "uri",
        pattern: 1103,
        check: |text| super::url::uri_faults(text),
    },
    Definition {
        name: "uuid",
        pattern: 70,
        check: |text| has(text, "uuid", "does not match the UUID format"),
    },
];

impl NamedFormat {
    fn named(name: &str) -> Option<Self> {
        DEFINITIONS
            .iter()
            .position(|definition| definition.name == name)
            .map(NamedFormat)
    }

    /// The size of the pattern that checking costs as much as.
    pub(in crate::cel) fn pattern_size(self) -> u64 {
        DEFINITIONS[self.0].pattern
    }
}

macro_rules! formats {
    ($($function:ident = $name:literal;)*) => {$(
        pub(in crate::cel) fn $function<'a>(_: &mut Machine<'a>, _: &[Value<'a>]) -> Result<Value<'a>> {
            NamedFormat::named($name).map(Value::Format).ok_or_else(Fault::no_such_overload)
        }
    )*};
}

formats! {
    dns1123_label = "dns1123Label";
    dns1123_subdomain = "dns1123Subdomain";
    dns1035_label = "dns1035Label";
    qualified_name = "qualifiedName";
    dns1123_label_prefix = "dns1123LabelPrefix";
    dns1123_subdomain_prefix = "dns1123SubdomainPrefix";
    dns1035_label_prefix = "dns1035LabelPrefix";
    label_value = "labelValue";
    uri = "uri";
    uuid = "uuid";
    byte = "byte";
    date = "date";
    datetime = "datetime";
}

pub(in crate::cel) fn named<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Text(name)] = args else {
        return Err(Fault::no_such_overload());
    };
    let format = NamedFormat::named(name).map(Value::Format);
    Ok(format.map_or(Value::Optional(None), Value::some))
}

pub(in crate::cel) fn validate<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Format(format), Value::Text(text)] = args else {
        return Err(Fault::no_such_overload());
    };
    let faults = (DEFINITIONS[format.0].check)(text);
    if faults.is_empty() {
        return Ok(Value::Optional(None));
    }
    let faults = faults.into_iter().map(Value::from).collect();
    Ok(Value::some(Value::list(faults)))
}

/// Fills the clauses of a text, as `%s` and `%.2f`.
pub(in crate::cel) fn format<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let [Value::Text(template), Value::List(values)] = args else {
        return Err(Fault::no_such_overload());
    };
    let mut out = String::new();
    let mut index = 0;
    for piece in Template::parse(template) {
        if let Piece::Text(text) = piece {
            out.push_str(text);
            continue;
        }
        let value = values
            .get(index)
            .ok_or_else(|| Fault::new(out_of_range(index)))??;
        index += 1;
        let Clause { verb, precision } = piece.clause().map_err(Fault::new)?;
        let text = filled(verb, precision, &value)
            .map_err(|why| Fault::new(format!("error during formatting: {why}")))?;
        out.push_str(&text);
        machine.allow_text(out.len())?;
    }
    Ok(out.into())
}

/// That a template has more clauses than there are values.
pub(in crate::cel) fn out_of_range(index: usize) -> String {
    format!("index {index} out of range")
}

/// A text with clauses to fill, piece by piece.
pub(in crate::cel) struct Template<'t> {
    rest: &'t str,
}

/// A piece of a template.
pub(in crate::cel) enum Piece<'t> {
    Text(&'t str),
    Clause(Clause),
    /// Not how a clause is written.
    Unreadable(String),
    /// A clause that the text ends in.
    Cut,
}

/// How a value is shown: `%.2f` is the verb `f` with a precision of 2.
pub(in crate::cel) struct Clause {
    pub(in crate::cel) verb: char,
    precision: Option<usize>,
}

impl Piece<'_> {
    /// The clause that a piece is to be; none is in a text.
    pub(in crate::cel) fn clause(self) -> Result<Clause, String> {
        match self {
            Piece::Clause(clause) => Ok(clause),
            Piece::Unreadable(why) => Err(format!("could not parse formatting clause: {why}")),
            Piece::Text(_) | Piece::Cut => Err("unexpected end of string".to_owned()),
        }
    }
}

impl<'t> Template<'t> {
    pub(in crate::cel) fn parse(text: &'t str) -> Self {
        Template { rest: text }
    }
}

impl<'t> Iterator for Template<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.rest;
        match rest.find('%') {
            None if rest.is_empty() => None,
            None => {
                self.rest = "";
                Some(Piece::Text(rest))
            }
            Some(0) if rest.starts_with("%%") => {
                self.rest = &rest[2..];
                Some(Piece::Text("%"))
            }
            Some(0) if rest.len() == 1 => {
                self.rest = "";
                Some(Piece::Cut)
            }
            Some(0) => Some(match clause(&rest[1..]) {
                Ok((clause, after)) => {
                    self.rest = after;
                    Piece::Clause(clause)
                }
                Err(why) => {
                    self.rest = "";
                    Piece::Unreadable(why)
                }
            }),
            Some(at) => {
                self.rest = &rest[at..];
                Some(Piece::Text(&rest[..at]))
            }
        }
    }
}

/// Reads a clause behind its `%`, and gives what follows.
fn clause(text: &str) -> Result<(Clause, &str), String> {
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = text.strip_prefix('.') {
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .ok_or("error while parsing precision: could not find end of precision specifier")?;
        let digits = &after[..end];
        // Nobody needs more digits than a number can have.
        let number = digits
            .parse::<usize>()
            .ok()
            .filter(|number| *number <= 1_000);
        precision = Some(number.ok_or_else(|| {
            format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
                go_quote(digits)
            )
        })?);
        rest = &after[end..];
    }
    let verb = rest.chars().next().ok_or("unexpected end of string")?;
    if !"sdfebxXo".contains(verb) {
        return Err(format!("unrecognized formatting clause \"{verb}\""));
    }
    Ok((Clause { verb, precision }, &rest[verb.len_utf8()..]))
}

/// Why a clause cannot show a value of some type.
pub(in crate::cel) fn wrong_for_clause(verb: char, kind: &str) -> String {
    let wanted = match verb {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    };
    format!("{wanted}, was given {kind}")
}

fn filled(verb: char, precision: Option<usize>, value: &Value<'_>) -> Result<String, String> {
    let wrong = || wrong_for_clause(verb, value.kind());
    let precision = precision.unwrap_or(6);
    let number = || match value {
        Value::Double(number) => Ok(*number),
        Value::Text(text) => match &**text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    };
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let signed = |number: i64, digits: String| {
        if number < 0 {
            format!("-{digits}")
        } else {
            digits
        }
    };
    Ok(match (verb, value) {
        ('s', value) => shown(value)?,
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::Uint(number)) => number.to_string(),
        ('f', _) => grouped(number()?, precision),
        ('e', _) => scientific(number()?, precision),
        ('b', Value::Int(number)) => signed(*number, format!("{:b}", number.unsigned_abs())),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('o', Value::Int(number)) => signed(*number, format!("{:o}", number.unsigned_abs())),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('x' | 'X', value) => {
            let digits = match value {
                Value::Int(number) => signed(*number, format!("{:x}", number.unsigned_abs())),
                Value::Uint(number) => format!("{number:x}"),
                Value::Text(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return Err(wrong()),
            };
            if verb == 'X' {
                digits.to_uppercase()
            } else {
                digits
            }
        }
        _ => return Err(wrong()),
    })
}

/// A number with its thousands set apart, as in English.
fn grouped(number: f64, precision: usize) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let text = format!("{:.precision$}", number.abs());
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.as_str(), None),
    };
    let mut out = String::new();
    if number.is_sign_negative() {
        out.push('-');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return grouped(number, precision);
    }
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let superscript: String = format!("{:02}", exponent.abs())
        .chars()
        .map(|digit| {
            ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize - '0' as usize]
        })
        .collect();
    let sign = if exponent < 0 { "⁻" } else { "" };
    format!("{digits}\u{202f}×\u{202f}10{sign}{superscript}")
}

fn shown(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::List(_) | Value::Map(_) => nested(value),
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Text(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Timestamp(_)
        | Value::Kind(_) => Ok(convert::shown(value)),
        _ => Err(wrong_for_clause('s', value.kind())),
    }
}

/// A value inside of a list or map.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Text(text) => go_quote(text),
        Value::Bytes(bytes) => format!("b{}", go_quote(&String::from_utf8_lossy(bytes))),
        Value::Double(number) if number.is_finite() => format!("{number:.6}"),
        Value::Double(number) => go_quote(&convert::shown(&Value::Double(*number))),
        Value::Timestamp(_) => format!("timestamp({})", go_quote(&convert::shown(value))),
        Value::Duration(_) => format!("duration({})", go_quote(&convert::shown(value))),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Kind(_) => convert::shown(value),
        Value::List(list) => {
            let mut parts = Vec::new();
            for item in list.iter() {
                parts.push(nested(&item.map_err(|fault| fault.to_string())?)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let mut parts = Vec::new();
            for entry in map.entries() {
                let (key, value) = entry.map_err(|fault| fault.to_string())?;
                parts.push(format!("{}:{}", nested(&key)?, nested(&value)?));
            }
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        other => return Err(format!("no formatting function for {}", other.kind())),
    })
}
