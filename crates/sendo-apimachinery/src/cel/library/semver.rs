//! Semantic versions, and their CEL functions.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    /// The identifiers of the pre-release.
    before_release: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Number(u64),
    Text(String),
}

impl Version {
    /// Which of two versions is the older; builds are not compared.
    pub(in crate::cel) fn cmp(&self, other: &Version) -> Ordering {
        let release = |version: &Version| version.before_release.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (release(self), release(other)) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => {
                    let pairs = self.before_release.iter().zip(&other.before_release);
                    pairs
                        .map(|(one, other)| match (one, other) {
                            (Part::Number(one), Part::Number(other)) => one.cmp(other),
                            (Part::Number(_), Part::Text(_)) => Ordering::Less,
                            (Part::Text(_), Part::Number(_)) => Ordering::Greater,
                            (Part::Text(one), Part::Text(other)) => one.cmp(other),
                        })
                        .find(|order| order.is_ne())
                        .unwrap_or_else(|| {
                            self.before_release.len().cmp(&other.before_release.len())
                        })
                }
            })
    }

    fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, before) = match rest.split_once('-') {
            Some((patch, before)) => (patch, Some(before)),
            None => (rest, None),
        };
        let numbers = [
            number(major, "major")?,
            number(minor, "minor")?,
            number(patch, "patch")?,
        ];
        let mut before_release = Vec::new();
        for part in before.into_iter().flat_map(|before| before.split('.')) {
            before_release.push(Part::parse(part)?);
        }
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(part) {
                return Err(format!(
                    "Invalid character(s) found in build meta data {}",
                    crate::go_quote(part)
                ));
            }
        }
        Ok(Version {
            numbers,
            before_release,
        })
    }

    /// Reads a version that may begin with `v`, lack parts and have leading zeros.
    fn parse_tolerant(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Version::parse(&parts.join("."))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

fn number(text: &str, which: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        let quoted = crate::go_quote(text);
        return Err(format!(
            "Invalid character(s) found in {which} number {quoted}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        let which = which[..1].to_uppercase() + &which[1..];
        let quoted = crate::go_quote(text);
        return Err(format!(
            "{which} number must not contain leading zeroes {quoted}"
        ));
    }
    text.parse().map_err(|_| {
        let quoted = crate::go_quote(text);
        let why = if text.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        format!("strconv.ParseUint: parsing {quoted}: {why}")
    })
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl Part {
    fn parse(text: &str) -> Result<Part, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            let quoted = crate::go_quote(text);
            if text.len() > 1 && text.starts_with('0') {
                return Err(format!(
                    "Numeric PreRelease version must not contain leading zeroes {quoted}"
                ));
            }
            let number = text
                .parse()
                .map_err(|_| format!("strconv.ParseUint: parsing {quoted}: value out of range"))?;
            return Ok(Part::Number(number));
        }
        if !is_identifier(text) {
            let quoted = crate::go_quote(text);
            return Err(format!("Invalid character(s) found in prerelease {quoted}"));
        }
        Ok(Part::Text(text.to_owned()))
    }
}

fn read(args: &[Value<'_>]) -> Result<Result<Version, String>> {
    match args {
        [Value::Text(text)] | [Value::Text(text), Value::Bool(false)] => Ok(Version::parse(text)),
        [Value::Text(text), Value::Bool(true)] => Ok(Version::parse_tolerant(text)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn parse<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match read(args)? {
        Ok(version) => Ok(Value::Semver(Arc::new(version))),
        Err(error) => Err(Fault::new(error)),
    }
}

pub(in crate::cel) fn is_semver<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(read(args)?.is_ok()))
}

fn numbered<'a>(args: &[Value<'a>], which: usize) -> Result<Value<'a>> {
    match args {
        [Value::Semver(version)] => Ok(Value::Int(version.numbers[which] as i64)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn major<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    numbered(args, 0)
}

pub(in crate::cel) fn minor<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    numbered(args, 1)
}

pub(in crate::cel) fn patch<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    numbered(args, 2)
}
