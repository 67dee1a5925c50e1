//! The versions of a resource, as the tracking of field managers needs them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go`

use std::sync::Arc;

use sendo_apimachinery::GroupVersion;
use sendo_apimachinery::managed_fields::{ConvertError, Versions};
use sendo_apimachinery::schema::{SchemaRef, Types, show_as_go};
use serde_json::Value;

use crate::catalog::custom::Custom;
use crate::catalog::{Catalog, Resource};
use crate::kinds::value::with_api_version;
use crate::request::Request;
use crate::state::Server;

/// The versions of a resource.
pub(super) struct KindVersions<'a> {
    server: &'a Server,
    resource: &'a Resource,
    /// The request for which a webhook converts objects.
    request: Option<&'a Request>,
    /// Only custom resources come and go.
    catalog: Option<Arc<Catalog>>,
}

impl<'a> KindVersions<'a> {
    pub(super) fn new(
        server: &'a Server,
        resource: &'a Resource,
        request: Option<&'a Request>,
    ) -> Self {
        KindVersions {
            server,
            resource,
            request,
            catalog: resource.custom.as_ref().map(|_| server.catalog()),
        }
    }

    /// What is particular to a custom resource in a version.
    pub(super) fn custom(&self, api_version: &str) -> Option<&Custom> {
        let own = self.resource.custom.as_deref()?;
        if self.resource.types.api_version == api_version {
            return Some(own);
        }
        let facts = &self.resource.facts;
        let version = GroupVersion::parse(api_version)?;
        let found = self
            .catalog
            .as_ref()?
            .find(&facts.group, &version.version, &facts.plural)
            .filter(|_| version.group == facts.group)?;
        found.custom.as_deref()
    }
}

impl Versions for KindVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef<'_>> {
        let types = &self.server.types;
        let facts = &self.resource.facts;
        if self.resource.custom.is_none() {
            // Who writes through another group that has the kind is not known here.
            let version = GroupVersion::parse(api_version)?;
            return types
                .kind(api_version, &facts.kind)
                .filter(|_| version.group == facts.group);
        }
        let custom = self.resource.custom.as_deref()?;
        let version = custom.versions.find(api_version)?;
        Some(version.merge_schema(types))
    }

    fn are_typed(&self) -> bool {
        self.resource.custom.is_none()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if let Some(custom) = &self.resource.custom {
            // A definition that drops a version leaves managers that nothing can be told of.
            if custom.versions.find(api_version).is_none() {
                return Err(ConvertError::Failed(format!(
                    "request to convert CR to an invalid group/version: {api_version}"
                )));
            }
            if !custom.has_webhook() {
                return Ok(with_api_version(object, api_version));
            }
            let known = self
                .request
                .and_then(|request| request.conversions().find(object, api_version));
            return match known {
                Some(outcome) => outcome.map_err(ConvertError::Failed),
                None => Err(ConvertError::Failed("not converted yet".to_owned())),
            };
        }
        let schema = self
            .schema(api_version)
            .ok_or(ConvertError::MissingVersion)?;
        let from = object["apiVersion"].as_str().unwrap_or_default();
        let mut converted = (self.resource.rules.convert)(object, from, api_version);
        show_as_go(schema, &mut converted);
        Ok(converted)
    }
}

/// The one version that there is of a built-in kind that only subresources have, as Scale.
pub(super) struct OnlyVersion<'a> {
    pub(super) types: &'a Types,
    pub(super) kind: &'a str,
}

impl Versions for OnlyVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef<'_>> {
        self.types.kind(api_version, self.kind)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        match self.schema(api_version) {
            Some(_) => Ok(object.clone()),
            None => Err(ConvertError::MissingVersion),
        }
    }
}
