//! The published corpus of protobuf objects, each beside its JSON.

use std::fs;

use anyhow::{Context as _, bail};
use sendo_apimachinery::protobuf::{self, Envelope};
use sendo_apimachinery::schema::Types;
use serde_json::Value;

use super::first_difference;
use crate::codegen::Modules;

/// Where the modules keep objects in several encodings, all fields filled.
const CORPORA: [&str; 2] = [
    "k8s.io/api/testdata/HEAD",
    "k8s.io/apiextensions-apiserver/pkg/apis/testdata/HEAD",
];

/// The first place at which two texts are not equal.
fn first_unequal(a: &[u8], b: &[u8]) -> usize {
    let differs = |(a, b): (&u8, &u8)| a != b;
    let place = a.iter().zip(b).position(differs);
    place.unwrap_or(a.len().min(b.len()))
}

/// Checks every object of the corpus whose kind is served.
pub(super) fn run(modules: &Modules) -> anyhow::Result<()> {
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
        let encoded = protobuf::encode(&types, &published);
        match first_difference(&decoded, &published, String::new()) {
            None if encoded.as_deref() != Some(&body) => {
                let place = first_unequal(&encoded.unwrap_or_default(), &body);
                different.push(format!("{name}: encoded otherwise from byte {place} on"));
            }
            None => equal += 1,
            Some(place) => different.push(format!("{name}: {place}")),
        }
    }
    println!(
        "{equal} objects decode to their published JSON, which encodes to them; {unserved} kinds are not served"
    );
    if !different.is_empty() {
        bail!("{} differ:\n{}", different.len(), different.join("\n"));
    }
    Ok(())
}
