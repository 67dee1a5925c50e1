//! The published OpenAPI documents of the served versions.
//!
//! Descriptions are no part of the facts: those of schemas are taken from the published
//! document itself, those of operations and parameters are not compared. Nor are the
//! media types of a feature that is disabled in a default server, and enumerations, which
//! a server publishes and the documents do not.

use anyhow::bail;
use sendo_apimachinery::openapi::Publisher;
use sendo_apimachinery::resources::Resources;
use sendo_apimachinery::schema::Types;
use serde_json::Value;

use super::first_difference;
use crate::codegen::Modules;
use crate::codegen::openapi::Documents;

/// Published documents of things that are no part of the API machinery.
const ELSEWHERE: [&str; 3] = [".well-known/openid-configuration", "logs", "openid/v1/jwks"];

pub(super) fn run(modules: &Modules) -> anyhow::Result<()> {
    let documents = Documents::read(modules)?;
    let (types, resources) = (Types::builtin(), Resources::builtin());
    let describe = |name: &str, field: Option<&str>| {
        let schema = documents.schemas.get(name)?;
        let described = match field {
            Some(field) => schema.get("properties")?.get(field)?.get("description"),
            None => schema.get("description"),
        };
        Some(described?.as_str()?.to_owned())
    };
    let publisher = Publisher {
        types: &types,
        resources: &resources,
        describe: &describe,
    };
    let (mut equal, mut different) = (0, Vec::new());
    for path in publisher.paths() {
        let (Some(mut made), Some(mut published)) = (
            publisher.document(&path),
            documents.by_path.get(&path).cloned(),
        ) else {
            bail!("{path} is not both made and published");
        };
        strip(&mut made["components"], &["enum"]);
        strip(&mut made["paths"], &["description"]);
        strip(&mut published["paths"], &["description"]);
        strip_lists_of_bytes(&mut published["components"]);
        match first_difference(&made, &published, String::new()) {
            None => equal += 1,
            Some(place) => different.push(format!("{path}: {place}")),
        }
    }
    println!("{equal} OpenAPI documents are made as they are published");
    let made = publisher.paths();
    let groups: Vec<_> = resources.groups().iter().map(|(group, _)| *group).collect();
    for path in documents.by_path.keys() {
        let served = match path.split('/').collect::<Vec<_>>()[..] {
            ["apis", group, ..] => groups.contains(&group),
            _ => !ELSEWHERE.contains(&path.as_str()),
        };
        if served && !made.contains(path) {
            different.push(format!("{path}: published, but not made"));
        }
    }
    if !different.is_empty() {
        bail!("{} differ:\n{}", different.len(), different.join("\n"));
    }
    Ok(())
}

/// Removes these keys where they hold facts, and encodings that are off.
fn strip(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let fact = !value.is_object() && keys.contains(&key.as_str());
                !fact && !key.contains("cbor")
            });
            map.values_mut().for_each(|value| strip(value, keys));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, keys)),
        _ => {}
    }
}

/// A list type said of bytes is an accident of how they are declared.
fn strip_lists_of_bytes(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("format").is_some_and(|format| format == "byte") {
                map.remove("x-kubernetes-list-type");
            }
            map.values_mut().for_each(strip_lists_of_bytes);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_lists_of_bytes),
        _ => {}
    }
}
