//! What a catalog of operators shows of a program, beside what its declaration says.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{InvalidOption, ManifestError};
use crate::manager::Manager;

/// What a catalog of operators shows of a program, beside what its declaration says. It is part of
/// a [bundle](super::Format::Bundle); what is not set is left out there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Who provides it; the program's name by default, since a catalog wants one.
    pub provider: Option<String>,
    /// Who maintains it: names and e-mail addresses.
    pub maintainers: Vec<(String, String)>,
    /// Pages about it: titles and addresses.
    pub links: Vec<(String, String)>,
    /// Its picture.
    pub icon: Option<Icon>,
    /// Objects of its kinds, as examples for users.
    pub samples: Vec<Value>,
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icon {
    /// Such as `image/svg+xml`.
    pub media_type: String,
    /// The file.
    pub data: Vec<u8>,
}

impl Icon {
    /// The types that a catalog takes (operator-framework/api, `pkg/validation/internal`:
    /// `validMediatypes`), by the endings of files.
    const TYPES: [(&str, &str); 5] = [
        ("svg", "image/svg+xml"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
    ];

    /// Reads a file, whose ending says of which type it is.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a catalog does not take its type.
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let known = Icon::TYPES.iter().find(|(known, _)| Some(*known) == ending);
        let Some((_, media_type)) = known else {
            return Err(ManifestError::Option(InvalidOption(format!(
                "--icon {}: a catalog takes .svg, .png, .jpg and .gif",
                path.display()
            ))));
        };
        let data = std::fs::read(path).map_err(|source| ManifestError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Icon {
            media_type: (*media_type).to_owned(),
            data,
        })
    }
}

impl Catalog {
    /// The objects of the program's kinds in the YAML and JSON files of a folder, in the order of
    /// their names.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or there is no such object.
    pub fn read_samples(manager: &Manager, folder: &Path) -> Result<Vec<Value>, ManifestError> {
        let at = |path: &Path, source| ManifestError::File {
            path: path.to_owned(),
            source,
        };
        let entries = std::fs::read_dir(folder).map_err(|error| at(folder, error))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|error| at(folder, error))?.path());
        }
        let is_sample = |path: &Path| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            ending.is_some_and(|ending| ["yaml", "yml", "json"].contains(&ending))
        };
        paths.retain(|path| is_sample(path));
        paths.sort();
        let mut samples = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|error| at(&path, error))?;
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
                at(
                    &path,
                    std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()),
                )
            })?;
            samples.extend(objects.into_iter().filter(|object| is_of(manager, object)));
        }
        if samples.is_empty() {
            return Err(ManifestError::Option(InvalidOption(format!(
                "--samples {}: there is no object of the program's kinds in a .yaml or .json file",
                folder.display()
            ))));
        }
        Ok(samples)
    }

    /// The samples as the annotation `alm-examples` has them: a text of JSON.
    pub(super) fn examples(&self) -> Value {
        serde_json::to_string_pretty(&self.samples)
            .unwrap_or_else(|_| "[]".to_owned())
            .into()
    }

    /// Adds what is set to the spec of a ClusterServiceVersion.
    pub(super) fn add_to(&self, spec: &mut Value, program: &str) {
        let provider = self.provider.as_deref().unwrap_or(program);
        spec["provider"] = json!({"name": provider});
        let pairs = |pairs: &[(String, String)], second: &str| -> Option<Value> {
            let pairs = pairs.iter();
            let listed: Vec<Value> = pairs
                .map(|(name, other)| json!({"name": name, second: other}))
                .collect();
            (!listed.is_empty()).then(|| listed.into())
        };
        if let Some(maintainers) = pairs(&self.maintainers, "email") {
            spec["maintainers"] = maintainers;
        }
        if let Some(links) = pairs(&self.links, "url") {
            spec["links"] = links;
        }
        if let Some(icon) = &self.icon {
            let data = STANDARD.encode(&icon.data);
            spec["icon"] = json!([{"base64data": data, "mediatype": icon.media_type}]);
        }
    }
}

/// Whether an object is of one of the program's kinds, in a version of it.
fn is_of(manager: &Manager, object: &Value) -> bool {
    let mut definitions = manager.definitions().iter();
    definitions.any(|definition| {
        let spec = &definition.spec;
        let mut versions = spec.versions.iter();
        object["kind"] == spec.names.kind
            && versions
                .any(|version| object["apiVersion"] == format!("{}/{}", spec.group, version.name))
    })
}
