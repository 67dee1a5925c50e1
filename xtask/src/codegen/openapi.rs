//! Reads the published OpenAPI v3 documents of the versions that a default server serves.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::{Modules, is_kept};

const REFERENCE: &str = "#/components/schemas/";

/// The documents and every named schema of them.
pub(crate) struct Documents {
    /// By path, such as `apis/apps/v1`.
    pub(crate) by_path: BTreeMap<String, Value>,
    /// By full name, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) schemas: BTreeMap<String, Map<String, Value>>,
}

impl Documents {
    /// Reads the documents of the stable versions and of the discovery roots.
    pub(crate) fn read(modules: &Modules) -> anyhow::Result<Self> {
        let directory = modules.kubernetes().join("api/openapi-spec/v3");
        let mut by_path = BTreeMap::new();
        let mut schemas = BTreeMap::new();
        for entry in directory.read_dir()? {
            let file = entry?.path();
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let Some(path) = served_path(&name) else {
                continue;
            };
            let document: Value = serde_json::from_slice(&fs::read(&file)?)
                .with_context(|| format!("parse {name}"))?;
            if let Some(components) = document["components"]["schemas"].as_object() {
                for (name, schema) in components {
                    let schema = schema.as_object().context("a schema that is no object")?;
                    schemas.insert(name.clone(), schema.clone());
                }
            }
            by_path.insert(path, document);
        }
        Ok(Self { by_path, schemas })
    }

    /// The published operations below a path of the server.
    pub(crate) fn operations(&self, path: &str) -> Option<&Value> {
        self.by_path
            .values()
            .find_map(|document| document["paths"].get(path))
    }
}

/// Documents are named after their path: `apis__apps__v1_openapi.json`.
fn served_path(file: &str) -> Option<String> {
    let path = file.strip_suffix("_openapi.json")?;
    let served = match path.split("__").collect::<Vec<_>>()[..] {
        ["api", version] => is_kept("", version),
        ["apis", group, version] => is_kept(group, version),
        _ => true,
    };
    served.then(|| path.replace("__", "/"))
}

/// The schema a property refers to, written as `$ref` or as `allOf` of one.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref");
    let wrapped = || schema.get("allOf")?.get(0)?.get("$ref");
    direct.or_else(wrapped)?.as_str()?.strip_prefix(REFERENCE)
}
