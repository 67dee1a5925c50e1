//! The conditions of a namespace that is being deleted.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/namespace/deletion/status_condition_utils.go`

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sendo::Timestamp;

use super::RemainingContent;

/// The conditions after a pass that left `remaining`. One whose status does not change keeps its
/// transition time.
pub(super) fn deletion_conditions(
    namespace: &Namespace,
    remaining: &RemainingContent,
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let condition = |type_: &str, status: bool, reason: &str, message: String| NamespaceCondition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
    };
    let mut conditions = vec![
        condition(
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        condition(
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        match counted(&remaining.objects, "has") {
            None => condition(
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".to_owned(),
            ),
            Some(objects) => condition(
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                format!("Some resources are remaining: {objects}"),
            ),
        },
        match counted(&remaining.finalizers, "in") {
            None => condition(
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            ),
            Some(finalizers) => condition(
                "NamespaceFinalizersRemaining",
                true,
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {finalizers}"),
            ),
        },
    ];
    let before = namespace
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_ref());
    for condition in &mut conditions {
        let same = before
            .into_iter()
            .flatten()
            .find(|old| old.type_ == condition.type_ && old.status == condition.status);
        if let Some(old) = same {
            condition.last_transition_time = old.last_transition_time.clone();
        }
    }
    conditions
}

fn counted(counts: &BTreeMap<String, usize>, joined_by: &str) -> Option<String> {
    let parts: Vec<_> = counts
        .iter()
        .map(|(name, count)| format!("{name} {joined_by} {count} resource instances"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
