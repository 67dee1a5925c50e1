//! Single values: how Go reads each type, and the form it writes it in.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use serde_json::Value;

use super::document::ValueView;
use crate::quantity::Quantity;
use crate::schema::Shape;

/// Why a value is not of its type.
pub(super) enum ScalarError {
    /// It is of another JSON type, or a number that does not fit.
    WrongType {
        /// What it is.
        value: String,
        /// What it should be, where the schema does not tell.
        go_type: Option<String>,
    },
    /// The same, found by a type that reads itself: reading ends here.
    UnreadableType {
        /// What it is.
        value: String,
        /// What it should be.
        go_type: &'static str,
    },
    /// A type that reads itself could not: reading ends here.
    Unreadable(String),
}

type Scalar = Result<Option<Value>, ScalarError>;

/// Reads a value that is neither object nor list. `None` is Go's zero time.
pub(super) fn read(shape: &Shape, look: &ValueView<'_>) -> Scalar {
    match (shape, look) {
        (Shape::Boolean, ValueView::Bool(value)) => Ok(Some((*value).into())),
        (Shape::String, ValueView::Text(text)) => Ok(Some((*text).into())),
        (Shape::Int32, ValueView::Number(text)) => match text.parse::<i32>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => wrong_type(format!("number {text}")),
        },
        (Shape::Int64, ValueView::Number(text)) => match text.parse::<i64>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => wrong_type(format!("number {text}")),
        },
        (Shape::Double, ValueView::Number(text)) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(as_go_writes(number))),
            _ => wrong_type(format!("number {text}")),
        },
        (Shape::Bytes, ValueView::Text(text)) => bytes(text),
        (Shape::Quantity, ValueView::Text(text)) => quantity(text),
        (Shape::Quantity, ValueView::Number(text)) => quantity(text),
        (Shape::Quantity, _) => Err(ScalarError::Unreadable(
            crate::quantity::QuantityError::Format.to_string(),
        )),
        (Shape::IntOrString, ValueView::Text(text)) => Ok(Some((*text).into())),
        (Shape::IntOrString, ValueView::Number(text)) => match text.parse::<i32>() {
            Ok(number) => Ok(Some(number.into())),
            Err(_) => unreadable_type(format!("number {text}"), "int32"),
        },
        (Shape::IntOrString, other) => unreadable_type(other.type_name().to_owned(), "int32"),
        (Shape::Time, ValueView::Text(text)) => time(text),
        (Shape::MicroTime, ValueView::Text(text)) => micro_time(text),
        (Shape::Time | Shape::MicroTime, other) => {
            unreadable_type(other.type_name().to_owned(), "string")
        }
        (_, other) => wrong_type(other.type_name().to_owned()),
    }
}

fn wrong_type(value: String) -> Scalar {
    Err(ScalarError::WrongType {
        value,
        go_type: None,
    })
}

fn unreadable_type(value: String, go_type: &'static str) -> Scalar {
    Err(ScalarError::UnreadableType { value, go_type })
}

fn unreadable(error: String) -> Scalar {
    Err(ScalarError::Unreadable(error))
}

fn quantity(text: &str) -> Scalar {
    match text.trim().parse::<Quantity>() {
        Ok(quantity) => Ok(Some(quantity.to_string().into())),
        Err(error) => unreadable(error.to_string()),
    }
}

/// A whole number has no fraction in Go's JSON.
#[allow(clippy::cast_possible_truncation)] // it has no fraction, and fits
fn as_go_writes(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.fract() == 0.0 && number.abs() < EXACT {
        true => (number as i64).into(),
        false => number.into(),
    }
}

/// Base64 with padding; line breaks are passed over, bits too many at its end too.
fn bytes(text: &str) -> Scalar {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match LENIENT.decode(&joined) {
        Ok(bytes) => Ok(Some(STANDARD.encode(bytes).into())),
        Err(_) => {
            let place = corrupt_byte(text);
            unreadable(format!("illegal base64 data at input byte {place}"))
        }
    }
}

/// Where Go finds base64 to be broken: at the first character that is none, or
/// where characters or padding of a group of four are missing.
fn corrupt_byte(text: &str) -> usize {
    let mut in_group = 0;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => in_group = (in_group + 1) % 4,
            b'=' if in_group >= 2 => {
                // What follows the padding is one too many, a lone `=` one too few.
                let rest = text[place + 1..].trim_start_matches(['\r', '\n']);
                let padding = if in_group == 2 { 2 } else { 1 };
                return match (padding, rest.strip_prefix('=')) {
                    (2, Some(after)) => text.len() - after.len(),
                    (2, None) if rest.is_empty() => text.len(),
                    (2, None) => text.len() - rest.len() - 1,
                    _ => text.len() - rest.len(),
                };
            }
            _ => return place,
        }
    }
    text.len() - in_group
}

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

fn time(text: &str) -> Scalar {
    match parse_time(text, SECONDS) {
        Ok((seconds, _)) => Ok(print_time(seconds).map(|t| format!("{t}Z").into())),
        Err(error) => unreadable(error),
    }
}

fn micro_time(text: &str) -> Scalar {
    match parse_time(text, MICROS) {
        Ok((seconds, micros)) => {
            Ok(print_time(seconds).map(|t| format!("{t}.{micros:06}Z").into()))
        }
        Err(error) => unreadable(error),
    }
}

/// `2006-01-02T15:04:05` in UTC; `None` for Go's zero time, which is shown as null.
fn print_time(seconds: i64) -> Option<String> {
    const ZERO: i64 = -62_135_596_800;
    let time = jiff::Timestamp::from_second(seconds)
        .ok()
        .filter(|_| seconds != ZERO)?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

/// Reads a moment as Go does by a layout: seconds since 1970, and the microseconds.
///
/// The layout of seconds takes any fraction and drops it, the other wants six digits.
fn parse_time(text: &str, layout: &'static str) -> Result<(i64, u32), String> {
    let mut scan = Scan {
        text,
        rest: text,
        layout,
    };
    let year = scan.number(4, "2006", 0..=9999)?;
    scan.literal("-")?;
    let month = scan.number(2, "01", 1..=12)?;
    scan.literal("-")?;
    let day = scan.number(2, "02", 1..=31)?;
    scan.literal("T")?;
    let hour = scan.number(2, "15", 0..=23)?;
    scan.literal(":")?;
    let minute = scan.number(2, "04", 0..=59)?;
    scan.literal(":")?;
    let second = scan.number(2, "05", 0..=59)?;
    let micros = if layout == MICROS {
        scan.six_digits()?
    } else {
        scan.fraction()
    };
    let offset = scan.offset()?;
    if !scan.rest.is_empty() {
        return Err(scan.extra());
    }
    let date = jiff::civil::Date::new(year as i16, month as i8, day as i8)
        .map_err(|_| scan.out_of_range("day"))?;
    let midnight = date
        .to_zoned(jiff::tz::TimeZone::UTC)
        .map_err(|_| scan.out_of_range("day"))?
        .timestamp()
        .as_second();
    Ok((
        midnight + i64::from(hour) * 3600 + i64::from(minute * 60 + second) - offset,
        micros,
    ))
}

/// A text in quotes, as Go's messages about times have it: byte by byte where it is not plain.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', byte as char]),
            b' '..0x80 => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out + "\""
}

struct Scan<'t> {
    text: &'t str,
    rest: &'t str,
    layout: &'static str,
}

impl Scan<'_> {
    fn error(&self, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(self.layout),
            quote(self.rest),
            quote(element)
        )
    }

    fn extra(&self) -> String {
        format!(
            "parsing time {}: extra text: {}",
            quote(self.text),
            quote(self.rest)
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text))
    }

    fn number(
        &mut self,
        digits: usize,
        element: &str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, String> {
        let text = self
            .rest
            .get(..digits)
            .filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
        let number: u32 = text
            .and_then(|t| t.parse().ok())
            .ok_or_else(|| self.error(element))?;
        if !range.contains(&number) {
            let what = match element {
                "01" => "month",
                "02" => "day",
                "15" => "hour",
                "04" => "minute",
                _ => "second",
            };
            return Err(self.out_of_range(what));
        }
        self.rest = &self.rest[digits..];
        Ok(number)
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self
            .rest
            .strip_prefix(literal)
            .ok_or_else(|| self.error(literal))?;
        Ok(())
    }

    fn six_digits(&mut self) -> Result<u32, String> {
        let digits = self.rest.strip_prefix('.').and_then(|rest| rest.get(..6));
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let micros = digits
            .and_then(|d| d.parse().ok())
            .ok_or_else(|| self.error(".000000"))?;
        self.rest = &self.rest[7..];
        Ok(micros)
    }

    fn fraction(&mut self) -> u32 {
        if let Some(rest) = self.rest.strip_prefix(['.', ',']) {
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            if after.len() < rest.len() {
                self.rest = after;
            }
        }
        0
    }

    /// `Z`, or hours and minutes east of it; in seconds.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let wrong = self.error("Z07:00");
        let parts = self.rest.get(..6).and_then(|offset| {
            let (sign, rest) = match offset.as_bytes()[0] {
                b'+' => (1, &offset[1..]),
                b'-' => (-1, &offset[1..]),
                _ => return None,
            };
            let (hours, minutes) = rest.split_once(':')?;
            let number = |t: &str| {
                t.bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| t.parse::<i64>())
            };
            Some((sign, number(hours)?.ok()?, number(minutes)?.ok()?))
        });
        let (sign, hours, minutes) = parts.ok_or(wrong)?;
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use crate::decode::document::{Document, Numbers};

    fn scalar(shape: Shape, value: Value) -> Result<Value, String> {
        let document = Document::from_value(value, Numbers::Plain);
        match read(&shape, &document.root().look()) {
            Ok(value) => Ok(value.unwrap_or(Value::Null)),
            Err(ScalarError::WrongType { value, .. }) => Err(value),
            Err(ScalarError::UnreadableType { value, go_type }) => {
                Err(format!("{value} {go_type}"))
            }
            Err(ScalarError::Unreadable(error)) => Err(error),
        }
    }

    #[test]
    fn numbers_fit_their_type() {
        assert_eq!(scalar(Shape::Int32, json!(5)), Ok(json!(5)));
        assert_eq!(
            scalar(Shape::Int32, json!(2147483648u32)),
            Err("number 2147483648".into())
        );
        assert_eq!(scalar(Shape::Int64, json!(1.5)), Err("number 1.5".into()));
        assert_eq!(scalar(Shape::Int32, json!("5")), Err("string".into()));
        assert_eq!(
            scalar(Shape::IntOrString, json!(true)),
            Err("bool int32".into())
        );
        assert_eq!(scalar(Shape::IntOrString, json!("25%")), Ok(json!("25%")));
    }

    #[test]
    fn times_are_shown_in_utc() {
        let cases = [
            ("2001-02-03T04:05:06Z", "2001-02-03T04:05:06Z"),
            ("2001-02-03T04:05:06.789Z", "2001-02-03T04:05:06Z"),
            ("2001-02-03T04:05:06+02:30", "2001-02-03T01:35:06Z"),
            ("2001-02-03T23:05:06-01:00", "2001-02-04T00:05:06Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(scalar(Shape::Time, json!(text)), Ok(json!(expected)));
        }
        assert_eq!(
            scalar(Shape::MicroTime, json!("2001-02-03T04:05:06.000007Z")),
            Ok(json!("2001-02-03T04:05:06.000007Z"))
        );
        assert_eq!(
            scalar(Shape::Time, json!("0001-01-01T00:00:00Z")),
            Ok(Value::Null)
        );
    }

    #[test]
    fn times_that_do_not_parse_are_reported_with_the_messages_of_go() {
        let cases = [
            (
                Shape::Time,
                "yesterday",
                r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
            ),
            (
                Shape::MicroTime,
                "2001-02-03T04:05:06Z",
                r#"parsing time "2001-02-03T04:05:06Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
            (
                Shape::Time,
                "2001-13-03T04:05:06Z",
                r#"parsing time "2001-13-03T04:05:06Z": month out of range"#,
            ),
            (
                Shape::Time,
                "2001-02-30T04:05:06Z",
                r#"parsing time "2001-02-30T04:05:06Z": day out of range"#,
            ),
            (
                Shape::Time,
                "2001-02-03T04:05:06Zx",
                r#"parsing time "2001-02-03T04:05:06Zx": extra text: "x""#,
            ),
            (
                Shape::Time,
                "2001-02-03",
                r#"parsing time "2001-02-03" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
        ];
        for (shape, text, expected) in cases {
            assert_eq!(scalar(shape, json!(text)), Err(expected.to_owned()));
        }
    }

    #[test]
    fn bytes_are_base64() {
        assert_eq!(scalar(Shape::Bytes, json!("aGk=")), Ok(json!("aGk=")));
        assert_eq!(scalar(Shape::Bytes, json!("aG\nk=")), Ok(json!("aGk=")));
        assert_eq!(scalar(Shape::Bytes, json!("aGl=")), Ok(json!("aGk=")));
        assert_eq!(scalar(Shape::Bytes, json!("")), Ok(json!("")));
        for (text, place) in [
            ("a!==", 1),
            ("aGk", 0),
            ("aGk=x", 4),
            ("aGkxaG", 4),
            ("aG=", 3),
            ("=", 0),
            ("ab=c", 2),
            ("abc==", 4),
        ] {
            let expected = format!("illegal base64 data at input byte {place}");
            assert_eq!(scalar(Shape::Bytes, json!(text)), Err(expected), "{text}");
        }
    }

    #[test]
    fn amounts_get_their_canonical_form() {
        assert_eq!(scalar(Shape::Quantity, json!("1000m")), Ok(json!("1")));
        assert_eq!(scalar(Shape::Quantity, json!(0.5)), Ok(json!("500m")));
        assert_eq!(scalar(Shape::Quantity, json!(" 1 ")), Ok(json!("1")));
        assert!(
            scalar(Shape::Quantity, json!(true))
                .unwrap_err()
                .starts_with("quantities must match")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            for shape in [Shape::Bytes, Shape::Time, Shape::MicroTime, Shape::Quantity] {
                let _ = scalar(shape, json!(text));
            }
        }
    }
}
