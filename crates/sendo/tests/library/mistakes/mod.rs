//! What the compiler says about common mistakes: each of these programs does not
//! compile, and the message has the words that stand behind `//~` in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The library that was built with this test: the newest beside it.
fn library(folder: &Path) -> PathBuf {
    let built = |path: &PathBuf| -> SystemTime {
        let written = path.metadata().and_then(|file| file.modified());
        written.expect("a file that is there")
    };
    let files = std::fs::read_dir(folder).expect("the folder of this test");
    let libraries = files.filter_map(|file| {
        let path = file.ok()?.path();
        let name = path.file_name()?.to_str()?;
        (name.starts_with("libsendo-") && name.ends_with(".rlib")).then_some(path)
    });
    libraries.max_by_key(built).expect("the library is built")
}

/// What the compiler says; `None` if it has nothing to object to.
fn objections(program: &Path) -> Option<String> {
    let test = std::env::current_exe().expect("this test's own path");
    let folder = test.parent().expect("a file is in a folder");
    let output = Command::new("rustc")
        .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg("-L")
        .arg(format!("dependency={}", folder.display()))
        .arg("--extern")
        .arg(format!("sendo={}", library(folder).display()))
        .arg(program)
        .output()
        .expect("there is a compiler");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(text)
}

/// The text without the modules before names: the compiler writes them as far
/// as it must to tell types apart, which changes with the types there are.
fn unqualified(text: &str) -> String {
    let (mut reported, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("::") {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let outside = before.trim_end_matches(is_part);
        let name = &before[outside.len()..];
        let is_module = name.starts_with(|c: char| c.is_lowercase());
        reported.push_str(if is_module { outside } else { before });
        if !is_module {
            reported.push_str("::");
        }
        rest = after;
    }
    reported + rest
}

#[test]
fn common_mistakes_do_not_compile_and_are_reported_in_words() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library/mistakes/programs");
    let mut programs: Vec<PathBuf> = std::fs::read_dir(programs)
        .expect("the programs")
        .filter_map(|file| Some(file.ok()?.path()))
        .collect();
    programs.sort();
    assert!(!programs.is_empty());
    for program in programs {
        let name = program.file_stem().unwrap_or_default().display();
        let source = std::fs::read_to_string(&program).expect("a program");
        let reported = objections(&program).unwrap_or_else(|| panic!("{name} compiles"));
        let reported = unqualified(&reported);
        let mut words = source.lines().filter_map(|line| line.strip_prefix("//~ "));
        if let Some(missing) = words.find(|words| !reported.contains(&unqualified(words))) {
            panic!("{name}: {missing:?} is not in\n{reported}");
        }
    }
}
