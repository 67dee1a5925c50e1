//! The projects that `sendo new` makes, and what it refuses. That they build and
//! pass their tests is shown by `cargo xtask e2e`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `sendo new` with these arguments in a folder.
fn new(folder: &Path, arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sendo"))
        .arg("new")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, error)
}

/// The files below a folder but for git's, by their paths.
fn files(folder: &Path) -> BTreeMap<String, String> {
    fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".git") {
                continue;
            }
            if path.is_dir() {
                collect(root, &path, found);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(folder, folder, &mut found);
    found
}

#[test]
fn a_project_has_twelve_files_for_a_first_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (output, error) = new(folder.path(), &["bar-controller"]);
    assert!(output.status.success(), "{error}");
    let files = files(&folder.path().join("bar-controller"));
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        ".github/workflows/ci.yml",
        ".gitignore",
        "Cargo.toml",
        "Dockerfile",
        "README.md",
        "samples/bar.yaml",
        "src/bar/controller.rs",
        "src/bar/mod.rs",
        "src/bar/v1alpha1.rs",
        "src/lib.rs",
        "src/main.rs",
        "tests/bar.rs",
    ];
    assert_eq!(names, expected);
    let lines: usize = files.values().map(|text| text.lines().count()).sum();
    assert!(lines < 300, "{lines} lines");
    for (name, text) in &files {
        assert!(
            text.ends_with('\n') && !text.ends_with("\n\n"),
            "{name} ends badly"
        );
        assert!(
            text.lines().all(|line| line.len() <= 120),
            "{name} has a long line"
        );
        if name.ends_with(".rs") {
            assert!(text.starts_with("//!"), "{name} does not say what it is");
        }
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("created src/lib.rs"), "{said}");
    assert!(said.contains("cd bar-controller"), "{said}");
}

#[test]
fn names_go_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "boats",
        "--name=harbour-operator",
        "--group=boats.dev",
        "--kind=SailingBoat",
        "--version=v2beta1",
        "--cluster-scoped",
    ];
    let (output, error) = new(folder.path(), &arguments);
    assert!(output.status.success(), "{error}");
    let files = files(&folder.path().join("boats"));
    for (file, part) in [
        ("Cargo.toml", "name = \"harbour-operator\""),
        ("src/main.rs", "harbour_operator::manager()"),
        (
            "src/lib.rs",
            ".defines::<sailing_boat::v2beta1::SailingBoat>()",
        ),
        ("src/sailing_boat/v2beta1.rs", "group = \"boats.dev\""),
        ("src/sailing_boat/v2beta1.rs", "pub struct SailingBoatSpec"),
        (
            "samples/sailing_boat.yaml",
            "apiVersion: boats.dev/v2beta1\nkind: SailingBoat\n",
        ),
    ] {
        assert!(files[file].contains(part), "{file}: {}", files[file]);
    }
    for file in ["src/sailing_boat/v2beta1.rs", "samples/sailing_boat.yaml"] {
        assert!(
            !files[file].contains("namespace"),
            "{file}: {}",
            files[file]
        );
    }
}

#[test]
fn a_project_below_a_workspace_is_one_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    let (output, error) = new(folder.path(), &["bar"]);
    assert!(output.status.success(), "{error}");
    let manifest = std::fs::read_to_string(folder.path().join("bar/Cargo.toml")).unwrap();
    assert!(manifest.ends_with("[workspace]\n"), "{manifest}");
}

#[test]
fn programs_read_the_files_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let (output, error) = new(folder.path(), &["bar", "--output=json"]);
    assert!(output.status.success(), "{error}");
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["files"].as_array().unwrap().len(), 12);
    assert_eq!(made["files"][0]["change"], "created");
}

#[test]
fn what_cannot_be_is_refused_with_a_fix_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("full")).unwrap();
    std::fs::write(folder.path().join("full/notes.txt"), "mine").unwrap();
    std::fs::write(folder.path().join("file"), "mine").unwrap();
    let before = files(folder.path());
    for (arguments, part) in [
        (&["full"][..], "notes.txt: choose another folder"),
        (&["file"], "is a file: choose another folder"),
        (&["Bar"], "name the program with --name NAME"),
        (&["match"], "keyword of Rust"),
        (&["bar", "--kind=bar"], "such as `Bar`"),
        (&["bar", "--kind=Match"], "named `match`"),
        (&["bar", "--group=bar"], "at least one dot"),
        (&["bar", "--version=1"], "like `v1`"),
        (&["bar", "--sendo-path=full"], "no clone of Sendo in"),
        (&["match-controller"], "name the kind with --kind NAME"),
    ] {
        let (output, error) = new(folder.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.contains(part), "{arguments:?}: {error}");
        assert_eq!(files(folder.path()), before, "{arguments:?}");
    }
}
