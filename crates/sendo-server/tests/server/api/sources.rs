//! Files with rules of Kubernetes name the sources they follow.
//!
//! The form of these lists is explained in `src/kinds/mod.rs`. With `SENDO_KUBERNETES_SOURCE` set to
//! a checkout of `kubernetes/kubernetes` (and `GOROOT` to a Go installation, to check the standard
//! library too) the paths and names in the lists are looked up there:
//!
//! ```text
//! SENDO_KUBERNETES_SOURCE=~/kubernetes cargo test --workspace --test server sources
//! ```

use std::fs;
use std::path::{Path, PathBuf};

/// The first line of a list, with the release that this server reproduces.
const HEAD: &str = "Follows Kubernetes 1.36:";

/// Folders of `src` whose files have rules of Kubernetes.
const FOLDERS: [&str; 12] = [
    "access/rbac",
    "access/tokens",
    "aggregator",
    "audit",
    "catalog/custom",
    "kinds",
    "outbound",
    "printers",
    "reviews",
    "state/admission",
    "webhook",
    "write",
];

/// Files in these folders that have no rules: they only gather modules or give access to JSON.
const WITHOUT_RULES: [&str; 14] = [
    "access/tokens/mod.rs",
    "catalog/custom/synced.rs",
    "kinds/batch/mod.rs",
    "kinds/ordered.rs",
    "kinds/storage/mod.rs",
    "kinds/value.rs",
    "outbound/local.rs",
    "outbound/mod.rs",
    "state/admission/claims.rs",
    "webhook/tests.rs",
    "write/admission/lookup.rs",
    "write/admission/pod_security/checks/tests.rs",
    "write/admission/pod_security/tests.rs",
    "write/admission/tests.rs",
];

/// Where paths may start.
const ROOTS: [&str; 5] = [
    "$GOROOT/src/",
    "pkg/",
    "plugin/",
    "staging/src/k8s.io/",
    "vendor/",
];

/// A file of Kubernetes, and the functions and types in it that hold the rules.
#[derive(Debug, PartialEq)]
struct Source {
    path: String,
    names: Vec<String>,
}

/// The sources that the module documentation of `file` lists.
fn sources(file: &str) -> Result<Vec<Source>, String> {
    let docs = file.lines().map_while(|line| line.strip_prefix("//!"));
    let mut lines = docs.map(|line| line.strip_prefix(' ').unwrap_or(line));
    if !lines.any(|line| line == HEAD) {
        return Err(format!("its module documentation has no line `{HEAD}`"));
    }
    let mut items: Vec<String> = Vec::new();
    for line in lines {
        match (line.strip_prefix("- "), line.strip_prefix("  ")) {
            (Some(item), _) => items.push(item.to_owned()),
            (None, Some(rest)) if !items.is_empty() => {
                let item = items.last_mut().expect("there is an item");
                item.push(' ');
                item.push_str(rest);
            }
            _ => {
                return Err(format!(
                    "the list of sources must end the documentation: {line:?}"
                ));
            }
        }
    }
    if items.is_empty() {
        return Err(format!("no source follows `{HEAD}`"));
    }
    items.iter().map(|item| source(item)).collect()
}

/// `` `path`: `name`, `name` `` or `` `path` ``.
fn source(item: &str) -> Result<Source, String> {
    let (path, names) = match item.split_once(": ") {
        Some((path, names)) => (path, names.split(", ").collect()),
        None => (item, Vec::new()),
    };
    let quoted = |text: &str| {
        let inner = text
            .strip_prefix('`')
            .and_then(|text| text.strip_suffix('`'));
        let inner = inner.filter(|inner| !inner.is_empty() && !inner.contains(['`', ' ']));
        inner.map(str::to_owned)
    };
    let form = || format!("a source has the form `path`: `name`, `name`, not {item:?}");
    let path = quoted(path).ok_or_else(form)?;
    if !path.ends_with(".go") || !ROOTS.iter().any(|root| path.starts_with(root)) {
        return Err(format!(
            "{path} is not a Go file below one of {}",
            ROOTS.join(", ")
        ));
    }
    let names: Option<Vec<String>> = names.into_iter().map(quoted).collect();
    let names = names.ok_or_else(form)?;
    Ok(Source { path, names })
}

/// Whether a Go file declares a function, method or type of this name.
fn declares(go: &str, name: &str) -> bool {
    let ends = |rest: &str| {
        rest.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['(', '[', ' ']))
    };
    go.lines().any(|line| {
        let function = line.strip_prefix("func ").map(|rest| {
            let method = rest
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(") "));
            method.map_or(rest, |(_, rest)| rest)
        });
        let kind = line.strip_prefix("type ");
        function.or(kind).is_some_and(ends)
    })
}

/// Why a source does not exist in the copy of Kubernetes at `root`.
fn fault_in(root: &Path, go_root: Option<&Path>, source: &Source) -> Option<String> {
    let path = match source.path.strip_prefix("$GOROOT/") {
        Some(rest) => go_root?.join(rest),
        None => root.join(&source.path),
    };
    let Ok(go) = fs::read_to_string(&path) else {
        return Some(format!("{} does not exist", path.display()));
    };
    let missing = source.names.iter().find(|name| !declares(&go, name));
    missing.map(|name| format!("{} does not declare {name}", path.display()))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn files_with_rules_list_their_sources() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let kubernetes = std::env::var_os("SENDO_KUBERNETES_SOURCE").map(PathBuf::from);
    let go_root = std::env::var_os("GOROOT").map(PathBuf::from);
    let mut files = Vec::new();
    for folder in FOLDERS {
        rust_files(&src.join(folder), &mut files);
    }
    files.sort();
    let mut without_rules = WITHOUT_RULES.to_vec();
    let mut faults = Vec::new();
    for file in files {
        let name = file.strip_prefix(&src).expect("the file is below src");
        let name = name.to_str().expect("its name is text").replace('\\', "/");
        let exempt = without_rules.iter().position(|exempt| *exempt == name);
        let listed = sources(&fs::read_to_string(&file).expect("the file can be read"));
        match (exempt, listed) {
            (Some(exempt), Err(_)) => {
                without_rules.remove(exempt);
            }
            (Some(_), Ok(_)) => faults.push(format!(
                "src/{name} lists sources: take it out of WITHOUT_RULES"
            )),
            (None, Err(fault)) => faults.push(format!("src/{name}: {fault}")),
            (None, Ok(listed)) => {
                let root = kubernetes.as_deref();
                let missing = root.map(|root| {
                    let faults = listed.iter();
                    faults.filter_map(|source| fault_in(root, go_root.as_deref(), source))
                });
                let missing = missing.into_iter().flatten();
                faults.extend(missing.map(|fault| format!("src/{name}: {fault}")));
            }
        }
    }
    let gone = without_rules.iter();
    faults.extend(gone.map(|name| format!("src/{name} is in WITHOUT_RULES and does not exist")));
    assert!(
        faults.is_empty(),
        "The source of every rule must be named (see \"Sources\" in src/kinds/mod.rs):\n{}",
        faults.join("\n")
    );
}

#[test]
fn a_list_of_sources_has_one_form() {
    let good = "//! Nodes.\n//!\n//! Follows Kubernetes 1.36:\n//! - `pkg/a.go`: `A`,\n//!   `B`\n//! - `plugin/b.go`\n\nuse c;\n";
    let expected = |path: &str, names: &[&str]| Source {
        path: path.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    assert_eq!(
        sources(good).unwrap(),
        [
            expected("pkg/a.go", &["A", "B"]),
            expected("plugin/b.go", &[])
        ]
    );
    for (bad, why) in [
        ("//! Nodes.\n", "no line"),
        ("//! Nodes.\n\n//! Follows Kubernetes 1.36:\n", "no line"),
        (
            "//! Follows Kubernetes 1.35:\n//! - `pkg/a.go`\n",
            "no line",
        ),
        ("//! Follows Kubernetes 1.36:\n", "no source"),
        ("//! Follows Kubernetes 1.36:\n//! - pkg/a.go\n", "the form"),
        (
            "//! Follows Kubernetes 1.36:\n//! - `pkg/a.go`: A\n",
            "the form",
        ),
        (
            "//! Follows Kubernetes 1.36:\n//! - `pkg/a`\n",
            "not a Go file",
        ),
        (
            "//! Follows Kubernetes 1.36:\n//! - `a.go`\n",
            "not a Go file",
        ),
        (
            "//! Follows Kubernetes 1.36:\n//! - `pkg/a.go`\n//!\n",
            "must end",
        ),
    ] {
        let fault = sources(bad).unwrap_err();
        assert!(fault.contains(why), "{bad:?}: {fault}");
    }
}

#[test]
fn names_are_those_of_functions_methods_and_types() {
    let go = "package a\n\nfunc Plain(a int) {\n}\n\nfunc (r *REST) Method() {}\n\nfunc Generic[T any]() {}\n\ntype Kind struct {\n";
    for name in ["Plain", "Method", "Generic", "Kind"] {
        assert!(declares(go, name), "{name}");
    }
    for name in ["Pla", "REST", "a", "T"] {
        assert!(!declares(go, name), "{name}");
    }
}
