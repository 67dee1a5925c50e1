//! Locates the published Go modules on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Deserializer, Value};

const MODULES: [&str; 5] = [
    "k8s.io/api@v0.36.4",
    "k8s.io/apiextensions-apiserver@v0.36.4",
    "k8s.io/apimachinery@v0.36.4",
    "k8s.io/kube-aggregator@v0.36.4",
    "k8s.io/kubernetes@v1.36.4",
];

/// The unpacked modules, by import path.
pub(crate) struct Modules {
    directories: BTreeMap<String, PathBuf>,
}

impl Modules {
    /// Asks the `go` command, which downloads what its cache does not have.
    pub(crate) fn locate() -> anyhow::Result<Self> {
        let output = Command::new("go")
            .args(["mod", "download", "-json"])
            .args(MODULES)
            .current_dir(std::env::temp_dir())
            .output()
            .context("run `go mod download`: is Go installed?")?;
        let mut directories = BTreeMap::new();
        for module in Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
            let module = module.context("read the answer of `go mod download`")?;
            if let Some(error) = module["Error"].as_str() {
                bail!("go mod download: {error}");
            }
            let path = module["Path"].as_str().context("a module without path")?;
            let directory = module["Dir"]
                .as_str()
                .context("a module without directory")?;
            directories.insert(path.to_owned(), PathBuf::from(directory));
        }
        if directories.len() != MODULES.len() {
            bail!(
                "go mod download: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(Self { directories })
    }

    /// The directory of a Go package, such as `k8s.io/api/core/v1`.
    pub(crate) fn package(&self, import_path: &str) -> anyhow::Result<PathBuf> {
        self.directories
            .iter()
            .find_map(|(module, directory)| {
                let rest = import_path.strip_prefix(module)?;
                let rest = rest.strip_prefix('/').or(rest.is_empty().then_some(""))?;
                Some(directory.join(rest))
            })
            .with_context(|| format!("no module holds the package {import_path}"))
    }

    /// The main module, which carries the API documents and printers.
    pub(crate) fn kubernetes(&self) -> &Path {
        &self.directories["k8s.io/kubernetes"]
    }

    /// The import path of every package with a `.proto` file.
    pub(crate) fn proto_packages(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for (module, directory) in &self.directories {
            if module != "k8s.io/kubernetes" {
                collect_proto_packages(module, directory, &mut found)?;
            }
        }
        found.sort();
        Ok(found)
    }
}

fn collect_proto_packages(
    import_path: &str,
    directory: &Path,
    found: &mut Vec<String>,
) -> anyhow::Result<()> {
    if directory.join("generated.proto").is_file() {
        found.push(import_path.to_owned());
    }
    for entry in directory.read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() && !["testdata", "third_party", "vendor"].contains(&&*name) {
            collect_proto_packages(&format!("{import_path}/{name}"), &entry.path(), found)?;
        }
    }
    Ok(())
}
