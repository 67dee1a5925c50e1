//! The reviews that an API server sends, as they are written.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/api/admission/v1/types.go`
//! - `staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go`: `ConversionReview`

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::UserInfo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The group and version of the reviews of admission that are taken.
pub(super) const ADMISSION: &str = "admission.k8s.io/v1";

/// The group and version of the reviews of conversion that are taken.
pub(super) const CONVERSION: &str = "apiextensions.k8s.io/v1";

/// Which kind a review is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ReviewedKind {
    /// The API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
}

/// Which resource a review is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ReviewedResource {
    /// The API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The resource, as in paths.
    #[serde(default)]
    pub resource: String,
}

/// A request that is to be admitted, as the API server describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// The identity of this call.
    pub uid: String,
    /// The kind of the objects, in the version of the webhook's rule.
    #[serde(default)]
    pub kind: ReviewedKind,
    /// The resource, in the version of the webhook's rule.
    #[serde(default)]
    pub resource: ReviewedResource,
    /// The subresource, such as `status`; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// The kind of the request as it was sent, which [`kind`](Self::kind) may have been
    /// converted from.
    pub request_kind: Option<ReviewedKind>,
    /// The resource of the request as it was sent.
    pub request_resource: Option<ReviewedResource>,
    /// The object's name; empty while the server has not made one of `generateName`.
    #[serde(default)]
    pub name: String,
    /// The namespace; empty for objects outside of any.
    #[serde(default)]
    pub namespace: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(default)]
    pub operation: String,
    /// Who sent the request.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it is to be.
    #[serde(default)]
    pub(super) object: Option<Box<RawValue>>,
    /// The object as it is.
    #[serde(default)]
    pub(super) old_object: Option<Box<RawValue>>,
    /// Whether nothing will be stored.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The options of the request, such as `CreateOptions`.
    #[serde(default)]
    pub options: Value,
}

impl AdmissionRequest {
    /// The object as it is to be, as it was sent; null for a deletion.
    pub fn object(&self) -> Value {
        parsed(self.object.as_deref())
    }

    /// The object as it is; null for a creation.
    pub fn old_object(&self) -> Value {
        parsed(self.old_object.as_deref())
    }
}

/// Text that was read as JSON is JSON.
fn parsed(text: Option<&RawValue>) -> Value {
    let text = text.and_then(|text| serde_json::from_str(text.get()).ok());
    text.unwrap_or_default()
}

/// A review, as far as it must be known before the rest of it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<T> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<T>,
}

/// Reads a review of this kind and version, or says what is wrong with it.
fn read<T: DeserializeOwned>(body: &[u8], kind: &str, api_version: &str) -> Result<T, String> {
    let review: Envelope<T> = serde_json::from_slice(body)
        .map_err(|error| format!("the body cannot be read as {api_version} {kind}: {error}"))?;
    if review.kind != kind || review.api_version != api_version {
        return Err(format!(
            "the body is {:?} of {:?}, and {kind} of {api_version} is taken here",
            review.kind, review.api_version
        ));
    }
    let without = || format!("the {kind} has no `request`");
    review.request.ok_or_else(without)
}

/// Reads an AdmissionReview.
pub(super) fn admission(body: &[u8]) -> Result<AdmissionRequest, String> {
    read(body, "AdmissionReview", ADMISSION)
}

/// What a webhook decided.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionResponse {
    pub(super) uid: String,
    pub(super) allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Value>,
    /// In base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) audit_annotations: BTreeMap<String, String>,
}

/// Objects that are to be converted.
#[derive(Debug, Deserialize)]
pub(super) struct ConversionRequest {
    pub(super) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(super) desired_api_version: String,
    #[serde(default)]
    pub(super) objects: Vec<Value>,
}

/// Reads a ConversionReview.
pub(super) fn conversion(body: &[u8]) -> Result<ConversionRequest, String> {
    read(body, "ConversionReview", CONVERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_review_of_this_version_is_named() {
        let read = |body: &str| admission(body.as_bytes()).unwrap_err();
        assert!(read("garbage").starts_with("the body cannot be read as admission.k8s.io/v1"));
        assert_eq!(
            read(r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}"#),
            "the body is \"AdmissionReview\" of \"admission.k8s.io/v1beta1\", and AdmissionReview \
             of admission.k8s.io/v1 is taken here"
        );
        let empty = r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}"#;
        assert_eq!(read(empty), "the AdmissionReview has no `request`");
    }
}
