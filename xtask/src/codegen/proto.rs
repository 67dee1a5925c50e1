//! Compiles the published `.proto` files, against which the struct tags are checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use protox::Compiler;
use protox::file::{File, FileResolver};
use protox::prost_reflect::MessageDescriptor;

use super::Modules;

/// All messages, by the full name of the `.proto` files: `k8s.io.api.core.v1.Pod`.
pub(crate) struct Messages {
    by_name: BTreeMap<String, MessageDescriptor>,
}

impl Messages {
    /// Compiles every `generated.proto` of the modules.
    pub(crate) fn compile(modules: &Modules) -> anyhow::Result<Self> {
        let packages = modules.proto_packages()?;
        let mut files = BTreeMap::new();
        for package in &packages {
            let name = format!("{package}/generated.proto");
            files.insert(name, modules.package(package)?.join("generated.proto"));
        }
        let paths: Vec<_> = files.values().cloned().collect();
        let mut compiler = Compiler::with_file_resolver(Published { files });
        compiler.include_imports(true).open_files(paths)?;
        let by_name = compiler
            .descriptor_pool()
            .all_messages()
            .map(|message| (message.full_name().to_owned(), message))
            .collect();
        Ok(Self { by_name })
    }

    /// The message of a Go struct.
    pub(crate) fn get(&self, import_path: &str, name: &str) -> Option<&MessageDescriptor> {
        self.by_name.get(&format!(
            "{}.{name}",
            import_path.replace('/', ".").replace('-', "_")
        ))
    }

    /// Number and name of a message's fields.
    pub(crate) fn fields(
        &self,
        import_path: &str,
        name: &str,
    ) -> anyhow::Result<BTreeMap<u32, String>> {
        let message = self.get(import_path, name);
        let message = message.with_context(|| format!("no message {import_path}.{name}"))?;
        let mut fields = BTreeMap::new();
        for field in message.fields() {
            if fields
                .insert(field.number(), field.name().to_owned())
                .is_some()
            {
                bail!("{import_path}.{name} uses number {} twice", field.number());
            }
        }
        Ok(fields)
    }
}

/// Finds imports by the published name of their package.
struct Published {
    files: BTreeMap<String, PathBuf>,
}

impl FileResolver for Published {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.files
            .iter()
            .find_map(|(name, file)| (file == path).then(|| name.clone()))
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let Some(path) = self.files.get(name) else {
            return Err(protox::Error::file_not_found(name));
        };
        File::open(name, path)
    }
}
