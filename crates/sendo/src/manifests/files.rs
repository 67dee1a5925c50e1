//! The printed files: as one text, in a folder, or compared with those of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::ManifestError;
use super::diff::unified_diff;

/// Printed files, by their paths with `/` between the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    program: String,
    texts: BTreeMap<String, String>,
}

/// How a folder differs from what the program prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path of the file, relative to the folder.
    pub file: String,
    /// What must change in the folder, in the form of `diff -u`.
    pub diff: String,
}

impl Files {
    pub(super) fn new(program: &str) -> Self {
        Files {
            program: program.to_owned(),
            texts: BTreeMap::new(),
        }
    }

    /// The first line of a file with comments: by it the program knows its own files again.
    fn header(&self) -> String {
        format!(
            "# Printed by `{} manifests`: change the program or its flags, not this file.\n",
            self.program
        )
    }

    /// Adds a file whose form has no comments.
    pub(super) fn add_raw(&mut self, path: &str, text: &str) {
        self.texts.insert(path.to_owned(), text.to_owned());
    }

    /// Adds a file of which `#` begins comments.
    pub(super) fn add(&mut self, path: &str, text: &str) {
        let text = format!("{}{text}", self.header());
        self.texts.insert(path.to_owned(), text);
    }

    /// Adds to the end of a file, which begins with the first line that tells whose it is.
    pub(super) fn append(&mut self, path: &str, text: &str) {
        let header = self.header();
        self.texts
            .entry(path.to_owned())
            .or_insert(header)
            .push_str(text);
    }

    /// Adds a YAML document to a file of them.
    pub(super) fn add_document(&mut self, path: &str, document: &str) {
        self.append(path, &format!("---\n{document}"));
    }

    /// The text of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// All files, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (&**path, &**text))
    }

    /// The documents of all files, as one text.
    pub fn to_yaml(&self) -> String {
        let header = self.header();
        let texts = self
            .texts
            .values()
            .map(|text| text.strip_prefix(&header).unwrap_or(text));
        let texts: String = texts.collect();
        header + &texts
    }

    /// Writes them to a folder, which is made if it is not there, and removes those that the
    /// program has written there before and does not print any more.
    ///
    /// # Errors
    ///
    /// If the folder holds anything else, or a file cannot be written; nothing is changed then.
    pub fn write_to(&self, folder: &Path) -> Result<(), ManifestError> {
        let known = self.files_of(folder)?;
        let others: Vec<String> = known
            .iter()
            .filter(|(path, own)| !**own && !self.texts.contains_key(*path))
            .map(|(path, _)| path.clone())
            .collect();
        if !others.is_empty() {
            return Err(ManifestError::OtherFiles {
                folder: folder.to_owned(),
                others,
            });
        }
        let mut written = Vec::new();
        let result = self.write_beside(folder, &mut written);
        if let Err(error) = result {
            for (temporary, _) in written {
                // What cannot be removed stays beside, and says by its name what it is.
                let _ = fs::remove_file(temporary);
            }
            return Err(error);
        }
        for (temporary, path) in written {
            fs::rename(&temporary, &path).map_err(at(&path))?;
        }
        for (path, _) in known
            .iter()
            .filter(|(path, _)| !self.texts.contains_key(*path))
        {
            let path = folder.join(path);
            fs::remove_file(&path).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Writes each file beside its place, so that a full disk leaves the old ones.
    fn write_beside(
        &self,
        folder: &Path,
        written: &mut Vec<(PathBuf, PathBuf)>,
    ) -> Result<(), ManifestError> {
        for (path, text) in &self.texts {
            let path = folder.join(path);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(at(parent))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let temporary = parent.join(format!(".{name}.new"));
            written.push((temporary.clone(), path.clone()));
            fs::write(&temporary, text).map_err(at(&temporary))?;
        }
        Ok(())
    }

    /// How a folder differs from them: nothing, if it was written by the same program with the
    /// same options.
    pub fn differences_in(&self, folder: &Path) -> Result<Vec<Difference>, ManifestError> {
        if !folder.is_dir() {
            let source = std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "there is no such folder; write it with --output",
            );
            return Err(at(folder)(source));
        }
        let known = self.files_of(folder)?;
        let mut differences = Vec::new();
        let mut compare = |file: &str, before: Option<&str>, after: Option<&str>| {
            if before != after {
                differences.push(Difference {
                    file: file.to_owned(),
                    diff: unified_diff(file, before, after),
                });
            }
        };
        for (file, text) in &self.texts {
            let before = match known.contains_key(file) {
                true => Some(read(&folder.join(file))?),
                false => None,
            };
            compare(file, before.as_deref(), Some(text));
        }
        for (file, _) in known
            .iter()
            .filter(|(file, own)| **own && !self.texts.contains_key(*file))
        {
            compare(file, Some(&read(&folder.join(file))?), None);
        }
        Ok(differences)
    }

    /// The files in a folder, and whether the program has written them.
    fn files_of(&self, folder: &Path) -> Result<BTreeMap<String, bool>, ManifestError> {
        let mut found = BTreeMap::new();
        if folder.exists() {
            self.collect(folder, "", &mut found)?;
        }
        Ok(found)
    }

    fn collect(
        &self,
        folder: &Path,
        path: &str,
        found: &mut BTreeMap<String, bool>,
    ) -> Result<(), ManifestError> {
        for entry in fs::read_dir(folder).map_err(at(folder))? {
            let entry = entry.map_err(at(folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let below = match path {
                "" => name,
                path => format!("{path}/{name}"),
            };
            let kind = entry.file_type().map_err(at(&entry.path()))?;
            if kind.is_dir() {
                self.collect(&entry.path(), &below, found)?;
                continue;
            }
            // What is no text is not ours.
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            found.insert(below, text.starts_with(&self.header()));
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, ManifestError> {
    fs::read_to_string(path).map_err(at(path))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> ManifestError + use<> {
    let path = path.to_owned();
    move |source| ManifestError::File {
        path: path.clone(),
        source,
    }
}
