//! Values written the way Go writes them.
//!
//! Kubernetes' messages quote strings with `%q`, print floats with `%v` and
//! show structured values as Go's JSON: clients and people compare these texts.

use std::fmt::Write;

use serde_json::Value;

/// A string in double quotes, as Go's `%q` writes it.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x80 => push_escape(&mut out, format_args!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x10000 => push_escape(&mut out, format_args!("\\u{:04x}", c as u32)),
            c => push_escape(&mut out, format_args!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

fn push_escape(out: &mut String, escape: std::fmt::Arguments<'_>) {
    out.write_fmt(escape).expect("a String takes any text");
}

/// Whether Go calls a character printable: a graphic one, of spaces only the ASCII one.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The standard library knows the same classes, but shows them only through
    // `escape_debug`, which also escapes a combining mark where it comes first:
    // so the character goes behind another one.
    let mut buffer = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..end]).expect("two characters just encoded");
    text.escape_debug().nth(1) == Some(c)
}

/// A float as Go's `%v` prints it: `1`, `1.5`, `1e+06`.
pub fn go_float(value: f64) -> String {
    float_text(value, -4, 6, 2)
}

/// A float as a member's name, in single precision: `1.5`, `1e+06`.
pub(crate) fn go_float_key(value: f64) -> String {
    // The shortest text of the single-precision number, which as a double may have more digits.
    let shortest: f64 = (value as f32).to_string().parse().unwrap_or(value);
    float_text(shortest, -4, 6, 2)
}

/// A float in decimal form while its exponent is in `from..until`, else with an
/// exponent of at least `width` digits.
fn float_text(value: f64, from: i32, until: i32, width: usize) -> String {
    if !value.is_finite() {
        return match value {
            v if v.is_nan() => "NaN".to_owned(),
            v if v > 0.0 => "+Inf".to_owned(),
            _ => "-Inf".to_owned(),
        };
    }
    // Shortest digits that read back to the same number, as `d.ddde±x`.
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the format has a decimal exponent");
    if (from..until).contains(&exponent) || value == 0.0 {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:0width$}", exponent.abs())
}

/// A value as Go's JSON encoder writes it: no spaces, `<`, `>`, `&` and the
/// line separators escaped, whole floats without a fraction.
pub fn go_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

/// Writes a value as [`go_json`] does.
pub(crate) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() => out.push_str(&float_text(f, -6, 21, 1)),
            _ => out.push_str(&n.to_string()),
        },
        Value::String(s) => write_json_string(out, s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(out, key);
                out.push(':');
                write_json(out, member);
            }
            out.push('}');
        }
    }
}

/// Writes a text as [`go_json`] does.
pub(crate) fn write_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..'\x20' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                push_escape(out, format_args!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A value as Go's `%s` prints it: `map[a:x]`, and of what is no text its type too, `%!s(int64=1)`.
pub(crate) fn go_string(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(b) => format!("%!s(bool={b})"),
        Value::Number(n) if n.is_f64() => format!("%!s(float64={})", go_value(value)),
        Value::Number(n) => format!("%!s(int64={n})"),
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_string).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter().map(|(k, v)| format!("{k}:{}", go_string(v)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A value as Go's `%v` prints it: `map[a:1 b:[x y]]`, null as `<nil>`.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() => go_float(f),
            _ => n.to_string(),
        },
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(k, v)| format!("{k}:{}", go_value(v)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_are_quoted_as_go_does() {
        let cases = [
            ("plain", r#""plain""#),
            ("say \"x\" \\", r#""say \"x\" \\""#),
            ("a\0\x07\x0b\n\x7f", r#""a\x00\a\v\n\x7f""#),
            ("é\u{301}😀\u{fffd}", "\"é\u{301}😀\u{fffd}\""),
            (
                "\u{a0}\u{200b}\u{feff}\u{2028}",
                r#""\u00a0\u200b\ufeff\u2028""#,
            ),
            ("\u{e0001}", r#""\U000e0001""#),
            ("<&>", r#""<&>""#),
        ];
        for (input, expected) in cases {
            assert_eq!(go_quote(input), expected);
        }
    }

    #[test]
    fn floats_print_as_go_prints_them() {
        let cases = [
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (1e5, "100000", "100000"),
            (1e6, "1e+06", "1000000"),
            (123456789.0, "1.23456789e+08", "123456789"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (1e-5, "1e-05", "0.00001"),
            (0.0001, "0.0001", "0.0001"),
            (-2.5e-7, "-2.5e-07", "-2.5e-7"),
            (0.0, "0", "0"),
        ];
        for (value, plain, in_json) in cases {
            assert_eq!(go_float(value), plain);
            assert_eq!(go_json(&json!(value)), in_json);
        }
    }

    #[test]
    fn values_print_as_go_prints_them() {
        assert_eq!(
            go_value(&json!({"b": [1, "x", null], "a": {"c": true, "d": 1e6}})),
            "map[a:map[c:true d:1e+06] b:[1 x <nil>]]"
        );
    }

    #[test]
    fn what_is_no_text_is_marked_where_go_expects_one() {
        assert_eq!(
            go_string(&json!({"b": [1, "x", null], "a": {"c": true, "d": 1.5}})),
            "map[a:map[c:%!s(bool=true) d:%!s(float64=1.5)] b:[%!s(int64=1) x %!s(<nil>)]]"
        );
    }

    #[test]
    fn json_escapes_what_go_escapes() {
        assert_eq!(
            go_json(&json!({"b": [1, null, true], "a": "<x>&\u{2028}\u{1}\u{8}é"})),
            r#"{"a":"\u003cx\u003e\u0026\u2028\u0001\bé","b":[1,null,true]}"#
        );
    }
}
