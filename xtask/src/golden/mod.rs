//! `cargo xtask golden`: compares the encodings and documents that the crates generate with those
//! that Kubernetes publishes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::codegen::Modules;

mod openapi;
mod protobuf;

/// Runs every comparison; fails on the first kind that shows a difference.
pub(crate) fn run() -> anyhow::Result<()> {
    let modules = Modules::locate()?;
    protobuf::run(&modules)?;
    openapi::run(&modules)
}

/// Where two values differ first, with both values.
fn first_difference(decoded: &Value, published: &Value, path: String) -> Option<String> {
    match (decoded, published) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
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
