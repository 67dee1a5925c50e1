//! All versions of a definition: their schemas, which of them is stored, and the webhook that
//! converts between them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/converter.go`: `NewConverter`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`: `webhookClientConfigForCRD`

use std::sync::{Arc, OnceLock};

use sendo_apimachinery::schema::{Schema, SchemaRef, Types};
use sendo_apimachinery::structural::Structural;
use sendo_apimachinery::validation_rules::Rules;
use serde_json::Value;

use super::{text, texts};
use crate::catalog::stored_form;
use crate::webhook::ClientConfig;

/// The versions of a definition, shared by the resources of all of them.
#[derive(Debug)]
pub(crate) struct Versions {
    all: Vec<Version>,
    /// The place of the version in which objects are stored.
    storage: usize,
    /// The place of the version of stored objects that name none.
    unnamed: usize,
    /// What converts between the versions; none if only `apiVersion` changes.
    pub(crate) webhook: Option<ConversionWebhook>,
}

/// A version of a definition, which need not be served.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) api_version: String,
    /// Versions with equal schemas share one.
    pub(crate) schema: Arc<Structural>,
    /// The CEL rules of the schema, compiled.
    pub(super) expressions: Arc<Rules>,
    /// The schema for server-side apply, built on first use.
    merge_schema: OnceLock<Schema>,
}

impl Version {
    /// The schema as server-side apply uses it.
    pub(crate) fn merge_schema<'a>(&'a self, types: &'a Types) -> SchemaRef<'a> {
        let own = || self.schema.to_schema(types);
        types.view(self.merge_schema.get_or_init(own))
    }
}

/// The webhook of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConversionWebhook {
    pub(crate) client: ClientConfig,
    /// The versions of reviews it takes, the preferred one first.
    pub(crate) review_versions: Vec<String>,
}

impl ConversionWebhook {
    fn from_definition(definition: &Value) -> Option<Self> {
        let conversion = &definition["spec"]["conversion"];
        (conversion["strategy"] == "Webhook").then(|| ConversionWebhook {
            client: ClientConfig::read(&conversion["webhook"]["clientConfig"]),
            review_versions: texts(&conversion["webhook"]["conversionReviewVersions"]),
        })
    }
}

impl Versions {
    /// The versions of a definition; `None` if it has no storage version.
    pub(crate) fn from_definition(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let group = text(&spec["group"]);
        let mut all: Vec<Version> = Vec::new();
        let mut published: Vec<&Value> = Vec::new();
        let mut storage = None;
        for version in spec["versions"].as_array()? {
            let schema = &version["schema"]["openAPIV3Schema"];
            let same = published.iter().position(|own| *own == schema);
            published.push(schema);
            if version["storage"] == true {
                storage = Some(all.len());
            }
            let (schema, expressions) = match same.map(|same| &all[same]) {
                Some(same) => (Arc::clone(&same.schema), Arc::clone(&same.expressions)),
                None => {
                    let schema = Structural::from_json(schema);
                    let expressions = Rules::compile(&schema);
                    (Arc::new(schema), Arc::new(expressions))
                }
            };
            all.push(Version {
                api_version: format!("{group}/{}", text(&version["name"])),
                schema,
                expressions,
                merge_schema: OnceLock::new(),
            });
        }
        let storage = storage?;
        let first = format!(
            "{group}/{}",
            text(&definition["status"]["storedVersions"][0])
        );
        let unnamed = all.iter().position(|own| own.api_version == first);
        Some(Versions {
            unnamed: unnamed.unwrap_or(storage),
            webhook: ConversionWebhook::from_definition(definition),
            all,
            storage,
        })
    }

    /// The version in which objects are stored.
    pub(crate) fn storage(&self) -> &Version {
        &self.all[self.storage]
    }

    /// A version by its `apiVersion`.
    pub(crate) fn find(&self, api_version: &str) -> Option<&Version> {
        self.all.iter().find(|own| own.api_version == api_version)
    }

    /// The version of stored bytes.
    ///
    /// # Errors
    /// Its name, if the definition does not have it any more.
    pub(crate) fn of_stored<'s>(&self, stored: &'s [u8]) -> Result<&Version, &'s str> {
        match stored_form::named_version(stored) {
            None => Ok(&self.all[self.unnamed]),
            Some(name) => self.find(name).ok_or(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_in_the_version_that_it_names_or_in_the_first_that_was_stored() {
        let version = |name: &str, storage: bool| json!({"name": name, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
        let definition = json!({
            "spec": {"group": "example.dev", "versions": [version("v2", true), version("v1", false)]},
            "status": {"storedVersions": ["v1", "v2"]},
        });
        let versions = Versions::from_definition(&definition).unwrap();
        let of_stored = |stored: &[u8]| {
            let found = versions.of_stored(stored);
            found
                .map(|own| own.api_version.clone())
                .map_err(str::to_owned)
        };
        assert_eq!(versions.storage().api_version, "example.dev/v2");
        assert_eq!(of_stored(br#"{"metadata":{}}"#).unwrap(), "example.dev/v1");
        let named = |name: &str| format!(r#"{{"metadata":{{}},"apiVersion":"{name}"}}"#);
        assert_eq!(
            of_stored(named("example.dev/v2").as_bytes()).unwrap(),
            "example.dev/v2"
        );
        let gone = of_stored(named("example.dev/v0").as_bytes());
        assert_eq!(gone.unwrap_err(), "example.dev/v0");
        assert!(Arc::ptr_eq(
            &versions.all[0].schema,
            &versions.all[1].schema
        ));
        assert!(versions.webhook.is_none());
    }
}
