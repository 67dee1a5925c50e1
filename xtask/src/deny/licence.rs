//! SPDX licence expressions, as far as crates use them: names with `OR`, `AND`,
//! `WITH`, parentheses, a `+` for later versions, and the `/` of old manifests.

use std::collections::BTreeSet;

/// The licences of `expression` that are enough and all in `allow`, `None` if
/// there is no such choice, or if it is no expression.
pub(super) fn allowed(expression: &str, allow: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let spaced = spaced.replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let chosen = any(&mut words, allow)?;
    match words.next() {
        None => chosen,
        Some(_) => None,
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// What is chosen of a part; the inner `None` if nothing of it is allowed, the
/// outer one if it cannot be read.
type Choice = Option<Option<BTreeSet<String>>>;

fn any(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Choice {
    let mut chosen = all(words, allow)?;
    while words.next_if_eq(&"OR").is_some() {
        let other = all(words, allow)?;
        // The first that is allowed.
        chosen = chosen.or(other);
    }
    Some(chosen)
}

fn all(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Choice {
    let mut chosen = one(words, allow)?;
    while words.next_if_eq(&"AND").is_some() {
        let other = one(words, allow)?;
        chosen = chosen.zip(other).map(|(mut these, those)| {
            these.extend(those);
            these
        });
    }
    Some(chosen)
}

fn one(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Choice {
    match words.next()? {
        "(" => {
            let chosen = any(words, allow)?;
            words.next_if_eq(&")")?;
            Some(chosen)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        name => {
            let mut name = name.trim_end_matches('+').to_owned();
            if words.next_if_eq(&"WITH").is_some() {
                name = format!("{name} WITH {}", words.next()?);
            }
            Some(allow.contains(&name).then(|| BTreeSet::from([name])))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_by_their_structure() {
        let allow: BTreeSet<_> = ["MIT", "ISC", "MPL-2.0", "Unicode-3.0"]
            .map(str::to_owned)
            .into();
        for (expression, expected) in [
            ("MIT", Some("MIT")),
            ("GPL-3.0", None),
            ("Apache-2.0 OR MIT", Some("MIT")),
            ("Apache-2.0/MIT", Some("MIT")),
            ("MIT AND ISC", Some("ISC,MIT")),
            ("MIT AND GPL-3.0", None),
            (
                "(Apache-2.0 OR MIT) AND Unicode-3.0",
                Some("MIT,Unicode-3.0"),
            ),
            ("GPL-3.0 OR MIT AND ISC", Some("ISC,MIT")),
            ("(GPL-3.0 OR MIT) AND GPL-3.0", None),
            ("MPL-2.0+", Some("MPL-2.0")),
            ("MIT WITH LLVM-exception", None),
            ("Apache-2.0 WITH LLVM-exception OR MIT", Some("MIT")),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
            ("", None),
        ] {
            let chosen = allowed(expression, &allow);
            let chosen = chosen.map(|these| these.into_iter().collect::<Vec<_>>().join(","));
            assert_eq!(chosen.as_deref(), expected, "{expression}");
        }
    }
}
