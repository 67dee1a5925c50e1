//! The values of string types that are enumerations.
//!
//! The published OpenAPI documents do not have them, but those of a server do. They are read
//! from the generated Go source with which the server is built.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;

use super::Modules;

/// Allowed values, by the generated function's type and the property's name.
pub(crate) struct Enums {
    by_property: BTreeMap<(String, String), Vec<String>>,
}

impl Enums {
    /// Reads the `Enum:` lines of the generated definitions.
    pub(crate) fn read(modules: &Modules) -> anyhow::Result<Self> {
        let path = "pkg/generated/openapi/zz_generated.openapi.go";
        let source = fs::read_to_string(modules.kubernetes().join(path)).context(path)?;
        let mut by_property = BTreeMap::new();
        let (mut function, mut property) = ("", "");
        for line in source.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("func schema_") {
                function = name.split('(').next().unwrap_or_default();
            } else if let Some(name) = line.strip_prefix('"').and_then(|l| l.strip_suffix("\": {"))
            {
                property = name;
            } else if line.starts_with("Enum:") {
                let values = line
                    .split('"')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect();
                by_property.insert((function.to_owned(), property.to_owned()), values);
            }
        }
        Ok(Self { by_property })
    }

    /// The values of a property, innermost element if it is a list or a map.
    pub(crate) fn values(&self, import_path: &str, name: &str, property: &str) -> &[String] {
        let components: Vec<_> = import_path.split('/').collect();
        let last = components[components.len().saturating_sub(4)..].join("_");
        let function = format!("{}_{name}", last.replace('.', "").replace('-', "_"));
        let key = (function, property.to_owned());
        self.by_property
            .get(&key)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }
}
