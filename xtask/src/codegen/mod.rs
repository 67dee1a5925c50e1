//! `cargo xtask codegen`: facts about Kubernetes, read from its published Go
//! modules and written as short lines of text that a reviewer can compare.
//!
//! Three sources describe every type, and each has facts that the others do not
//! have: OpenAPI (JSON shape, defaults, list and patch behaviour), the `.proto`
//! files (wire types), and the Go struct tags, which tie a JSON name to a
//! protobuf number and say what is shown when it is empty. They are joined here
//! and must agree: a field that one of them cannot place stops the task.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

mod columns;
mod descriptions;
mod enums;
mod go;
mod go_names;
mod modules;
pub(crate) mod openapi;
mod proto;
mod rbac;
mod resources;
mod shape;
mod types;

pub(crate) use modules::Modules;

const FACTS: &str = "crates/sendo-apimachinery/facts";
const ACCESS: &str = "crates/sendo-server/facts/rbac.txt";
const DESCRIPTIONS: &str = "crates/sendo-server/src/pages/openapi_descriptions/kinds.rs";

/// What `cargo xtask codegen` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write nothing; fail if the committed facts differ.
    #[arg(long)]
    check: bool,
}

/// Generates all facts, then writes or compares them.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let modules = Modules::locate()?;
    let documents = openapi::Documents::read(&modules)?;
    let resources = resources::Resources::read(&modules, &documents)?;
    let kinds = types::kind_names(&documents)?;
    let files = [
        (format!("{FACTS}/resources.txt"), resources.render()),
        (
            format!("{FACTS}/types.txt"),
            types::render(&modules, &documents)?,
        ),
        (
            format!("{FACTS}/go-names.txt"),
            go_names::render(&modules, &documents)?,
        ),
        (
            format!("{FACTS}/columns.txt"),
            columns::render(&modules, &resources)?,
        ),
        (ACCESS.to_owned(), rbac::render(&modules)?),
        (
            DESCRIPTIONS.to_owned(),
            descriptions::render(&modules, &resources, &kinds)?,
        ),
    ];

    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut stale = Vec::new();
    for (name, text) in &files {
        let path = workspace.join(name);
        if options.check {
            if fs::read_to_string(&path).unwrap_or_default() != *text {
                stale.push(name.as_str());
            }
        } else {
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        println!(
            "{name}: {} lines, {} bytes",
            text.lines().count(),
            text.len()
        );
    }
    if !stale.is_empty() {
        bail!(
            "out of date, run `cargo xtask codegen`: {}",
            stale.join(", ")
        );
    }
    Ok(())
}

/// The versions that only a server with a feature serves, and which Sendo can serve.
const OPTIONAL: &[(&str, &str, &str)] = &[(
    "storagemigration.k8s.io",
    "v1beta1",
    "StorageVersionMigrator",
)];

/// The feature that an API version needs; none that a default server serves.
fn feature_of(group: &str, version: &str) -> Option<&'static str> {
    let found = OPTIONAL
        .iter()
        .find(|own| (own.0, own.1) == (group, version));
    found.map(|own| own.2)
}

/// Whether facts are kept about an API version: every stable one, while alpha and beta versions
/// are off unless an administrator asks for them, and those of [`OPTIONAL`].
fn is_kept(group: &str, version: &str) -> bool {
    is_stable(version) || feature_of(group, version).is_some()
}

fn is_stable(version: &str) -> bool {
    version
        .strip_prefix('v')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
