//! `cargo xtask golden`: decodes the published corpus of protobuf objects and
//! compares each with the JSON that was published of the same object.

use std::fs;

use anyhow::{Context as _, bail};
use sendo_apimachinery::protobuf::{self, Envelope};
use sendo_apimachinery::schema::Types;
use serde_json::Value;

use crate::codegen::Modules;

/// Where the modules keep objects in several encodings, all fields filled.
const CORPORA: [&str; 2] = [
    "k8s.io/api/testdata/HEAD",
    "k8s.io/apiextensions-apiserver/pkg/apis/testdata/HEAD",
];

/// Checks every object of the corpus whose kind is served.
pub(crate) fn run() -> anyhow::Result<()> {
    let modules = Modules::locate()?;
    let mut files = Vec::new();
    for package in CORPORA {
        for file in modules.package(package)?.read_dir()? {
            files.push(file?.path());
        }
    }
    files.sort();
    let types = Types::builtin();
    let (mut equal, mut unserved, mut different) = (0, 0, Vec::new());
    for path in files {
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let body = fs::read(&path)?;
        let envelope = Envelope::parse(&body)?;
        if types.kind(&envelope.api_version, &envelope.kind).is_none() {
            unserved += 1;
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let (_, decoded) = protobuf::decode(&types, &body).with_context(|| name.clone())?;
        let published: Value = serde_json::from_slice(&fs::read(path.with_extension("json"))?)?;
        match first_difference(&decoded, &published, String::new()) {
            None => equal += 1,
            Some(place) => different.push(format!("{name}: {place}")),
        }
    }
    println!("{equal} objects decode to their published JSON; {unserved} kinds are not served");
    if !different.is_empty() {
        bail!("{} differ:\n{}", different.len(), different.join("\n"));
    }
    Ok(())
}

/// Where two values differ first, with both values.
fn first_difference(decoded: &Value, published: &Value, path: String) -> Option<String> {
    match (decoded, published) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            names.into_iter().find_map(|name| {
                let below = format!("{path}.{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => first_difference(a, b, below),
                    (a, b) => Some(format!("{below}: decoded {a:?}, published {b:?}")),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(place, (a, b))| first_difference(a, b, format!("{path}[{place}]")))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{path}: decoded {a}, published {b}")),
    }
}
