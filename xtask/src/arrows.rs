//! `cargo xtask arrows`: the top-level modules of each crate use each other in
//! one direction only.
//!
//! A cycle between modules means that none of them can be understood, tested or
//! moved without the others. Test modules may use anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use regex::Regex;

/// Which modules a module uses, each with one file that does.
type Uses = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// Checks every crate of the workspace; fails if one has a cycle, and names the
/// files that close it.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut cycles = Vec::new();
    for crate_dir in crates()? {
        let source = crate_dir.join("src");
        let uses = uses_of(&source)?;
        let modules = uses.len();
        match cycle(&uses) {
            None => println!("{}: {modules} modules, no cycle", crate_dir.display()),
            Some(cycle) => cycles.push(describe(&crate_dir, &uses, &cycle)),
        }
    }
    if !cycles.is_empty() {
        bail!(
            "{}\nMove what both sides need into a module below them.",
            cycles.join("\n")
        );
    }
    Ok(())
}

/// The folders of the workspace's crates that are libraries.
fn crates() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("crates").context("run this at the workspace's root")? {
        let path = entry?.path();
        if path.join("src/lib.rs").exists() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn describe(crate_dir: &Path, uses: &Uses, cycle: &[String]) -> String {
    let next = cycle.iter().skip(1).chain(cycle.first());
    let steps = cycle.iter().zip(next).map(|(from, to)| {
        let file = uses[from][to].display();
        format!("  {from} uses {to} in {file}")
    });
    let steps: Vec<String> = steps.collect();
    format!(
        "{}: a cycle of modules\n{}",
        crate_dir.display(),
        steps.join("\n")
    )
}

/// What the top-level modules of a crate use of each other.
fn uses_of(source: &Path) -> anyhow::Result<Uses> {
    let root = fs::read_to_string(source.join("lib.rs"))?;
    let exports = exports(&without_comments(&root));
    let mut files = Vec::new();
    collect(source, &mut files)?;
    let mut uses = Uses::new();
    for file in files {
        let below = file.strip_prefix(source)?;
        let Some(module) = module_of(below) else {
            continue;
        };
        let text = without_tests(&without_comments(&fs::read_to_string(&file)?));
        let used = uses.entry(module.clone()).or_default();
        for name in names_below_crate(&text) {
            let name = exports.get(&name).unwrap_or(&name);
            let is_module =
                source.join(name).is_dir() || source.join(format!("{name}.rs")).exists();
            if is_module && *name != module {
                used.entry(name.clone()).or_insert_with(|| file.clone());
            }
        }
    }
    Ok(uses)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The top-level module that a file belongs to; none for the root and for tests.
fn module_of(below: &Path) -> Option<String> {
    let mut parts = below.iter().map(|part| part.to_string_lossy());
    let is_test = |part: &str| {
        let stem = part.trim_end_matches(".rs");
        stem == "tests" || stem.ends_with("_tests")
    };
    if parts.clone().any(|part| is_test(&part)) {
        return None;
    }
    let first = parts.next()?;
    let module = first.trim_end_matches(".rs").to_owned();
    (!matches!(module.as_str(), "lib" | "main")).then_some(module)
}

/// The names that the root exports from a module: `pub use cache::{Index, Listing}`.
fn exports(root: &str) -> BTreeMap<String, String> {
    let statement = Regex::new(r"pub(?:\([a-z]+\))? use (\w+)::([^;]+);").expect("a regex of ours");
    let name = Regex::new(r"\w+").expect("a regex of ours");
    let mut exports = BTreeMap::new();
    for found in statement.captures_iter(root) {
        for exported in name.find_iter(&found[2]) {
            exports.insert(exported.as_str().to_owned(), found[1].to_owned());
        }
    }
    exports
}

/// The first names of all paths that begin with `crate::`, in braces or not.
fn names_below_crate(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, path) in text.match_indices("crate::") {
        let is_own = text[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric() && before != '_' && before != '$');
        if is_own {
            first_names(&text[at + path.len()..], &mut names);
        }
    }
    names
}

fn first_names(rest: &str, names: &mut BTreeSet<String>) {
    let name_of = |text: &str| -> String {
        let text = text.trim_start();
        let is_part = |character: &char| character.is_alphanumeric() || *character == '_';
        text.chars().take_while(is_part).collect()
    };
    let Some(list) = rest.strip_prefix('{') else {
        names.insert(name_of(rest));
        return;
    };
    let (mut depth, mut from) = (0, 0);
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.insert(name_of(&list[from..at]));
                from = at + 1;
                if character == '}' {
                    return;
                }
            }
            _ => {}
        }
    }
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find("//") {
        // A link in a text is no comment.
        Some(at) if !line[..at].ends_with(':') => &line[..at],
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text without its inline test modules, which stand at the end.
fn without_tests(text: &str) -> String {
    let tests = Regex::new(r"#\[cfg\(test\)\]\s*mod \w+ \{").expect("a regex of ours");
    match tests.find(text) {
        Some(found) => text[..found.start()].to_owned(),
        None => text.to_owned(),
    }
}

/// A cycle, if there is one: each module uses the next, the last the first.
fn cycle(uses: &Uses) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    for module in uses.keys() {
        let mut path = Vec::new();
        if let Some(found) = walk(uses, module, &mut path, &mut done) {
            return Some(found);
        }
    }
    None
}

fn walk(
    uses: &Uses,
    module: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = path.iter().position(|own| own == module) {
        return Some(path[at..].to_vec());
    }
    if done.contains(module) {
        return None;
    }
    path.push(module.to_owned());
    for used in uses.get(module).into_iter().flat_map(BTreeMap::keys) {
        if let Some(found) = walk(uses, used, path, done) {
            return Some(found);
        }
    }
    path.pop();
    done.insert(module.to_owned());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_cycle_is_found_through_exports_and_braces() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path();
        write(
            source,
            "lib.rs",
            "mod a; mod b; mod c; pub use c::{Thing, Other as Else};",
        );
        write(source, "a.rs", "use crate::{b::{self, x}, Else};");
        write(source, "b/mod.rs", "fn f() {}");
        write(
            source,
            "c.rs",
            "// use crate::a;\nfn f() { other_crate::a() }",
        );
        let uses = uses_of(source).unwrap();
        let used: Vec<&String> = uses["a"].keys().collect();
        assert_eq!(used, ["b", "c"]);
        assert_eq!(cycle(&uses), None);

        write(source, "c.rs", "fn f() { crate::a::g() }");
        let uses = uses_of(source).unwrap();
        assert_eq!(cycle(&uses), Some(vec!["a".to_owned(), "c".to_owned()]));
        let described = describe(Path::new("x"), &uses, &cycle(&uses).unwrap());
        assert!(described.contains("a uses c in") && described.contains("c uses a in"));
    }

    #[test]
    fn tests_may_use_anything() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path();
        write(source, "lib.rs", "mod a; mod b;");
        write(source, "a.rs", "use crate::b;");
        write(
            source,
            "b/mod.rs",
            "#[cfg(test)]\nmod tests {\n use crate::a;\n}",
        );
        write(source, "b/more_tests.rs", "use crate::a;");
        assert_eq!(cycle(&uses_of(source).unwrap()), None);
    }
}
