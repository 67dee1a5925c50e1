//! Defaults and strategy of CustomResourceDefinitions. Their validation is in `crd::validate`.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go`

use sendo_apimachinery::go_quote;
use sendo_apimachinery::structural::unrecognized_formats;
use serde_json::{Value, json};

use super::value::{Read, Write};
use super::{Rules, writes};

pub(super) const RULES: Rules = Rules {
    default: default_definition,
    prepare_for_create: |cx, definition| {
        writes::starts_without_status(cx, definition);
        let names = json!({"kind": "", "plural": ""});
        definition.set(
            "status",
            json!({"acceptedNames": names, "conditions": null, "storedVersions": null}),
        );
        remember_storage_version(definition);
    },
    prepare_for_update: |cx, new, old| {
        writes::spec_moves_generation(cx, new, old);
        remember_storage_version(new);
    },
    prepare_for_status_update: writes::status_with_metadata,
    warnings_on_create: |definition| warn_of(&formats(definition), &[]),
    warnings_on_update: |new, old| warn_of(&formats(new), &formats(old)),
    ..Rules::NEUTRAL
};

/// The formats in the schemas that Kubernetes does not recognize and therefore does not enforce.
fn formats(definition: &Value) -> Vec<String> {
    let versions = definition.at("spec").items("versions").iter();
    versions
        .flat_map(|version| unrecognized_formats(version.at("schema").at("openAPIV3Schema")))
        .collect()
}

fn warn_of(formats: &[String], known: &[String]) -> Vec<String> {
    let new = formats.iter().filter(|format| !known.contains(format));
    new.map(|format| format!("unrecognized format {}", go_quote(format)))
        .collect()
}

fn default_definition(definition: &mut Value) {
    let spec = definition.object("spec");
    let names = spec.object("names");
    let kind = names.text("kind").to_owned();
    if !kind.is_empty() {
        names.default_if_zero("singular", kind.to_lowercase());
        names.default_if_zero("listKind", format!("{kind}List"));
    }
    spec.default_to("conversion", json!({"strategy": "None"}));
    if let Some(webhook) = spec.object("conversion").existing("webhook")
        && let Some(service) = webhook
            .existing("clientConfig")
            .and_then(|config| config.existing("service"))
    {
        service.default_to("port", 443);
    }
    if definition.at("status").items("storedVersions").is_empty()
        && let Some(version) = storage_version(definition)
    {
        definition
            .object("status")
            .set("storedVersions", json!([version]));
    }
}

fn storage_version(definition: &Value) -> Option<String> {
    let mut versions = definition.at("spec").items("versions").iter();
    versions
        .find(|version| version.is_set("storage"))
        .map(|version| version.text("name").to_owned())
}

/// Adds the storage version to `status.storedVersions`. Versions leave that list only when a client
/// removes them after a storage migration.
fn remember_storage_version(definition: &mut Value) {
    let Some(version) = storage_version(definition) else {
        return;
    };
    let mut stored = definition.at("status").items("storedVersions").to_vec();
    if !stored.iter().any(|name| *name == version) {
        stored.push(version.into());
        definition.object("status").set("storedVersions", stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_kind() {
        let mut definition = json!({"spec": {"names": {"kind": "Widget"}, "versions": [{"name": "v1", "storage": true}]}});
        default_definition(&mut definition);
        assert_eq!(
            definition["spec"]["names"],
            json!({"kind": "Widget", "listKind": "WidgetList", "singular": "widget"})
        );
        assert_eq!(
            definition["spec"]["conversion"],
            json!({"strategy": "None"})
        );
        assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    }

    #[test]
    fn unrecognized_formats_are_warned_of_once() {
        let with = |formats: &[&str]| {
            let properties = formats.iter().enumerate().map(|(i, format)| {
                let schema =
                    json!({"type": "array", "items": {"type": "string", "format": format}});
                (i.to_string(), schema)
            });
            let properties = properties.collect::<serde_json::Map<_, _>>();
            let schema = json!({"type": "object", "properties": properties});
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
        };
        let new = with(&["date-time", "x", "int32"]);
        assert_eq!(
            (RULES.warnings_on_create)(&new),
            ["unrecognized format \"x\"", "unrecognized format \"int32\""]
        );
        assert_eq!(
            (RULES.warnings_on_update)(&new, &with(&["x"])),
            ["unrecognized format \"int32\""]
        );
    }

    #[test]
    fn a_new_storage_version_joins_the_old_ones() {
        let mut definition = json!({"spec": {"versions": [{"name": "v2", "storage": true}]},
                                    "status": {"storedVersions": ["v1"]}});
        remember_storage_version(&mut definition);
        assert_eq!(definition["status"]["storedVersions"], json!(["v1", "v2"]));
    }
}
