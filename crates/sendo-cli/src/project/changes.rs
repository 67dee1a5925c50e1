//! Changes of a project's files: gathered, then written as a whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

#[cfg(feature = "add")]
use sendo::manifests::unified_diff;

use super::rustfmt::run_rustfmt;
use crate::template::NewFile;

/// Files that are to be, to change and to go.
#[derive(Debug)]
pub(crate) struct Changes {
    root: PathBuf,
    files: BTreeMap<PathBuf, Change>,
}

/// What becomes of a file. The text before is kept, to be put back.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "add"),
    expect(dead_code, reason = "a new project has new files only")
)]
enum Change {
    Create { text: String },
    Replace { before: String, text: String },
    Remove { before: String },
}

impl Change {
    fn verb(&self) -> &'static str {
        match self {
            Change::Create { .. } => "created",
            Change::Replace { .. } => "changed",
            Change::Remove { .. } => "removed",
        }
    }

    fn before(&self) -> Option<&str> {
        match self {
            Change::Create { .. } => None,
            Change::Replace { before, .. } | Change::Remove { before } => Some(before),
        }
    }

    fn after(&self) -> Option<&str> {
        match self {
            Change::Create { text } | Change::Replace { text, .. } => Some(text),
            Change::Remove { .. } => None,
        }
    }
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
        let text = file.text;
        self.files.insert(file.path, Change::Create { text });
        Ok(())
    }

    /// Lays new Rust files out as rustfmt does, where it is installed, and changed ones that it
    /// would have left as they were.
    pub(crate) fn format(&mut self, edition: &str) {
        let root = &self.root;
        for (path, change) in &mut self.files {
            if path.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let format = |text: &str| run_rustfmt(root, edition, text);
            let text = match change {
                Change::Create { text } => text,
                Change::Replace { before, text } => {
                    if format(before).is_none_or(|formatted| formatted != *before) {
                        continue;
                    }
                    text
                }
                Change::Remove { .. } => continue,
            };
            if let Some(formatted) = format(text) {
                *text = formatted;
            }
        }
    }

    /// What is done to each file, in order.
    pub(crate) fn summary(&self) -> Vec<(&'static str, &Path)> {
        let files = self.files.iter();
        files
            .map(|(path, change)| (change.verb(), path.as_path()))
            .collect()
    }

    /// Writes all of it. If that fails, what was written is taken back.
    pub(crate) fn write(&self) -> Result<()> {
        let mut done = Vec::new();
        for (path, change) in &self.files {
            done.push((path, change));
            let path = self.root.join(path);
            let written = self
                .bring_to(&path, change.after())
                .with_context(|| format!("nothing was made: cannot write {}", path.display()));
            if written.is_err() {
                for (path, change) in done.into_iter().rev() {
                    // The first error is the one to report.
                    let _ = self.bring_to(&self.root.join(path), change.before());
                }
                return written;
            }
        }
        Ok(())
    }

    /// Gives a file this text, or takes it away with the folders that are empty then.
    fn bring_to(&self, path: &Path, text: Option<&str>) -> std::io::Result<()> {
        if let Some(text) = text {
            let folder = path.parent().unwrap_or(&self.root);
            std::fs::create_dir_all(folder)?;
            return std::fs::write(path, text);
        }
        std::fs::remove_file(path)?;
        let folders = path.ancestors().skip(1);
        for folder in folders.take_while(|folder| *folder != self.root) {
            // One with other files in it stays.
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Changes of files that are there.
#[cfg(feature = "add")]
impl Changes {
    /// The changes as a diff that `git apply` and `patch -p1` read.
    pub(crate) fn diff(&self) -> String {
        let files = self.files.iter();
        files
            .map(|(path, change)| {
                let path = path.display().to_string();
                unified_diff(&path, change.before(), change.after())
            })
            .collect()
    }

    /// Gives a file that was read before another text; nothing if it is the same.
    pub(crate) fn replace(&mut self, path: &Path, before: &str, text: String) {
        if before != text {
            let before = before.to_owned();
            let change = Change::Replace { before, text };
            self.files.insert(path.to_owned(), change);
        }
    }

    /// Takes a file away.
    pub(crate) fn remove(&mut self, path: &Path) -> Result<()> {
        let before = std::fs::read_to_string(self.root.join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        self.files
            .insert(path.to_owned(), Change::Remove { before });
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
