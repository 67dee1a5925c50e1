//! Changes of a project's files: gathered, then written as a whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::rustfmt::run_rustfmt;
use crate::template::NewFile;

/// Files that are to be.
#[derive(Debug)]
pub(crate) struct Changes {
    root: PathBuf,
    files: BTreeMap<PathBuf, String>,
}

impl Changes {
    pub(crate) fn new(root: &Path) -> Self {
        Changes {
            root: root.to_owned(),
            files: BTreeMap::new(),
        }
    }

    /// Adds a file that must not be there.
    pub(crate) fn create(&mut self, file: NewFile) -> Result<()> {
        let path = self.root.join(&file.path);
        if path.symlink_metadata().is_ok() {
            bail!(
                "{} is there already: move it away, or choose another name",
                path.display()
            );
        }
        self.files.insert(file.path, file.text);
        Ok(())
    }

    /// Lays Rust out as rustfmt does, where it is installed.
    pub(crate) fn format(&mut self, edition: &str) {
        for (path, text) in &mut self.files {
            if path.extension().is_some_and(|end| end == "rs")
                && let Some(formatted) = run_rustfmt(&self.root, edition, text)
            {
                *text = formatted;
            }
        }
    }

    /// What is done to each file, in order.
    pub(crate) fn summary(&self) -> Vec<(&'static str, &Path)> {
        let paths = self.files.keys();
        paths.map(|path| ("created", path.as_path())).collect()
    }

    /// Writes all of it. If that fails, what was written is taken back.
    pub(crate) fn write(&self) -> Result<()> {
        let mut done = Vec::new();
        for (path, text) in &self.files {
            done.push(path);
            let path = self.root.join(path);
            let folder = path.parent().unwrap_or(&self.root);
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, text))
                .with_context(|| format!("nothing was made: cannot write {}", path.display()));
            if written.is_err() {
                for path in done {
                    // The first error is the one to report.
                    let _ = self.remove(&self.root.join(path));
                }
                return written;
            }
        }
        Ok(())
    }

    /// Takes a file away, and folders that are empty then.
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        std::fs::remove_file(path)?;
        let folders = path.ancestors().skip(1);
        for folder in folders.take_while(|folder| *folder != self.root) {
            std::fs::remove_dir(folder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut changes = Changes::new(folder.path());
        // A folder cannot be made where a file is.
        for path in ["a/b/c.rs", "d", "d/e"] {
            changes.create(NewFile::new(path, String::new())).unwrap();
        }
        let error = changes.write().unwrap_err();
        assert!(
            format!("{error:#}").contains("nothing was made"),
            "{error:#}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_there_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "").unwrap();
        let mut changes = Changes::new(folder.path());
        let again = NewFile::new("a", String::new());
        let error = changes.create(again).unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
    }
}
