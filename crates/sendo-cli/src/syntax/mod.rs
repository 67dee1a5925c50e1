//! The Rust code of a project, with the place of each part in its text.
//!
//! Code is changed by splices of its text, so that comments and layout stay.

mod kinds;
mod modules;
mod program;
mod splices;
mod uses;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use syn::spanned::Spanned;

pub(crate) use kinds::KindType;
pub(crate) use program::{Call, Program};
pub(crate) use splices::Splices;
pub(crate) use uses::uses_of_module;

/// A file with Rust code.
pub(crate) struct SourceFile {
    /// Its path in the project.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) tree: syn::File,
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceFile").field(&self.path).finish()
    }
}

impl SourceFile {
    /// Reads a file; fails if it is not Rust.
    pub(crate) fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let tree = parse(path, &text).context("repair it first, `cargo check` tells more")?;
        let path = path.to_owned();
        Ok(SourceFile { path, text, tree })
    }

    /// The modules that lead to it from the root of its crate; `None` for programs in `src/bin`.
    pub(crate) fn module_path(&self) -> Option<Vec<String>> {
        let below = self.path.strip_prefix("src").ok()?.with_extension("");
        let names = below.iter().map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        match names.last()?.as_str() {
            "mod" => drop(names.pop()),
            "lib" | "main" if names.len() == 1 => drop(names.pop()),
            _ => {}
        }
        (names.first().is_none_or(|name| name != "bin")).then_some(names)
    }

    /// The place of a byte for people: `src/lib.rs:12`.
    pub(crate) fn place(&self, at: usize) -> String {
        let line = self.text[..at].matches('\n').count() + 1;
        format!("{}:{line}", self.path.display())
    }
}

/// Parses a file; the error has its place.
pub(crate) fn parse(path: &Path, text: &str) -> Result<syn::File> {
    match syn::parse_file(text) {
        Ok(tree) => Ok(tree),
        Err(error) => {
            let line = error.span().start().line;
            bail!("{}:{line} is no Rust: {error}", path.display())
        }
    }
}

/// The bytes of a part of a file.
pub(crate) fn bytes(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}

/// The Rust files of a folder of the project and below, in order.
pub(crate) fn rust_files(root: &Path, folder: &str) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    collect(&root.join(folder), &mut paths)
        .with_context(|| format!("cannot read the folder {folder}"))?;
    paths.sort();
    let files = paths.iter().map(|path| {
        let path = path.strip_prefix(root).unwrap_or(path);
        SourceFile::read(root, path)
    });
    files.collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether an item is compiled for tests only.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let is_cfg_test = || {
            let condition = attribute.parse_args::<syn::Ident>();
            condition.is_ok_and(|condition| condition == "test")
        };
        path.is_ident("cfg") && is_cfg_test()
    })
}
