//! Revisions: the annotations that number the ReplicaSets of a Deployment and record its sizes.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/deployment/util/deployment_util.go`: `MaxRevision`, `Revision`,
//!   `SetNewReplicaSetAnnotations`, `skipCopyAnnotation`, `SetReplicasAnnotations`

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use sendo::ObjectExt;

use super::bounds::Bounds;

/// The revision of a ReplicaSet, or the current one of a Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The revisions that a ReplicaSet had before rollbacks gave it later ones.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The replicas of the Deployment when the ReplicaSet was last scaled.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum number of pods, with surge, at that time.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of the Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];

/// The maximum length of the revision history in bytes; the oldest revisions are removed first.
const MAX_HISTORY_LENGTH: usize = 2000;

/// The revision of a ReplicaSet, 0 if it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    let text = set.annotation(REVISION);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision of a ReplicaSet that is newer than the `old` ones.
pub(super) fn next<'a>(old: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    old.into_iter().map(revision).max().unwrap_or(0) + 1
}

/// Copies the annotations of the Deployment to the ReplicaSet of the current template, and sets
/// its revision. A revision that it had before a rollback to it goes to its revision history.
pub(super) fn annotate(set: &mut ReplicaSet, deployment: &Deployment, next: i64) {
    let before = set.annotation(REVISION).map(str::to_owned);
    let annotations = set.metadata.annotations.get_or_insert_default();
    for (name, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            annotations.insert(name.clone(), value.clone());
        }
    }
    let number = match &before {
        None => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            // A user has changed the annotation to something that is no number: leave it.
            Err(_) => return,
        },
    };
    // Old ReplicaSets may have been deleted meanwhile: a revision never becomes less.
    if number >= next {
        return;
    }
    annotations.insert(REVISION.to_owned(), next.to_string());
    if let Some(before) = before {
        append_to_history(annotations, &before);
    }
}

fn append_to_history(annotations: &mut BTreeMap<String, String>, revision: &str) {
    let known = annotations.get(HISTORY).map(String::as_str).unwrap_or("");
    let mut numbers: Vec<&str> = known.split(',').filter(|n| !n.is_empty()).collect();
    numbers.push(revision);
    let length = |numbers: &[&str]| numbers.iter().map(|n| n.len() + 1).sum::<usize>() - 1;
    while numbers.len() > 1 && length(&numbers) > MAX_HISTORY_LENGTH {
        numbers.remove(0);
    }
    let history = numbers.join(",");
    annotations.insert(HISTORY.to_owned(), history);
}

/// Sets the annotations about sizes, by which a later sync detects that the Deployment was
/// scaled. Returns whether they have changed.
pub(super) fn annotate_replicas(set: &mut ReplicaSet, bounds: Bounds) -> bool {
    let annotations = set.metadata.annotations.get_or_insert_default();
    let mut changed = false;
    for (name, number) in [
        (DESIRED_REPLICAS, bounds.replicas),
        (MAX_REPLICAS, bounds.max_replicas()),
    ] {
        let number = number.to_string();
        if annotations.get(name) != Some(&number) {
            annotations.insert(name.to_owned(), number);
            changed = true;
        }
    }
    changed
}

/// The number in an annotation, if it is one and not negative.
pub(super) fn annotated_number(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    let number: i32 = set.annotation(annotation)?.parse().ok()?;
    (number >= 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(annotations: Value) -> ReplicaSet {
        let set = json!({"metadata": {"name": "web-1", "annotations": annotations}});
        serde_json::from_value(set).unwrap()
    }

    fn deployment(annotations: Value) -> Deployment {
        let deployment = json!({"metadata": {"name": "web", "annotations": annotations}});
        serde_json::from_value(deployment).unwrap()
    }

    #[test]
    fn a_new_set_takes_the_next_revision_and_the_annotations() {
        let old = [set(json!({REVISION: "2"})), set(json!({REVISION: "oops"}))];
        let mut new = set(json!({}));
        let annotations = json!({"team": "a", REVISION: "2", NOT_COPIED[0]: "{}"});
        annotate(&mut new, &deployment(annotations), next(&old));
        assert_eq!(
            json!(new.metadata.annotations),
            json!({"team": "a", REVISION: "3"})
        );
    }

    #[test]
    fn a_rollback_appends_to_the_revision_history() {
        let mut new = set(json!({REVISION: "4", HISTORY: "1,2"}));
        annotate(&mut new, &deployment(json!({})), 7);
        assert_eq!(new.annotation(REVISION), Some("7"));
        assert_eq!(new.annotation(HISTORY), Some("1,2,4"));
        // Neither the same revision nor a lower one, after old ReplicaSets were deleted, changes it.
        let before = new.clone();
        annotate(&mut new, &deployment(json!({})), 7);
        annotate(&mut new, &deployment(json!({})), 1);
        assert_eq!(new, before);
    }

    #[test]
    fn a_long_revision_history_loses_its_oldest() {
        let long = vec!["123456789"; 200].join(",");
        let mut new = set(json!({REVISION: "5", HISTORY: long}));
        annotate(&mut new, &deployment(json!({})), 6);
        let history = new.annotation(HISTORY).unwrap();
        assert!(history.len() <= MAX_HISTORY_LENGTH && history.ends_with(",5"));
    }
}
