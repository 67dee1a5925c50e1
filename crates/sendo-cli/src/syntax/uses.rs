//! Where code names a module of its crate.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

use super::SourceFile;

/// The places in a file that name what is in a module, by the module's path from the root of the
/// crate, such as `["bar", "v1"]`. Macros are looked into, too.
///
/// A path may begin at the root of the crate (`crate::bar`, or the crate's name), at the module
/// above (`bar::v1`), or at the module itself where that is in scope (`super::v1`).
pub(crate) fn uses_of_module(
    file: &SourceFile,
    library: &str,
    module: &[String],
) -> Vec<Range<usize>> {
    let Ok(tokens) = file.text.parse::<TokenStream>() else {
        return Vec::new();
    };
    let mut words = Vec::new();
    flatten(tokens, &mut words);
    let Some(name) = module.last() else {
        return Vec::new();
    };
    let above = &module[..module.len() - 1];
    let is_inside = file
        .module_path()
        .is_some_and(|path| path.starts_with(above));
    let text = |at: usize| words.get(at).map_or("", |(text, _)| text.as_str());
    let mut found = Vec::new();
    for (at, (word, range)) in words.iter().enumerate() {
        if word != name {
            continue;
        }
        let is_below = at >= 3 && text(at - 1) == ":" && text(at - 2) == ":";
        let is_named = match if is_below { text(at - 3) } else { "" } {
            "" => text(at + 1) == ":" && text(at + 2) == ":" && (above.is_empty() || is_inside),
            "self" | "super" => is_inside,
            "crate" => above.is_empty(),
            before => match above.last() {
                None => before == library,
                Some(parent) => parent == before,
            },
        };
        if is_named {
            found.push(range.clone());
        }
    }
    found
}

/// The words and signs of a file in order, without the brackets.
fn flatten(tokens: TokenStream, words: &mut Vec<(String, Range<usize>)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                words.push(("(".to_owned(), group.span_open().byte_range()));
                flatten(group.stream(), words);
                words.push((")".to_owned(), group.span_close().byte_range()));
            }
            other => words.push((other.to_string(), other.span().byte_range())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(path: &str, text: &str, module: &[&str]) -> Vec<usize> {
        let file = SourceFile {
            path: path.into(),
            text: text.to_owned(),
            tree: syn::parse_file(text).unwrap(),
        };
        let module: Vec<String> = module.iter().map(ToString::to_string).collect();
        let found = uses_of_module(&file, "boats", &module);
        let line = |range: Range<usize>| text[..range.start].matches('\n').count() + 1;
        found.into_iter().map(line).collect()
    }

    #[test]
    fn paths_imports_and_macros_name_a_module() {
        let text = "use crate::bar;
use boats::bar::Bar;
use crate::{bar::v1::Bar, other};
fn f() { json!(bar::NAME); }
fn g(bar: u8) { h(bar); other::bar::x(); }
";
        assert_eq!(uses("tests/x.rs", text, &["bar"]), [1, 2, 3, 4]);
    }

    #[test]
    fn a_module_below_another_is_named_by_its_parent_or_its_siblings() {
        let text = "use super::v1::Bar;
fn f() { bar::v1::g(); foo::v1::g(); }
";
        let v1 = ["bar", "v1"];
        assert_eq!(uses("src/bar/controller.rs", text, &v1), [1, 2]);
        assert_eq!(uses("src/foo/controller.rs", text, &v1), [2]);
    }
}
