//! What names may look like: objects, labels, ports, keys.
//!
//! Every check takes a text and returns what is wrong with it, one sentence for
//! each fault in Kubernetes' words; an empty list means that the text is fine.

use crate::field::{Error, Path};

/// A check of a name: the faults found, none if it is fine.
pub type Check = fn(&str) -> Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// A label of a domain name: namespaces, container names and most generated hosts.
///
/// At most 63 characters of `a-z`, `0-9` and `-`, with no `-` at either end.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 63);
    if !is_label(value) {
        faults.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    faults
}

/// A domain name: what most objects' names are.
///
/// At most 253 characters, labels of [`dns1123_label`]'s form joined by dots.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 253);
    if !is_subdomain(value) {
        faults.push(subdomain_rule());
    }
    faults
}

/// A domain name whose labels may also contain and start with `_`, as DNS searches take it.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 253);
    let fits = value.split('.').all(|label| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        wrapped(rest, is_lower_alphanumeric, |b| {
            is_lower_alphanumeric(b) || b == b'-' || b == b'_'
        })
    });
    if !fits {
        faults.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    faults
}

/// A domain name whose first label is `*`, as Ingress hosts take it.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 253);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    faults
}

/// A label that starts with a letter: the names of Services.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 63);
    if !(is_label(value) && value.as_bytes()[0].is_ascii_lowercase()) {
        faults.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// A segment of a request path: the least that every object's name must be.
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|part| value.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A check of the prefix that a name is generated from: a `-` at its end is fine.
pub fn generate_name(prefix: &str, check: Check) -> Vec<String> {
    match prefix.strip_suffix('-') {
        // What is validated is one shorter than the prefix, with an alphanumeric character at its end.
        Some(stem) if stem.ends_with(|c: char| c.is_ascii()) => {
            check(&format!("{}a", &stem[..stem.len() - 1]))
        }
        _ => check(prefix),
    }
}

/// A name with an optional domain before a `/`: label keys, finalizers, condition types.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let slash = |byte| byte == b'/';
    let split = value.bytes().position(slash);
    let name = match split.map(|at| (&value[..at], &value[at + 1..])) {
        None => value,
        Some((_, name)) if name.bytes().any(slash) => {
            let rule = qualified_rule();
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    faults.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !is_subdomain(prefix) {
                    faults.push(format!("prefix part {}", subdomain_rule()));
                }
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified_part(name) {
        faults.push(format!("name part {}", qualified_rule()));
    }
    faults
}

/// The value of a label: empty, or at most 63 characters of a word.
pub fn label_value(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified_part(value) {
        faults.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// An identifier of the C language.
pub fn c_identifier(value: &str) -> Vec<String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let fits = value.bytes().all(word) && value.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    if fits {
        return Vec::new();
    }
    vec![pattern(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable: any printable ASCII text without `=`.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.is_empty() {
        faults.push("environment variable name must be non-empty".to_owned());
    }
    if !value
        .bytes()
        .all(|b| (b' '..=b'~').contains(&b) && b != b'=')
    {
        faults.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    faults
}

/// A key of a ConfigMap or Secret, which may become a file's name.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 253);
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if value.is_empty() || !value.bytes().all(fits) {
        faults.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if value == "." || value == ".." {
        faults.push(format!("must not be '{value}'"));
    } else if value.starts_with("..") {
        faults.push("must not start with '..'".to_owned());
    }
    faults
}

/// The name of a port: at most 15 characters with a letter among them.
pub fn port_name(value: &str) -> Vec<String> {
    let mut faults = too_long(value, 15);
    if value.is_empty() || !value.bytes().all(|b| is_lower_alphanumeric(b) || b == b'-') {
        faults.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// The number of a port.
pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65535)
}

/// The id of a Unix user or group.
pub fn unix_id(value: i64) -> Vec<String> {
    in_range(value, 0, i64::from(i32::MAX))
}

/// A number between two others, both allowed.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// A number of per cent, as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty()
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Vec::new();
    }
    vec![pattern(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A domain name of at least two labels, with or without a dot at its end.
pub fn fully_qualified_domain_name(path: &Path, value: &str) -> Vec<Error> {
    if value.is_empty() {
        return vec![Error::required(path, "")];
    }
    let name = value.strip_suffix('.').unwrap_or(value);
    let faults = dns1123_subdomain(name);
    if !faults.is_empty() {
        return vec![Error::invalid(path, name, faults.join(","))];
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return vec![Error::invalid(path, name, detail)];
    }
    let bad_label = name
        .split('.')
        .find(|label| !dns1123_label(label).is_empty());
    match bad_label {
        Some(label) => vec![Error::invalid(path, label, dns1123_label(label).join(","))],
        None => Vec::new(),
    }
}

/// A domain name of at least three labels.
pub fn fully_qualified_name(path: &Path, value: &str) -> Vec<Error> {
    if value.is_empty() {
        return vec![Error::required(path, "")];
    }
    let faults = dns1123_subdomain(value);
    if !faults.is_empty() {
        return vec![Error::invalid(path, value, faults.join(","))];
    }
    if value.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return vec![Error::invalid(path, value, detail)];
    }
    Vec::new()
}

/// A domain and a path, as `example.com/thing`.
pub fn domain_prefixed_path(path: &Path, value: &str) -> Vec<Error> {
    if value.is_empty() {
        return vec![Error::required(path, "")];
    }
    let (host, rest) = match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => (host, rest),
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return vec![Error::invalid(path, value, detail)];
        }
    };
    let mut errors: Vec<Error> = dns1123_subdomain(host)
        .into_iter()
        .map(|fault| Error::invalid(path, host, fault))
        .collect();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !rest.bytes().all(allowed) {
        let detail = pattern("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        errors.push(Error::invalid(path, rest, detail));
    }
    errors
}

/// Whether a text has the form of a DNS-1123 label, whatever its length.
fn is_label(value: &str) -> bool {
    wrapped(value, is_lower_alphanumeric, |b| {
        is_lower_alphanumeric(b) || b == b'-'
    })
}

/// Whether a text is labels with dots between them, in one look at each byte.
fn is_subdomain(value: &str) -> bool {
    let mut before = b'.';
    for &byte in value.as_bytes() {
        let fits = match byte {
            b'.' => is_lower_alphanumeric(before),
            b'-' => before != b'.',
            _ => is_lower_alphanumeric(byte),
        };
        if !fits {
            return false;
        }
        before = byte;
    }
    is_lower_alphanumeric(before)
}

fn is_qualified_part(value: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    wrapped(value, |b| b.is_ascii_alphanumeric(), inner)
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// Whether a text is not empty, has only `inner` bytes, and `edge` ones at its ends.
fn wrapped(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    edge(first) && edge(last) && bytes.iter().all(|&b| inner(b))
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max {
        vec![format!("must be no more than {max} characters")]
    } else {
        Vec::new()
    }
}

fn subdomain_rule() -> String {
    pattern(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        SUBDOMAIN,
        &["example.com"],
    )
}

fn qualified_rule() -> String {
    pattern(QUALIFIED_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"])
}

/// The sentence about a text that does not fit a pattern.
pub fn pattern(rule: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{regex}')");
    }
    // The comma before each "or" is Kubernetes' own.
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{regex}')",
        examples.join(" or ")
    )
}

#[cfg(test)]
mod tests;
