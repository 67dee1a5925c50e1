//! Warnings for files of one volume whose paths overlap.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/api/pod/warnings.go`: `warningsForOverlappingVirtualPaths`, `checkForOverlap`

use serde_json::Value;

use crate::kinds::value::Read;

/// A path in a volume, and its source if the volume is projected.
#[derive(Eq, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        File {
            path: path.trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }

    fn overlaps(&self, other: &File) -> bool {
        let is_within = |one: &str, two: &str| {
            let below = one.strip_prefix(two);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (is_within(&self.path, &other.path) || is_within(&other.path, &self.path))
    }

    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }
}

/// Warnings for one volume.
pub(super) fn warnings(volume: &Value) -> Vec<String> {
    let name = volume.text("name");
    let mut warnings = Vec::new();
    let configs = [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
    ];
    for (key, kind, name_key) in configs {
        let source = volume.at(key);
        if source.is_null() {
            continue;
        }
        let what = format!("{kind} {:?}", source.text(name_key));
        collisions(&mut warnings, name, &what, &files(source, ""));
    }
    let files_of_pod = files(volume.at("downwardAPI"), "");
    collisions(&mut warnings, name, "DownwardAPI", &files_of_pod);
    let mut projected = Vec::new();
    for source in volume.at("projected").items("sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            let text = format!("volume {name:?} (Projected) has no sources provided");
            warnings.push(text);
            continue;
        }
        projected.extend(projection(source));
    }
    collisions(&mut warnings, name, "Projected", &projected);
    warnings
}

fn files(source: &Value, from: &str) -> Vec<File> {
    let items = source.items("items").iter();
    items
        .map(|item| File::new(item.text("path"), from))
        .collect()
}

fn projection(source: &Value) -> Vec<File> {
    let named = |key: &str, kind: &str| {
        let part = source.at(key);
        files(part, &format!("{kind} {:?}", part.text("name")))
    };
    if source.at("configMap").has("items") {
        return named("configMap", "ConfigMap");
    }
    if source.at("secret").has("items") {
        return named("secret", "Secret");
    }
    if source.at("downwardAPI").has("items") {
        return files(source.at("downwardAPI"), "DownwardAPI");
    }
    if source.has("serviceAccountToken") {
        let path = source.at("serviceAccountToken").text("path");
        return vec![File::new(path, "ServiceAccountToken")];
    }
    if source.has("clusterTrustBundle") {
        let bundle = source.at("clusterTrustBundle");
        let name = bundle.at("name").as_str();
        let name = name.unwrap_or(bundle.text("signerName"));
        let from = format!("ClusterTrustBundle {name:?}");
        return vec![File::new(bundle.text("path"), &from)];
    }
    let certificate = source.at("podCertificate");
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let parts = parts
        .into_iter()
        .filter(|(key, _)| !certificate.text(key).is_empty());
    parts
        .map(|(key, from)| File::new(certificate.text(key), from))
        .collect()
}

fn collisions(warnings: &mut Vec<String>, volume: &str, what: &str, files: &[File]) {
    for (i, file) in files.iter().enumerate() {
        for other in files[..i].iter().filter(|other| other.overlaps(file)) {
            let pair = format!("{} with {}", file.shown(), other.shown());
            warnings.push(format!(
                "volume {volume:?} ({what}): overlapping paths: {pair}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_no_directory() {
        let items = json!([{"path": "a"}, {"path": "a/b"}, {"path": "ab"}]);
        let volume = json!({"name": "v", "configMap": {"name": "m", "items": items}});
        assert_eq!(
            warnings(&volume),
            ["volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\""]
        );
    }

    #[test]
    fn sources_of_one_volume_share_its_paths() {
        let sources = json!([
            {"secret": {"name": "s", "items": [{"path": "token"}]}},
            {"serviceAccountToken": {"path": "token"}},
            {},
        ]);
        let volume = json!({"name": "v", "projected": {"sources": sources}});
        assert_eq!(
            warnings(&volume),
            [
                "volume \"v\" (Projected) has no sources provided",
                "volume \"v\" (Projected): overlapping paths: \"token\" (ServiceAccountToken) with \"token\" (Secret \"s\")",
            ]
        );
    }
}
