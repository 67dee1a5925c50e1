//! Custom resource definitions like those in real clusters: twenty handwritten ones, and large ones
//! that are generated.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

/// The handwritten ones, by the name of their file.
const HANDWRITTEN: [(&str, &str); 20] = [
    ("alertrules.yaml", include_str!("alertrules.yaml")),
    ("applications.yaml", include_str!("applications.yaml")),
    ("backups.yaml", include_str!("backups.yaml")),
    ("brokers.yaml", include_str!("brokers.yaml")),
    ("certificates.yaml", include_str!("certificates.yaml")),
    ("clusterissuers.yaml", include_str!("clusterissuers.yaml")),
    ("clusterpolicies.yaml", include_str!("clusterpolicies.yaml")),
    ("clusters.yaml", include_str!("clusters.yaml")),
    ("externalsecrets.yaml", include_str!("externalsecrets.yaml")),
    ("gateways.yaml", include_str!("gateways.yaml")),
    ("httproutes.yaml", include_str!("httproutes.yaml")),
    (
        "machinedeployments.yaml",
        include_str!("machinedeployments.yaml"),
    ),
    ("networkpolicies.yaml", include_str!("networkpolicies.yaml")),
    (
        "postgresclusters.yaml",
        include_str!("postgresclusters.yaml"),
    ),
    ("scaledobjects.yaml", include_str!("scaledobjects.yaml")),
    ("servicemonitors.yaml", include_str!("servicemonitors.yaml")),
    (
        "verticalautoscalers.yaml",
        include_str!("verticalautoscalers.yaml"),
    ),
    ("virtualservices.yaml", include_str!("virtualservices.yaml")),
    ("volumesnapshots.yaml", include_str!("volumesnapshots.yaml")),
    ("workflows.yaml", include_str!("workflows.yaml")),
];

/// The generated ones: plural, kind and size. The first is too large for the
/// annotation of `kubectl apply`, the second nearly too large for a store that
/// takes 1.5 MB.
const GENERATED: [(&str, &str, usize); 2] = [
    ("platforms", "Platform", 300_000),
    ("universes", "Universe", 1_000_000),
];

/// Writes them, one file each: the handwritten ones into a new folder `crds`, the generated ones
/// into `large-crds`.
///
/// # Errors
///
/// When a file cannot be written.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    let (crds, large) = (folder.join("crds"), folder.join("large-crds"));
    for folder in [&crds, &large] {
        fs::create_dir(folder).with_context(|| format!("create {}", folder.display()))?;
    }
    for (name, text) in HANDWRITTEN {
        fs::write(crds.join(name), text)?;
    }
    for (plural, kind, size) in GENERATED {
        let text = serde_json::to_vec(&definition(plural, kind, size))?;
        fs::write(large.join(format!("{plural}.json")), text)?;
    }
    Ok(())
}

/// A definition of about this many bytes, all of them schema.
fn definition(plural: &str, kind: &str, size: usize) -> Value {
    let mut properties = Map::new();
    let mut written = 0;
    while written < size {
        let count = properties.len();
        let pool = node(3, count);
        written += pool.to_string().len();
        properties.insert(format!("pool{count}"), pool);
    }
    let group = "large.example.dev";
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "description": sentence(kind, 0),
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": properties},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

/// A level of a pool: fields of all sorts, and below them two more levels.
fn node(depth: usize, salt: usize) -> Value {
    let quantity = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|Ki|Mi|Gi)?$";
    let mut properties = json!({
        "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "image": {"type": "string", "default": "registry.example/none:1"},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1000 + salt},
        "paused": {"type": "boolean", "default": false},
        "policy": {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true, "pattern": quantity}},
        "args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        "since": {"type": "string", "format": "date-time", "nullable": true},
    });
    let fields = properties.as_object_mut().expect("an object");
    for (place, (name, field)) in fields.iter_mut().enumerate() {
        field["description"] = sentence(name, place + salt).into();
    }
    if depth > 0 {
        fields.insert("template".to_owned(), node(depth - 1, salt + 1));
        let mut item = node(depth - 1, salt + 2);
        item["required"] = json!(["name"]);
        fields.insert(
            "containers".to_owned(),
            json!({
                "description": sentence("containers", salt),
                "type": "array",
                "items": item,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }),
        );
    }
    json!({"description": sentence("level", depth + salt), "type": "object", "properties": properties})
}

fn sentence(subject: &str, salt: usize) -> String {
    const WHAT: [&str; 4] = [
        "is what the owner asks for and the cluster gives if it can",
        "counts for new pods; those that run already keep what they have",
        "may be left out, and then the cluster chooses by the rules of the class",
        "never changes once the object is there, whoever asks",
    ];
    format!("{subject} {}, see note {salt}.", WHAT[salt % WHAT.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_definitions_have_the_requested_size() {
        for (plural, kind, size) in GENERATED {
            let length = definition(plural, kind, size).to_string().len();
            assert!((size..=size * 12 / 10).contains(&length), "{length}");
        }
    }

    #[test]
    fn handwritten_definitions_are_named_after_their_group() {
        for (name, text) in HANDWRITTEN {
            let definition: Value = serde_saphyr::from_str(text).unwrap();
            let spec = &definition["spec"];
            let expected = format!(
                "{}.{}",
                spec["names"]["plural"].as_str().unwrap(),
                spec["group"].as_str().unwrap()
            );
            assert_eq!(definition["metadata"]["name"], expected, "{name}");
        }
    }
}
