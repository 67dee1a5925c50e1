//! The formats that texts of custom resources can be held to.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::addresses::Cidr;
use crate::names;

/// The formats in a schema, and in those within it, that constrain nothing because nobody knows them.
pub fn unrecognized_formats(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    // Not by recursion: a schema may be thousands of levels deep.
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        let format = schema["format"].as_str().unwrap_or_default();
        let is_known = match schema["type"].as_str().unwrap_or_default() {
            "" | "string" => has_format("", format).is_some(),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        };
        if !format.is_empty() && !is_known {
            found.push(format.to_owned());
        }
        let single = ["items", "not", "additionalProperties", "additionalItems"];
        let lists = ["allOf", "anyOf", "oneOf"];
        let maps = ["properties", "patternProperties", "definitions"];
        let single = single.iter().map(|key| &schema[key]);
        let lists = lists.iter().filter_map(|key| schema[key].as_array());
        let maps = maps.iter().filter_map(|key| schema[key].as_object());
        let within = single
            .chain(lists.flatten())
            .chain(maps.flat_map(Map::values));
        let within: Vec<&Value> = within.filter(|schema| schema.is_object()).collect();
        open.extend(within.into_iter().rev());
    }
    found
}

/// Whether a text has a format; `None` if the format is unknown, which constrains nothing.
///
/// Dashes in a format's name do not matter: `date-time` is `datetime`.
pub(crate) fn has_format(text: &str, format: &str) -> Option<bool> {
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && is_hex(text),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, _)| {
            address.parse::<std::net::IpAddr>().is_ok() && Cidr::parse(text).is_some()
        }),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is_ssn(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && is_hex(digits)
        }
        "rgbcolor" => is_rgb_color(text),
        "byte" => {
            !text.is_empty()
                && base64::engine::general_purpose::STANDARD
                    .decode(text)
                    .is_ok()
        }
        "password" => true,
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => names::dns1123_label(text).is_empty(),
        "k8slongname" => names::dns1123_subdomain(text).is_empty(),
        _ => return None,
    })
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// A URI as in a request line: with a scheme, or a path from the root.
fn is_request_uri(text: &str) -> bool {
    let printable = |c: char| !c.is_ascii_control() && c != ' ';
    if !text.chars().all(printable) || !has_valid_escapes(text) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut characters = scheme.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
}

fn has_valid_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|part| part.get(..2).is_some_and(is_hex))
}

/// An address, alone or behind a name as in `Ann <ann@example.com>`.
fn is_email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>') {
        Some(named) => named.split_once('<').map_or("", |(_, address)| address),
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let dotted = |part: &str| {
        part.split('.')
            .all(|word| !word.is_empty() && word.chars().all(atom))
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || dotted(local)) && dotted(domain)
}

fn is_hostname(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c.is_alphabetic() || is_symbol(c);
    if text.is_empty() || text.len() > 255 {
        return false;
    }
    let labels: Vec<&str> = text.split('.').collect();
    let inner = |label: &&str| {
        label.chars().all(|c| word(c) || c == '-')
            && label.chars().next().is_some_and(word)
            && label.chars().last().is_some_and(word)
    };
    if labels.iter().any(|label| label.len() > 63 || !inner(label)) {
        return false;
    }
    match labels.as_slice() {
        // A lone label has at most one dash, right behind its first character.
        [label] => label.chars().skip(2).all(|c| c != '-'),
        [.., last] => last.chars().count() >= 2 && last.chars().all(char::is_alphabetic),
        [] => false,
    }
}

/// A symbol of currency, mathematics and the like, of which host names may have some in Kubernetes.
fn is_symbol(c: char) -> bool {
    matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
        || (!c.is_ascii() && !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control())
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, size: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let bytes = parts.len() * size / 2;
        parts.iter().all(|part| part.len() == size && is_hex(part)) && matches!(bytes, 6 | 8 | 20)
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text;
    let mut groups = Vec::new();
    for (i, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some(group) = rest.get(..length).filter(|group| is_hex(group)) else {
            return false;
        };
        groups.push(group);
        rest = &rest[length..];
    }
    let fits_version = version.is_none_or(|version| groups[2].as_bytes()[0] == version);
    let variant = groups[3].as_bytes()[0].to_ascii_lowercase();
    let fits_variant = !matches!(version, Some(b'4' | b'5')) || b"89ab".contains(&variant);
    rest.is_empty() && fits_version && fits_variant
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    let Some((body, check)) = text.split_at_checked(9) else {
        return false;
    };
    let check = match check {
        "X" => 10,
        check if check.len() == 1 && digits(check) => u32::from(check.as_bytes()[0] - b'0'),
        _ => return false,
    };
    let sum: u32 = body
        .bytes()
        .zip(1..)
        .map(|(b, i)| u32::from(b.wrapping_sub(b'0')) * i)
        .sum();
    digits(body) && (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = without_separators(text);
    let sum: u32 = text
        .bytes()
        .zip([1, 3].into_iter().cycle())
        .map(|(b, factor)| u32::from(b.wrapping_sub(b'0')) * factor)
        .sum();
    text.len() == 13 && digits(&text) && sum.is_multiple_of(10)
}

/// A card's number: the right check digit, and the form of a known issuer.
fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let prefix = |length: usize| {
        number
            .get(..length)
            .and_then(|p| p.parse::<u32>().ok())
            .unwrap_or(0)
    };
    let known = match number.len() {
        13 => prefix(1) == 4,
        14 => (300..=305).contains(&prefix(3)) || matches!(prefix(2), 36 | 38),
        15 => matches!(prefix(2), 34 | 37) || matches!(prefix(4), 1800 | 2131),
        16 => {
            prefix(1) == 4
                || (51..=55).contains(&prefix(2))
                || prefix(4) == 6011
                || prefix(2) == 65
                || prefix(2) == 35
        }
        _ => false,
    };
    let sum: u32 = number
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| match u32::from(b - b'0') * (1 + (i as u32 % 2)) {
            twice @ 10.. => twice - 9,
            once => once,
        })
        .sum();
    known && sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let mut rest = text;
    for (i, length) in [3, 2, 4].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix(['-', ' ']).unwrap_or(rest);
        }
        let Some(group) = rest.get(..length).filter(|group| digits(group)) else {
            return false;
        };
        rest = &rest[group.len()..];
    }
    rest.is_empty() && text.len() == 11
}

fn is_rgb_color(text: &str) -> bool {
    let inner = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(inner) = inner else {
        return false;
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            let part = part.strip_suffix('%').unwrap_or(part);
            digits(part) && part.len() <= 3 && part.parse::<u32>().is_ok_and(|n| n <= 255)
        })
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    if year.len() != 4 || month.len() != 2 || day.len() != 2 {
        return false;
    }
    if !(digits(year) && digits(month) && digits(day)) {
        return false;
    }
    let (Ok(year), Ok(month), Ok(day)) = (year.parse(), month.parse(), day.parse()) else {
        return false;
    };
    jiff::civil::Date::new(year, month, day).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else {
        return false;
    };
    let time = time.split('t').next().unwrap_or_default();
    let Some(clock) = time.get(..8) else {
        return false;
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = parts[..] else {
        return false;
    };
    let two = |part: &str, max: &str| part.len() == 2 && digits(part) && part <= max;
    let mut rest = &time[8..];
    // Any character may stand before the fraction.
    if let Some(first) = rest.chars().next()
        && !matches!(first, 'z' | '+' | '-')
    {
        let fraction = &rest[first.len_utf8()..];
        let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() == fraction.len() {
            return false;
        }
        rest = after;
    }
    let zone = rest == "z"
        || rest.strip_prefix(['+', '-']).is_some_and(|offset| {
            offset.split_once(':').is_some_and(|(hours, minutes)| {
                hours.len() == 2 && minutes.len() == 2 && digits(hours) && digits(minutes)
            })
        });
    is_date(date) && two(hour, "23") && two(minute, "59") && two(second, "59") && zone
}

/// `1h30m`, or a number and a unit in words as `3 days`.
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_worded_duration(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(unit_text) = units.into_iter().find(|u| {
            unit.strip_prefix(*u).is_some_and(|after| {
                after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            })
        }) else {
            return false;
        };
        rest = &unit[unit_text.len()..];
    }
    true
}

fn has_worded_duration(text: &str) -> bool {
    let exact = [
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr", "d",
        "w", "wk",
    ];
    let prefixes = [
        "nanosecond",
        "microsecond",
        "millisecond",
        "second",
        "minute",
        "hour",
        "day",
        "week",
    ];
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        if !c.is_ascii_digit() {
            continue;
        }
        while chars.next_if(|(_, c)| c.is_ascii_digit()).is_some() {}
        let end = chars.peek().map_or(text.len(), |(i, _)| *i);
        let unit: String = text[end..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphabetic())
            .flat_map(char::to_lowercase)
            .collect();
        let known = exact.contains(&unit.as_str()) || prefixes.iter().any(|p| unit.starts_with(p));
        if known && text[start..end].parse::<i64>().is_ok() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_tell_good_from_bad() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "ipv4",
                &["192.168.0.1"],
                &["192.168.0.256", "::1", "1.2.3", ""],
            ),
            ("ipv6", &["fe80::1", "::"], &["192.168.0.1", "xyz"]),
            (
                "cidr",
                &["192.168.0.0/16", "::/0"],
                &["192.168.0.0", "192.168.0.0/33"],
            ),
            (
                "mac",
                &["01:23:45:67:89:ab", "0123.4567.89ab"],
                &["01:23", "x"],
            ),
            (
                "uri",
                &["https://example.dev/a?b#c", "/path", "urn:x"],
                &["not a uri", "example.dev", "", "http://%zz"],
            ),
            (
                "email",
                &["a@example.dev", "Ann <a@b.c>"],
                &["a.example.dev", "@", "a@", "a b@c"],
            ),
            (
                "hostname",
                &["a-b.example.dev", "localhost"],
                &["a_b!", "-a", "a-", "", "a..b"],
            ),
            (
                "uuid",
                &[
                    "123e4567-e89b-12d3-a456-426614174000",
                    "123E4567E89B12D3A456426614174000",
                ],
                &["123e4567", ""],
            ),
            (
                "uuid4",
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123e4567-e89b-12d3-a456-426614174000"],
            ),
            ("byte", &["aGVsbG8="], &["a", "äö", ""]),
            (
                "date",
                &["2024-05-06"],
                &["2024-5-6", "2024-02-30", "", "2024-05-06T"],
            ),
            (
                "date-time",
                &["2024-05-06T07:08:09.123+02:00", "2024-05-06T07:08:09Z"],
                &[
                    "2024-05-06",
                    "2024-13-06T07:08:09Z",
                    "2024-05-06 07:08:09",
                    "2024-05-06T24:00:00Z",
                ],
            ),
            (
                "duration",
                &["1h30m", "0", "1.5s", "3 days", "22 ns"],
                &["1x", "h", ""],
            ),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["x"]),
            (
                "isbn",
                &["978-3-16-148410-0", "0321751043"],
                &["1", "978-3-16-148410-1"],
            ),
            (
                "creditcard",
                &["4111111111111111"],
                &["1234", "4111111111111112"],
            ),
            ("ssn", &["111-11-1111"], &["1", "111111111"]),
            ("hexcolor", &["#ff0011", "abc"], &["red", "#12345"]),
            (
                "rgbcolor",
                &["rgb(1,2,3)"],
                &["1,2", "rgb(1,2)", "rgb(1,2,256)"],
            ),
            ("k8s-short-name", &["abc"], &["A.b"]),
            ("k8s-long-name", &["abc.def"], &["A_b"]),
        ];
        for (format, good, bad) in cases {
            for text in *good {
                assert_eq!(has_format(text, format), Some(true), "{format} {text:?}");
            }
            for text in *bad {
                assert_eq!(has_format(text, format), Some(false), "{format} {text:?}");
            }
        }
    }

    #[test]
    fn an_unknown_format_constrains_nothing() {
        assert_eq!(has_format("x", "postcode"), None);
        assert_eq!(has_format("x", "int32"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_format_or_not(text in "\\PC{0,40}") {
            for format in ["uri", "email", "hostname", "cidr", "mac", "uuid", "isbn", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "date", "duration", "date-time"] {
                let _ = has_format(&text, format);
            }
        }
    }
}
