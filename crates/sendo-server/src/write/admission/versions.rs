//! The objects of a request in the version that a webhook or a policy has matched.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/conversion.go`: `NewVersionedAttributes`, `ConvertToGVK`
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go`: `callAttrMutatingHook`

use std::sync::Arc;

use sendo_apimachinery::decode::typed_as_sent;
use sendo_apimachinery::schema::{SchemaRef, show_as_stored};
use sendo_apimachinery::{Status, go_quote};
use serde_json::Value;

use super::Attributes;
use super::matching::Version;

/// What becomes of fields that the kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    Dropped,
    Refused,
}

/// The objects of a request, as a webhook or an expression sees them.
#[derive(Debug)]
pub(super) struct Versioned {
    pub(super) version: Version,
    /// Null where there is none.
    pub(super) object: Value,
    pub(super) old: Value,
}

impl Versioned {
    /// The objects in a version, or why they cannot be converted.
    pub(super) async fn new(
        attributes: &Attributes<'_>,
        object: &Value,
        version: Version,
    ) -> Result<Self, String> {
        let old = attributes.old.unwrap_or(&Value::Null);
        Ok(Versioned {
            old: version.show(attributes, old).await?,
            object: version.show(attributes, object).await?,
            version,
        })
    }

    /// Whether these are the objects in a version.
    pub(super) fn is_of(&self, version: &Version) -> bool {
        Arc::ptr_eq(&self.version.resource, &version.resource)
    }

    /// The schema by which a configuration is merged into the object.
    pub(super) fn merge_schema<'t>(&'t self, attributes: &Attributes<'t>) -> Option<SchemaRef<'t>> {
        let types = &attributes.call.server.types;
        if let Some(custom) = &self.version.resource.custom
            && attributes.is_of_own_kind()
        {
            return Some(custom.merge_schema(types));
        }
        let text = |member: &str| self.object[member].as_str().unwrap_or_default();
        types.kind(text("apiVersion"), text("kind"))
    }

    /// Reads what a patch has made of the object.
    pub(super) fn read(
        &self,
        attributes: &Attributes<'_>,
        patched: Value,
        unknown: Unknown,
    ) -> Result<Value, Status> {
        let text = |member: &str| patched[member].as_str().unwrap_or_default();
        if ["apiVersion", "kind"]
            .iter()
            .any(|member| text(member) != self.object[*member])
        {
            let (kind, version) = (go_quote(text("kind")), go_quote(text("apiVersion")));
            return Err(Status::internal_error(format!(
                "no kind {kind} is registered for version {version} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        let types = &attributes.call.server.types;
        let schema = types.kind(text("apiVersion"), text("kind"));
        let mut object = patched;
        match (&self.version.resource.custom, schema) {
            (Some(custom), _) if attributes.is_of_own_kind() => {
                let admitted = custom.schema().admit(&mut object, types);
                admitted.map_err(|error| Status::internal_error(error.to_string()))?;
            }
            (_, Some(schema)) => {
                let read = typed_as_sent(object, schema);
                let read = read.map_err(|error| Status::internal_error(error.to_string()))?;
                if unknown == Unknown::Refused && !read.problems.is_empty() {
                    let problems = read.problems.join(", ");
                    return Err(Status::internal_error(format!(
                        "strict decoding error: {problems}"
                    )));
                }
                object = read.value;
                for member in ["apiVersion", "kind"] {
                    object[member] = self.object[member].clone();
                }
                show_as_stored(schema, &mut object);
            }
            (_, None) => {}
        }
        Ok(object)
    }

    /// What was read, with defaults, as the request has it, or why it cannot be converted.
    pub(super) async fn to_request(
        &self,
        attributes: &Attributes<'_>,
        mut object: Value,
    ) -> Result<Value, String> {
        if attributes.is_of_own_kind() {
            self.version.resource.default_object(&mut object);
        }
        self.version.to_request(attributes, object).await
    }
}
