//! URLs as Go parses them, and their CEL functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::{Key, Map, Value};
use crate::go_quote;

/// The parts of a URL, read as Go reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// The host with its port.
    host: String,
    path: String,
    query: String,
    rest: String,
}

impl Url {
    /// Reads an absolute URL or path.
    fn parse(text: &str) -> Result<Url, String> {
        let failed = |why: &str| Err(format!("parse {}: {why}", go_quote(text)));
        if text.is_empty() {
            return failed("empty url");
        }
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return failed("net/url: invalid control character in URL");
        }
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = match split_scheme(address) {
            Ok(parts) => parts,
            Err(why) => return failed(why),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return failed("invalid URI for request");
            }
            // What follows is opaque: it has neither host nor path.
            return Ok(Url {
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.to_owned(),
                rest: format!("{rest}#{fragment}"),
            });
        }
        let (mut host, mut path) = ("", rest);
        let mut user = "";
        if let Some(after) = rest.strip_prefix("//")
            && (!scheme.is_empty() || !rest.starts_with("///"))
        {
            let end = after.find('/').unwrap_or(after.len());
            (host, path) = after.split_at(end);
            if let Some((before, behind)) = host.rsplit_once('@') {
                (user, host) = (before, behind);
            }
        }
        if let Err(why) = check_host(host) {
            return failed(&why);
        }
        if let Some(why) = bad_escape(path) {
            return failed(&why);
        }
        Ok(Url {
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            rest: format!("{user}#{fragment}"),
        })
    }

    fn hostname(&self) -> &str {
        let host = match self.host.rfind(':') {
            Some(colon)
                if is_port(&self.host[colon + 1..]) && !self.host[colon..].contains(']') =>
            {
                &self.host[..colon]
            }
            _ => &self.host,
        };
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    fn port(&self) -> &str {
        match self.host.rfind(':') {
            Some(colon)
                if is_port(&self.host[colon + 1..]) && !self.host[colon..].contains(']') =>
            {
                &self.host[colon + 1..]
            }
            _ => "",
        }
    }

    /// The path with everything escaped that must be.
    fn escaped_path(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@!'()*[]%".contains(c);
        let mut escaped = String::with_capacity(self.path.len());
        for c in self.path.chars() {
            if plain(c) {
                escaped.push(c);
            } else {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    escaped.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        escaped
    }

    fn parameters(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) {
                parameters.entry(name).or_default().push(value);
            }
        }
        parameters
    }
}

fn split_scheme(text: &str) -> Result<(String, &str), &'static str> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((text[..i].to_lowercase(), &text[i + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if let Some(inner) = host.strip_prefix('[') {
        let Some((_, after)) = inner.rsplit_once(']') else {
            return Err("missing ']' in host".to_owned());
        };
        after
    } else {
        match host.rfind(':') {
            Some(colon) => &host[colon..],
            None => "",
        }
    };
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    let odd = |c: char| c == ' ' || "\"<>\\^`{|}".contains(c) && !host.starts_with('[');
    if let Some(c) = host.chars().find(|c| odd(*c)) {
        return Err(format!(
            "invalid character {} in host name",
            go_quote(&c.to_string())
        ));
    }
    bad_escape(host).map_or(Ok(()), Err)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn bad_escape(text: &str) -> Option<String> {
    let at = text.char_indices().find(|(i, c)| {
        *c == '%'
            && !text.as_bytes()[i + 1..]
                .iter()
                .take(2)
                .filter(|b| b.is_ascii_hexdigit())
                .count()
                .eq(&2)
    })?;
    let shown: String = text[at.0..].chars().take(3).collect();
    Some(format!("invalid URL escape {}", go_quote(&shown)))
}

fn unescaped(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let hex = bytes.get(at + 1..at + 3)?;
                let hex = std::str::from_utf8(hex).ok()?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                at += 2;
            }
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// What is wrong with a text that should be a URI.
pub(super) fn uri_faults(text: &str) -> Vec<String> {
    Url::parse(text).err().into_iter().collect()
}

pub(in crate::cel) fn parse<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Text(text)] = args else {
        return Err(Fault::no_such_overload());
    };
    match Url::parse(text) {
        Ok(url) => Ok(Value::Url(Arc::new(url))),
        Err(why) => Err(Fault::new(format!(
            "URL parse error during conversion from string: {why}"
        ))),
    }
}

pub(in crate::cel) fn is_url<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Text(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn url<'v>(args: &'v [Value<'_>]) -> Result<&'v Url> {
    match args {
        [Value::Url(url)] => Ok(url),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn scheme<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(url(args)?.scheme.clone().into())
}

pub(in crate::cel) fn host<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(url(args)?.host.clone().into())
}

pub(in crate::cel) fn hostname<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(url(args)?.hostname().to_owned().into())
}

pub(in crate::cel) fn port<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(url(args)?.port().to_owned().into())
}

pub(in crate::cel) fn escaped_path<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(url(args)?.escaped_path().into())
}

pub(in crate::cel) fn query<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let entries = url(args)?.parameters().into_iter().map(|(name, values)| {
        let values = values.into_iter().map(Value::from).collect();
        (Key::Text(name.into()), Value::list(values))
    });
    Ok(Value::Map(Map::Entries(Arc::new(entries.collect()))))
}
