//! A project, as its `Cargo.toml` describes it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use toml_edit::DocumentMut;
#[cfg(feature = "add")]
use toml_edit::{InlineTable, Item, Table, Value};

/// A package with a program.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its folder.
    pub(crate) root: PathBuf,
    /// The name of the package.
    pub(crate) name: String,
    /// The version of the package; empty if its workspace has it.
    pub(crate) version: String,
    /// The name of its library in Rust code.
    #[cfg(feature = "add")]
    pub(crate) library: String,
    /// The edition of its Rust.
    #[cfg(feature = "add")]
    pub(crate) edition: String,
    #[cfg(feature = "add")]
    text: String,
    document: DocumentMut,
}

impl Project {
    /// The project of the current folder: that of the nearest `Cargo.toml`.
    pub(crate) fn here() -> Result<Self> {
        let here = std::env::current_dir().context("there is no current folder")?;
        let root = here
            .ancestors()
            .find(|folder| folder.join("Cargo.toml").is_file());
        match root {
            Some(root) => Project::read(root),
            None => bail!(
                "there is no Cargo.toml in {} or above it: change to the folder of a project, or make one with `sendo new DIR`",
                here.display()
            ),
        }
    }

    fn read(root: &Path) -> Result<Self> {
        let path = root.join("Cargo.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let document: DocumentMut = text
            .parse()
            .with_context(|| format!("{} is no TOML", path.display()))?;
        let text_at = |table: &str, key: &str| {
            let value = document.get(table)?.get(key)?.as_str()?;
            Some(value.to_owned())
        };
        let Some(name) = text_at("package", "name") else {
            bail!(
                "{} has no package but a workspace: change to the folder of the package with your program",
                path.display()
            );
        };
        Ok(Project {
            root: root.to_owned(),
            version: text_at("package", "version").unwrap_or_default(),
            #[cfg(feature = "add")]
            library: text_at("lib", "name").unwrap_or_else(|| name.replace('-', "_")),
            #[cfg(feature = "add")]
            edition: text_at("package", "edition").unwrap_or_else(|| "2024".to_owned()),
            name,
            #[cfg(feature = "add")]
            text,
            document,
        })
    }

    /// What the package says about itself in a field of text.
    #[cfg(feature = "image")]
    pub(crate) fn package_text(&self, key: &str) -> Option<String> {
        let value = self.document.get("package")?.get(key)?;
        value.as_str().map(str::to_owned)
    }

    /// Whether the package depends on another.
    pub(crate) fn depends_on(&self, name: &str) -> bool {
        let dependencies = self.document.get("dependencies");
        dependencies.is_some_and(|table| table.get(name).is_some())
    }

    /// The program's name: the package's, unless it has one program of another name.
    pub(crate) fn program(&self) -> String {
        let named = self
            .document
            .get("bin")
            .and_then(|bins| bins.as_array_of_tables());
        let mut names = named.into_iter().flatten();
        match (names.next(), names.next()) {
            (Some(only), None) => {
                let name = only.get("name").and_then(|name| name.as_str());
                name.unwrap_or(&self.name).to_owned()
            }
            _ => {
                let chosen = self.document["package"].get("default-run");
                let chosen = chosen.and_then(|name| name.as_str());
                chosen.unwrap_or(&self.name).to_owned()
            }
        }
    }
}

/// Dependencies that the code of a new kind needs.
#[cfg(feature = "add")]
impl Project {
    /// The manifest with what a kind's code uses added where it is missing; `None` if nothing is.
    /// Also its text before.
    pub(crate) fn with_dependencies(&self) -> Result<Option<(&str, String)>> {
        let Some(sendo) = self.dependency("sendo") else {
            bail!(
                "{} does not depend on `sendo`: is it a program with a controller? `sendo new DIR` makes one",
                self.root.join("Cargo.toml").display()
            );
        };
        let mut document = self.document.clone();
        let mut changed = false;
        for (table, name, value) in [
            (
                "dependencies",
                "k8s-openapi",
                versioned("0.29", true, &["v1_36", "schemars"]),
            ),
            ("dependencies", "kube", versioned("5", false, &["derive"])),
            ("dependencies", "schemars", versioned("1", true, &[])),
            ("dependencies", "serde", versioned("1", true, &["derive"])),
            ("dependencies", "serde_json", versioned("1", true, &[])),
            (
                "dev-dependencies",
                "sendo-test",
                beside(sendo, "sendo-test"),
            ),
        ] {
            let is_there = |table: &str| document.get(table).is_some_and(|t| t.get(name).is_some());
            if is_there(table) || is_there("dependencies") {
                continue;
            }
            let table = document.entry(table).or_insert(Item::Table(Table::new()));
            let Some(table) = table.as_table_like_mut() else {
                bail!(
                    "`{name}` cannot be added to Cargo.toml: a table of dependencies is expected"
                );
            };
            table.insert(name, Item::Value(value));
            changed = true;
        }
        Ok(changed.then(|| (&*self.text, document.to_string())))
    }

    fn dependency(&self, name: &str) -> Option<&Item> {
        self.document.get("dependencies")?.get(name)
    }
}

/// A dependency on a version.
#[cfg(feature = "add")]
fn versioned(version: &str, default_features: bool, features: &[&str]) -> Value {
    if default_features && features.is_empty() {
        return Value::from(version);
    }
    let mut table = InlineTable::new();
    table.insert("version", Value::from(version));
    if !default_features {
        table.insert("default-features", Value::from(false));
    }
    table.insert("features", Value::from_iter(features.iter().copied()));
    Value::InlineTable(table)
}

/// A dependency on another of Sendo's crates, from where `sendo` comes from.
#[cfg(feature = "add")]
fn beside(sendo: &Item, name: &str) -> Value {
    let field = |key: &str| Some((key.to_owned(), sendo.get(key)?.as_value()?.clone()));
    if let Some(version) = sendo.as_str() {
        return Value::from(version);
    }
    let kept = [
        "version",
        "git",
        "rev",
        "branch",
        "tag",
        "workspace",
        "registry",
    ];
    let mut table: InlineTable = kept.into_iter().filter_map(field).collect();
    if let Some(path) = sendo.get("path").and_then(Item::as_str) {
        let path = Path::new(path).with_file_name(name);
        table.insert("path", Value::from(path.display().to_string()));
    }
    Value::InlineTable(table)
}
