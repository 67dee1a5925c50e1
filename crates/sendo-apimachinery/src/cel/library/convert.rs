//! CEL conversions between types.

use jiff::Timestamp;
use jiff::civil::DateTime;

use crate::addresses::ip_text;
use crate::cel::cost::actual_size;
use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;

fn impossible(from: &Value<'_>, to: &str) -> Fault {
    Fault::new(format!(
        "type conversion error from '{}' to '{to}'",
        from.kind()
    ))
}

pub(in crate::cel) fn same<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(args[0].clone())
}

pub(in crate::cel) fn kind<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Kind(args[0].kind()))
}

pub(in crate::cel) fn size<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        value @ (Value::Text(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            Ok(Value::Int(actual_size(value) as i64))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn bool<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::Text(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(impossible(&args[0], "bool")),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn bytes<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::Text(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn double<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Double(match &args[0] {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::Text(text) => {
            let number = text.parse().ok().filter(|number: &f64| {
                // Only a word means infinity: digits that lead there are too many.
                number.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit())
            });
            number.ok_or_else(|| impossible(&args[0], "double"))?
        }
        _ => return Err(Fault::no_such_overload()),
    }))
}

pub(in crate::cel) fn int<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let overflow = || Fault::new("integer overflow");
    Ok(Value::Int(match &args[0] {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).map_err(|_| overflow())?,
        Value::Double(number) => {
            if !(*number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0) {
                return Err(overflow());
            }
            *number as i64
        }
        Value::Text(text) => text.parse().map_err(|_| impossible(&args[0], "int"))?,
        Value::Duration(nanos) => *nanos,
        Value::Timestamp(time) => time.as_second(),
        _ => return Err(Fault::no_such_overload()),
    }))
}

pub(in crate::cel) fn uint<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let overflow = || Fault::new("unsigned integer overflow");
    Ok(Value::Uint(match &args[0] {
        Value::Uint(number) => *number,
        Value::Int(number) => u64::try_from(*number).map_err(|_| overflow())?,
        Value::Double(number) => {
            if !(*number >= 0.0 && *number < 18_446_744_073_709_551_616.0) {
                return Err(overflow());
            }
            *number as u64
        }
        Value::Text(text) => text.parse().map_err(|_| impossible(&args[0], "uint"))?,
        _ => return Err(Fault::no_such_overload()),
    }))
}

pub(in crate::cel) fn text<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Text(_) => Ok(args[0].clone()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned().into()),
            Err(_) => Err(Fault::new(
                "invalid UTF-8 in bytes, cannot convert to string",
            )),
        },
        value => match scalar_text(value) {
            Some(text) => Ok(text.into()),
            None => Err(Fault::no_such_overload()),
        },
    }
}

/// The text of a value that is neither list nor map.
pub(in crate::cel) fn scalar_text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => double_text(*number),
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(nanos) => seconds_text(*nanos),
        Value::Timestamp(time) => time.to_string(),
        Value::Kind(name) => (*name).to_owned(),
        Value::Ip(ip) => ip_text(*ip),
        Value::Cidr(range) => format!("{}/{}", range.address, range.prefix),
        _ => return None,
    })
}

/// A value as errors show it.
pub(in crate::cel) fn shown(value: &Value<'_>) -> String {
    scalar_text(value).unwrap_or_else(|| value.kind().to_owned())
}

/// A number with as few digits as distinguish it; with an exponent if it is very large or small.
fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn seconds_text(nanos: i64) -> String {
    let (whole, rest) = (
        nanos / 1_000_000_000,
        (nanos % 1_000_000_000).unsigned_abs(),
    );
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    let mut text = format!("{sign}{whole}");
    if rest > 0 {
        text.push_str(format!(".{rest:09}").trim_end_matches('0'));
    }
    text.push('s');
    text
}

pub(in crate::cel) fn duration<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Duration(nanos) | Value::Int(nanos) => Ok(Value::Duration(*nanos)),
        Value::Text(text) => parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| impossible(&args[0], "google.protobuf.Duration")),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn timestamp<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Timestamp(time) => Ok(Value::Timestamp(*time)),
        Value::Int(seconds) => timestamp_at(*seconds)
            .map(Value::Timestamp)
            .ok_or_else(|| Fault::new("timestamp overflow")),
        Value::Text(text) => parse_timestamp(text)
            .map(Value::Timestamp)
            .ok_or_else(|| impossible(&args[0], "google.protobuf.Timestamp")),
        _ => Err(Fault::no_such_overload()),
    }
}

/// The moment so many seconds after 1970.
pub(in crate::cel) fn timestamp_at(seconds: i64) -> Option<Timestamp> {
    let time = Timestamp::from_second(seconds).ok();
    time.filter(|time| in_range(*time))
}

/// Whether a time lies in the years that expressions know.
pub(in crate::cel) fn in_range(time: Timestamp) -> bool {
    const FIRST: i64 = -62_135_596_800;
    const LAST: i64 = 253_402_300_799;
    (FIRST..=LAST).contains(&time.as_second())
}

/// How long the text of a span may be.
const LONGEST_SPAN: usize = 1_000;

/// A span like `1h30m`, in nanoseconds.
pub(in crate::cel) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    // Nobody writes spans this long, and every look at one would read it again.
    if rest.is_empty() || rest.len() > LONGEST_SPAN {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(unit_at);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let digits = |text: &str| -> Option<i128> {
            if text.is_empty() {
                Some(0)
            } else {
                text.parse().ok()
            }
        };
        total = total.checked_add(digits(whole)?.checked_mul(nanos)?)?;
        let fraction = &fraction[..fraction.len().min(18)];
        if !fraction.is_empty() {
            total += digits(fraction)? * nanos / 10_i128.pow(fraction.len() as u32);
        }
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A span in a field of format `duration`, which may also have units in words.
pub(in crate::cel) fn parse_schema_duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    if text.len() > LONGEST_SPAN {
        return None;
    }
    let mut total: Option<i64> = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number_end = rest[start..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |end| start + end);
        let number: i64 = rest[start..number_end].parse().ok()?;
        let after = rest[number_end..].trim_start();
        let unit_end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let unit = after[..unit_end].to_lowercase();
        if let Some(nanos) = worded_unit(&unit) {
            let part = number.checked_mul(nanos)?;
            total = Some(total.unwrap_or(0).checked_add(part)?);
        }
        rest = &after[unit_end..];
    }
    total
}

fn worded_unit(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    let units: [(&[&str], &str, i64); 8] = [
        (&["ns", "nano"], "nanosecond", 1),
        (&["us", "µs", "micro"], "microsecond", 1_000),
        (&["ms", "milli"], "millisecond", 1_000_000),
        (&["s", "sec"], "second", SECOND),
        (&["m", "min"], "minute", 60 * SECOND),
        (&["h", "hr"], "hour", 3_600 * SECOND),
        (&["d"], "day", 86_400 * SECOND),
        (&["w", "wk"], "week", 604_800 * SECOND),
    ];
    units
        .into_iter()
        .find(|(short, long, _)| short.contains(&unit) || unit.starts_with(long))
        .map(|(_, _, nanos)| nanos)
}

/// A point in time with its offset, as `2020-01-01T00:00:00Z`.
pub(in crate::cel) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    // The parser also takes forms that RFC 3339 does not know.
    let bytes = text.as_bytes();
    if bytes.len() < 20 || bytes[10] != b'T' || bytes[4] != b'-' || bytes[13] != b':' {
        return None;
    }
    if bytes[17..19] == *b"60" {
        return None;
    }
    parse_rfc3339(text).filter(|time| in_range(*time))
}

/// The last hours that can be written are beyond what is kept: they count as the last moment that is.
fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let offset = text.get(19..)?.find(['Z', 'z', '+', '-'])? + 19;
    let local: DateTime = text.get(..offset)?.parse().ok()?;
    (local >= jiff::civil::date(9999, 12, 30).at(0, 0, 0, 0)).then_some(Timestamp::MAX)
}

/// A point in time in a field of format `date-time`; without an offset it is in UTC.
pub(in crate::cel) fn parse_schema_time(text: &str) -> Option<Timestamp> {
    if let Some(time) = parse_rfc3339(text) {
        return Some(time);
    }
    let local: DateTime = text.parse().ok()?;
    local
        .to_zoned(jiff::tz::TimeZone::UTC)
        .ok()
        .map(|zoned| zoned.timestamp())
}
