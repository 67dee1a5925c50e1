//! Revisions: how the sets of a Deployment are numbered, and what they remember.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use sendo::ObjectExt;

use super::bounds::Bounds;

/// The number of a template among those of its Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers a set had before a rollback gave it another.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many replicas the Deployment wanted when the set was last sized.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many it allowed for at most then.
pub(super) const MOST: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of the Deployment that say nothing about its sets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
];

/// How long a history may get; the oldest numbers go first.
const LONGEST_HISTORY: usize = 2000;

/// The set's revision, 0 if it has none.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    let text = set.annotation(REVISION);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision a set gets that is newer than `old`.
pub(super) fn next<'a>(old: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    old.into_iter().map(revision).max().unwrap_or(0) + 1
}

/// Gives the set of the current template the annotations of its Deployment and
/// its revision. A set that had one before, because the Deployment was rolled
/// back to it, remembers that.
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
            // Somebody wrote there what is no number: it is theirs.
            Err(_) => return,
        },
    };
    // Old sets may have been deleted since: a revision never goes back.
    if number >= next {
        return;
    }
    annotations.insert(REVISION.to_owned(), next.to_string());
    if let Some(before) = before {
        remember(annotations, &before);
    }
}

fn remember(annotations: &mut BTreeMap<String, String>, revision: &str) {
    let known = annotations.get(HISTORY).map(String::as_str).unwrap_or("");
    let mut numbers: Vec<&str> = known.split(',').filter(|n| !n.is_empty()).collect();
    numbers.push(revision);
    let length = |numbers: &[&str]| numbers.iter().map(|n| n.len() + 1).sum::<usize>() - 1;
    while numbers.len() > 1 && length(&numbers) > LONGEST_HISTORY {
        numbers.remove(0);
    }
    let history = numbers.join(",");
    annotations.insert(HISTORY.to_owned(), history);
}

/// Notes what the Deployment wants now, by which a later sync tells a scaling
/// from a rollout. Says whether that was news.
pub(super) fn note_sizes(set: &mut ReplicaSet, bounds: Bounds) -> bool {
    let annotations = set.metadata.annotations.get_or_insert_default();
    let mut news = false;
    for (name, number) in [(DESIRED, bounds.replicas), (MOST, bounds.most())] {
        let number = number.to_string();
        if annotations.get(name) != Some(&number) {
            annotations.insert(name.to_owned(), number);
            news = true;
        }
    }
    news
}

/// A number noted in an annotation, if it is one.
pub(super) fn noted(set: &ReplicaSet, annotation: &str) -> Option<i32> {
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
        let theirs = json!({"team": "a", REVISION: "2", NOT_COPIED[0]: "{}"});
        annotate(&mut new, &deployment(theirs), next(&old));
        assert_eq!(
            json!(new.metadata.annotations),
            json!({"team": "a", REVISION: "3"})
        );
    }

    #[test]
    fn a_set_rolled_back_to_remembers_its_revisions() {
        let mut new = set(json!({REVISION: "4", HISTORY: "1,2"}));
        annotate(&mut new, &deployment(json!({})), 7);
        assert_eq!(new.annotation(REVISION), Some("7"));
        assert_eq!(new.annotation(HISTORY), Some("1,2,4"));
        // The same again, or with old sets gone, changes nothing.
        let before = new.clone();
        annotate(&mut new, &deployment(json!({})), 7);
        annotate(&mut new, &deployment(json!({})), 1);
        assert_eq!(new, before);
    }

    #[test]
    fn a_history_forgets_its_oldest() {
        let long = vec!["123456789"; 200].join(",");
        let mut new = set(json!({REVISION: "5", HISTORY: long}));
        annotate(&mut new, &deployment(json!({})), 6);
        let history = new.annotation(HISTORY).unwrap();
        assert!(history.len() <= LONGEST_HISTORY && history.ends_with(",5"));
    }
}
