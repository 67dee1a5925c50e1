//! Parses URLs as Go's `net/url` does, with its error messages.
//!
//! Follows Kubernetes 1.36:
//! - `$GOROOT/src/net/url/url.go`: `Parse`, `parse`, `getScheme`, `parseHost`, `unescape`

use sendo_apimachinery::go_quote;

/// The parts of a URL that validation looks at.
pub(super) struct Url<'a> {
    pub(super) scheme: String,
    pub(super) user: Option<&'a str>,
    pub(super) host: &'a str,
    pub(super) query: &'a str,
    pub(super) fragment: &'a str,
}

impl<'a> Url<'a> {
    /// Parses a URL.
    ///
    /// # Errors
    /// Go's error message if the text is not a URL.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
        let refuse = |text: &str, fault: String| format!("parse {}: {fault}", go_quote(text));
        let mut url = Self::without_fragment(whole).map_err(|fault| refuse(whole, fault))?;
        check_escapes(fragment).map_err(|fault| refuse(text, fault))?;
        url.fragment = fragment;
        Ok(url)
    }

    fn without_fragment(text: &'a str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            scheme: scheme.to_lowercase(),
            user: None,
            host: "",
            query,
            fragment: "",
        };
        if !rest.starts_with('/') {
            let first = rest.split('/').next().unwrap_or_default();
            return match scheme.is_empty() && first.contains(':') {
                true => Err("first path segment in URL cannot contain colon".to_owned()),
                false => Ok(url),
            };
        }
        let mut path = rest;
        let has_authority = !scheme.is_empty() || !rest.starts_with("///");
        if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
            let end = authority.find('/').unwrap_or(authority.len());
            path = &authority[end..];
            let authority = &authority[..end];
            (url.user, url.host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            check_host(url.host)?;
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !url.user.unwrap_or_default().chars().all(fits) {
                return Err("net/url: invalid userinfo".to_owned());
            }
        }
        check_escapes(path)?;
        Ok(url)
    }
}

/// Splits a URL into its scheme, which ends at the first colon, and the rest. The scheme is empty
/// if another delimiter comes first.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest))
            if scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(inner) =>
        {
            Ok((scheme, rest))
        }
        _ => Ok(("", text)),
    }
}

/// Checks a host: a name or an address, with an optional port.
fn check_host(host: &str) -> Result<(), String> {
    let port = match host.rfind('[') {
        Some(0) => match host.rfind(']') {
            Some(end) => &host[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        },
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let digits = port.strip_prefix(':');
    let is_port = digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !is_port {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    if let Some(odd) = host.chars().find(|c| c.is_ascii() && !fits(*c)) {
        let odd = go_quote(odd.encode_utf8(&mut [0; 4]));
        return Err(format!("invalid character {odd} in host name"));
    }
    check_escapes(host)
}

/// Checks that every `%` is followed by two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", go_quote(&shown)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_urls_are_those_of_go() {
        for (text, expected) in [
            (
                "a\u{7}b",
                "parse \"a\\ab\": net/url: invalid control character in URL",
            ),
            (":x", "parse \":x\": missing protocol scheme"),
            (
                "1a:b",
                "parse \"1a:b\": first path segment in URL cannot contain colon",
            ),
            (
                "https://h:x/",
                "parse \"https://h:x/\": invalid port \":x\" after host",
            ),
            (
                "https://[::1",
                "parse \"https://[::1\": missing ']' in host",
            ),
            ("https://a[b]", "parse \"https://a[b]\": invalid IP-literal"),
            (
                "https://a b",
                "parse \"https://a b\": invalid character \" \" in host name",
            ),
            (
                "https://u^@h",
                "parse \"https://u^@h\": net/url: invalid userinfo",
            ),
            (
                "https://h/%zz#f",
                "parse \"https://h/%zz\": invalid URL escape \"%zz\"",
            ),
            (
                "https://h/#%1",
                "parse \"https://h/#%1\": invalid URL escape \"%1\"",
            ),
        ] {
            assert_eq!(Url::parse(text).err().as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "a",
            "mailto:x",
            "https://h:80/p%20q",
            "//h",
            "https://[::1]:443/",
        ] {
            assert!(Url::parse(text).is_ok(), "{text}");
        }
    }
}
