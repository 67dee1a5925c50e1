//! The default image pull policy, which follows from the tag of the image reference.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/v1/defaults.go`: `SetDefaults_Container`
//! - `pkg/util/parsers/parsers.go`: `ParseImageName`
//! - `vendor/github.com/distribution/reference/normalize.go`: `ParseNormalizedNamed`
//! - `vendor/github.com/distribution/reference/regexp.go`

/// The maximum length of a repository name without its domain.
const MAX_PATH: usize = 255;
/// The repository prefix of a name with a single component.
const OFFICIAL: &str = "library/";

/// The default pull policy: `Always` for the tag `latest`, else `IfNotPresent`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") {
        "Always"
    } else {
        "IfNotPresent"
    }
}

/// The tag of an image reference: `latest` if it has neither tag nor digest, `None` if it has only
/// a digest or is invalid.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash starts the port of the domain.
    let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match name[path_start..].rfind(':') {
        Some(colon) => (
            &name[..path_start + colon],
            Some(&name[path_start + colon + 1..]),
        ),
        None => (name, None),
    };
    let is_reference =
        is_repository(repository) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match (is_reference, tag, digest) {
        (false, ..) => None,
        (true, None, None) => Some("latest"),
        (true, tag, _) => tag,
    }
}

fn is_repository(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((domain, path)) if is_domain(domain) => path,
        _ => name,
    };
    let official = match path.contains('/') || path.len() < name.len() {
        true => 0,
        false => OFFICIAL.len(),
    };
    path.len() + official <= MAX_PATH && !path.is_empty() && path.split('/').all(is_path_component)
}

/// Whether the first component of a name is a domain: it could not be a path component.
fn is_domain(text: &str) -> bool {
    let host = text.split_once(':').map_or(text, |(host, _)| host);
    let looks_like_one =
        text.contains(['.', ':']) || text == "localhost" || text.to_lowercase() != text;
    let label = |label: &str| {
        let alphanumeric = |c: char| c.is_ascii_alphanumeric();
        label.starts_with(alphanumeric)
            && label.ends_with(alphanumeric)
            && label.chars().all(|c| alphanumeric(c) || c == '-')
    };
    looks_like_one && (text.starts_with('[') || host.split('.').all(label))
}

/// Whether a text consists of lowercase alphanumeric runs separated by one dot, one or two
/// underscores, or any number of dashes.
fn is_path_component(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(word).filter(|separator| !separator.is_empty());
    text.starts_with(word)
        && text.ends_with(word)
        && separators
            .into_iter()
            .all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.starts_with(word)
        && text.chars().all(|c| word(c) || c == '.' || c == '-')
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let lengths = [("sha256", 64), ("sha384", 96), ("sha512", 128)];
    let length = lengths
        .iter()
        .find(|(name, _)| *name == algorithm)
        .map(|(_, length)| *length);
    length == Some(hex.len()) && hex.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_decides_when_to_pull() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let cases = [
            ("nginx".to_owned(), "Always"),
            ("nginx:latest".to_owned(), "Always"),
            ("nginx:1.0".to_owned(), "IfNotPresent"),
            ("registry.example:5000/a/b".to_owned(), "Always"),
            ("registry.example:5000/a/b:v1".to_owned(), "IfNotPresent"),
            (format!("nginx@{digest}"), "IfNotPresent"),
            (format!("nginx:latest@{digest}"), "Always"),
            ("Upper/Case".to_owned(), "IfNotPresent"),
            ("nginx:".to_owned(), "IfNotPresent"),
            (String::new(), "IfNotPresent"),
            ("a".repeat(247), "Always"),
            ("a".repeat(248), "IfNotPresent"),
            (format!("registry.example/{}", "a".repeat(255)), "Always"),
        ];
        for (image, policy) in cases {
            assert_eq!(pull_policy(&image), policy, "{image}");
        }
    }
}
