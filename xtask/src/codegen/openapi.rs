//! The published OpenAPI v3 documents of the versions a default server serves.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::{Modules, is_stable};

const REFERENCE: &str = "#/components/schemas/";

/// Every named schema of the served documents.
pub(crate) struct Documents {
    /// By full name, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) schemas: BTreeMap<String, Map<String, Value>>,
}

impl Documents {
    /// Reads the documents of the stable versions and of the discovery roots.
    pub(crate) fn read(modules: &Modules) -> anyhow::Result<Self> {
        let directory = modules.kubernetes().join("api/openapi-spec/v3");
        let mut schemas = BTreeMap::new();
        for entry in directory.read_dir()? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !is_served(&name) {
                continue;
            }
            let text = fs::read(&path)?;
            let document: Value =
                serde_json::from_slice(&text).with_context(|| format!("parse {name}"))?;
            if let Some(components) = document["components"]["schemas"].as_object() {
                for (name, schema) in components {
                    let schema = schema.as_object().context("a schema that is no object")?;
                    schemas.insert(name.clone(), schema.clone());
                }
            }
        }
        Ok(Self { schemas })
    }
}

/// Documents are named after their path: `apis__apps__v1_openapi.json`.
fn is_served(file: &str) -> bool {
    let Some(path) = file.strip_suffix("_openapi.json") else {
        return false;
    };
    match path.split("__").collect::<Vec<_>>()[..] {
        ["api", version] | ["apis", _, version] => is_stable(version),
        _ => true,
    }
}

/// The schema a property refers to, written as `$ref` or as `allOf` of one.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref");
    let wrapped = || schema.get("allOf")?.get(0)?.get("$ref");
    direct.or_else(wrapped)?.as_str()?.strip_prefix(REFERENCE)
}
