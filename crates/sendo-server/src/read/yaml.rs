//! JSON values written as YAML, in the layout of Kubernetes' tools: sorted keys,
//! lists level with their key, quotes only where a plain word would mean something else.

use serde_json::Value;

/// The YAML text of a value, ending in a line break.
pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => object(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => array(&mut out, items, 0),
        scalar => {
            inline(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

fn object(out: &mut String, value: &Value, depth: usize) {
    for (at, (key, member)) in value.as_object().into_iter().flatten().enumerate() {
        if at > 0 {
            indent(out, depth);
        }
        text(out, key, depth);
        out.push(':');
        match member {
            Value::Object(members) if !members.is_empty() => {
                out.push('\n');
                indent(out, depth + 2);
                object(out, member, depth + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                indent(out, depth);
                array(out, items, depth);
            }
            scalar => {
                out.push(' ');
                inline(out, scalar, depth + 2);
                out.push('\n');
            }
        }
    }
}

fn array(out: &mut String, items: &[Value], depth: usize) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            indent(out, depth);
        }
        out.push_str("- ");
        match item {
            Value::Object(members) if !members.is_empty() => object(out, item, depth + 2),
            Value::Array(inner) if !inner.is_empty() => array(out, inner, depth + 2),
            scalar => {
                inline(out, scalar, depth + 2);
                out.push('\n');
            }
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n(' ', depth));
}

fn inline(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::String(string) => text(out, string, depth),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

/// A text: plain if it reads back as itself, in a block if it has lines, quoted otherwise.
fn text(out: &mut String, string: &str, depth: usize) {
    let printable = !string.chars().any(|c| c.is_control() && c != '\n');
    if string.contains('\n') && printable && !string.starts_with([' ', '\n']) {
        block(out, string, depth);
    } else if means_something_else(string) || string.chars().any(char::is_control) {
        out.push_str(&Value::from(string).to_string());
    } else if is_plain(string) {
        out.push_str(string);
    } else {
        out.push('\'');
        out.push_str(&string.replace('\'', "''"));
        out.push('\'');
    }
}

fn block(out: &mut String, string: &str, depth: usize) {
    let body = string.trim_end_matches('\n');
    out.push_str(match string.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let lines = string.strip_suffix('\n').unwrap_or(string);
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
    }
}

/// Whether YAML 1.1 reads the plain word as something that is no text.
fn means_something_else(string: &str) -> bool {
    let words = [
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "<<",
        "=",
    ];
    let lower = string.to_ascii_lowercase();
    let bare = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    if words.contains(&lower.as_str()) || bare == ".inf" {
        return true;
    }
    let starts_like_a_number = bare.starts_with(|c: char| c.is_ascii_digit())
        || bare
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    starts_like_a_number && (is_number(bare) || is_time(string))
}

fn is_number(bare: &str) -> bool {
    let digits = bare.replace('_', "");
    if let Some(hex) = digits.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).is_ok();
    }
    if let Some(octal) = digits.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).is_ok();
    }
    if let Some(binary) = digits.strip_prefix("0b") {
        return u64::from_str_radix(binary, 2).is_ok();
    }
    let sexagesimal = digits.contains(':')
        && digits
            .split(':')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let decimal = digits
        .bytes()
        .all(|b| b.is_ascii_digit() || b".e+-".contains(&b))
        && digits.parse::<f64>().is_ok();
    sexagesimal || decimal
}

/// `2026-01-01`, alone or with a time behind it.
fn is_time(string: &str) -> bool {
    let mut parts = string.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let number = |text: &str, sizes: &[usize]| {
        sizes.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    let day_end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (day, time) = rest.split_at(day_end);
    number(year, &[4])
        && number(month, &[1, 2])
        && number(day, &[1, 2])
        && (time.is_empty() || time.starts_with(['T', 't', ' ']) && time.contains(':'))
}

/// Whether a text can stand without quotes.
fn is_plain(string: &str) -> bool {
    let first_is_special = string.starts_with(|c| "#,[]{}&*!|>'\"%@`".contains(c))
        || (string.starts_with(['-', '?', ':'])
            && string[1..].chars().next().is_none_or(|next| next == ' '));
    let document_mark = string.starts_with("---") || string.starts_with("...");
    !first_is_special
        && !document_mark
        && !string.starts_with(' ')
        && !string.ends_with(' ')
        && !string.ends_with(':')
        && !string.contains(": ")
        && !string.contains(" #")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_layout_is_that_of_kubernetes() {
        let value = json!({
            "metadata": {"name": "a", "finalizers": ["x/y"], "labels": {}},
            "items": [{"a": 1, "b": [{"c": null}]}, []],
            "at": "2026-01-01T00:00:00Z",
        });
        let expected = "\
at: \"2026-01-01T00:00:00Z\"
items:
- a: 1
  b:
  - c: null
- []
metadata:
  finalizers:
  - x/y
  labels: {}
  name: a
";
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn words_that_mean_something_else_are_quoted() {
        for (word, expected) in [
            ("true", "\"true\""),
            ("1.5", "\"1.5\""),
            ("0x1f", "\"0x1f\""),
            ("", "\"\""),
            ("12:30", "\"12:30\""),
            ("1.36.4", "1.36.4"),
            ("5m", "5m"),
            ("a: b", "'a: b'"),
            ("it's #1", "'it''s #1'"),
            ("*x", "'*x'"),
            ("-x", "-x"),
            ("tab\t", "\"tab\\t\""),
        ] {
            assert_eq!(write(&json!(word)), format!("{expected}\n"));
        }
    }

    #[test]
    fn lines_go_into_a_block() {
        assert_eq!(write(&json!({"k": "a\nb\n"})), "k: |\n  a\n  b\n");
        assert_eq!(write(&json!({"k": "a\nb"})), "k: |-\n  a\n  b\n");
        assert_eq!(write(&json!({"k": "a\n\nb\n\n"})), "k: |+\n  a\n\n  b\n\n");
    }

    #[test]
    fn what_is_written_reads_back() {
        let value = json!({"a": ["x", "- y", "#", "?", "no", "~", "1e3", " lead", "trail ", "a:b", "q\"'", "l\n m"], "b": {"c d": {}}});
        let back: Value = serde_saphyr::from_str(&write(&value)).unwrap();
        assert_eq!(back, value);
    }
}
