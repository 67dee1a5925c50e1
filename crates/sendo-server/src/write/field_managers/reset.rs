//! Fields that a write through an endpoint does not change, so that a manager that
//! sends them does not own them: `GetResetFields` of the strategies.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/rest.go`: `ResetFieldsStrategy`

use sendo_apimachinery::managed_fields::{FieldPath, FieldSet};

use crate::catalog::Resource;

/// The fields that a write through `subresource` (empty for the object itself)
/// leaves as they are, in one of the object's versions.
pub(super) fn fields(resource: &Resource, subresource: &str, api_version: &str) -> FieldSet {
    let has_status = |resource: &Resource| resource.facts.subresource("status").is_some();
    let paths: &[&[&str]] = match (subresource, &resource.custom) {
        ("status", Some(_)) => ELSEWHERE,
        // Versions of one definition may differ in whether they have a status.
        ("", Some(_)) if resource.types.api_version != api_version => &[],
        ("", _) if !has_status(resource) => &[],
        ("", Some(_)) => STATUS,
        ("", None) => on_object(resource),
        ("status", None) => on_status(resource),
        (other, None) => on_subresource(resource, other),
        (_, Some(_)) => &[],
    };
    paths
        .iter()
        .map(|path| FieldPath::of_fields(path.iter().copied()))
        .collect()
}

const STATUS: &[&[&str]] = &[&["status"]];
/// All but the status.
const ELSEWHERE: &[&[&str]] = &[&["metadata"], &["spec"]];
const SPEC: &[&[&str]] = &[&["spec"]];

fn on_object(resource: &Resource) -> &'static [&'static [&'static str]] {
    match resource.facts.kind.as_str() {
        "CertificateSigningRequest" => &[&["spec"], &["status"]],
        _ => STATUS,
    }
}

fn on_status(resource: &Resource) -> &'static [&'static [&'static str]] {
    match resource.facts.kind.as_str() {
        "APIService"
        | "CustomResourceDefinition"
        | "FlowSchema"
        | "PriorityLevelConfiguration"
        | "ResourceClaim"
        | "ServiceCIDR"
        | "ValidatingAdmissionPolicy"
        | "VolumeAttachment" => ELSEWHERE,
        "CertificateSigningRequest" => &[&["spec"], &["status", "conditions"]],
        "Deployment" => &[&["spec"], &["metadata", "labels"]],
        "Pod" => &[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
        _ => SPEC,
    }
}

fn on_subresource(resource: &Resource, subresource: &str) -> &'static [&'static [&'static str]] {
    match (resource.facts.kind.as_str(), subresource) {
        ("CertificateSigningRequest", "approval") => &[&["spec"], &["status", "certificate"]],
        ("Namespace", "finalize") => STATUS,
        _ => &[],
    }
}
