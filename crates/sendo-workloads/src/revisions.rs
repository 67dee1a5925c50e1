//! The history of the pod templates of an object, as ControllerRevisions.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/history/controller_history.go`: `NewControllerRevision`,
//!   `HashControllerRevision`, `SortControllerRevisions`, `EqualRevision`, `realHistory`
//! - `pkg/controller/statefulset/stateful_set_utils.go`: `getPatch`, `nextRevision`
//! - `pkg/controller/daemon/update.go`: `getPatch`

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use sendo::claim::Claim;
use sendo::client::controller_reference;
use sendo::{Context, Index, ObjectExt, Patch, Result, Selector, Typed, Uid};
use serde_json::{Value, json};

/// The label of revisions with the hash of their data.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The longest part of an owner's name in that of a revision.
const MAX_PREFIX: usize = 223;

/// Revisions by the object that controls them.
pub(crate) static BY_CONTROLLER: Index<ControllerRevision, Uid> =
    Index::new("revisions-by-controller", |revision| revision.controller());

/// Revisions without a controller, by namespace.
pub(crate) static ORPHANS: Index<ControllerRevision, String> =
    Index::new("orphaned-revisions", |revision| {
        let orphan = revision.controller().is_none();
        orphan.then(|| revision.namespace().unwrap_or_default().to_owned())
    });

/// The revisions of `owner`, oldest first; orphans that its selector matches are adopted.
pub(crate) async fn claim<O: Typed>(
    owner: &O,
    selector: &Selector,
    cx: &Context,
) -> Result<Vec<ControllerRevision>> {
    let claim = Claim::new(owner, selector, &BY_CONTROLLER, &ORPHANS);
    let claimed = claim
        .claim(|revision| !revision.is_being_deleted(), cx)
        .await?;
    let mut revisions: Vec<_> = claimed.into_iter().map(Arc::unwrap_or_clone).collect();
    sort(&mut revisions);
    Ok(revisions)
}

/// Orders revisions by number, the oldest first.
pub(crate) fn sort(revisions: &mut [ControllerRevision]) {
    let age = |revision: &ControllerRevision| {
        let created = revision.metadata.creation_timestamp.as_ref();
        (revision.revision, created.map(|time| time.0))
    };
    revisions.sort_by(|a, b| age(a).cmp(&age(b)).then_with(|| a.name().cmp(b.name())));
}

/// The number of a revision that is newer than those, which are in order.
pub(crate) fn next_number(revisions: &[ControllerRevision]) -> i64 {
    revisions.last().map_or(1, |last| last.revision + 1)
}

/// What a revision records: a patch that sets the template.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The template that a revision records, if it records one.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether the revision records `data`.
pub(crate) fn records(revision: &ControllerRevision, data: &Value) -> bool {
    revision.data.as_ref().is_some_and(|known| known.0 == *data)
}

/// A revision of `owner`, whose name has the hash of `data`.
pub(crate) fn new<O: Typed>(
    owner: &O,
    labels: Option<BTreeMap<String, String>>,
    data: Value,
    number: i64,
    collisions: i32,
) -> ControllerRevision {
    let hash = hash(&data, collisions);
    let mut labels = labels.unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name(owner.name(), &hash)),
            namespace: owner.namespace().map(str::to_owned),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// Creates a revision. A name that is in use by a revision of other data raises `collisions`,
/// which gives another name; one of the same data is returned.
pub(crate) async fn create(
    owner: &str,
    mut revision: ControllerRevision,
    collisions: &mut i32,
    cx: &Context,
) -> Result<ControllerRevision> {
    let data = revision.data.clone().map_or(Value::Null, |data| data.0);
    loop {
        revision.metadata.name = Some(name(owner, &hash(&data, *collisions)));
        match cx.client().create(&revision).await {
            Err(error) if error.is_already_exists() => {
                let existing = cx.live().get::<ControllerRevision>(revision.key()).await?;
                match existing {
                    Some(existing) if records(&existing, &data) => return Ok(existing),
                    Some(_) => *collisions += 1,
                    None => {}
                }
            }
            created => return Ok(created?),
        }
    }
}

/// Gives a revision another number: a rollback makes an old one the newest.
pub(crate) async fn renumber(
    revision: &ControllerRevision,
    number: i64,
    cx: &Context,
) -> Result<ControllerRevision> {
    if revision.revision == number {
        return Ok(revision.clone());
    }
    let patch = Patch::Merge(json!({ "revision": number }));
    Ok(cx.client().patch(revision, patch).await?)
}

/// Deletes the oldest of the revisions that nothing uses beyond `limit`.
pub(crate) async fn prune(unused: &[ControllerRevision], limit: usize, cx: &Context) -> Result<()> {
    let surplus = unused.len().saturating_sub(limit);
    for revision in &unused[..surplus] {
        match cx.client().delete(revision).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn name(owner: &str, hash: &str) -> String {
    let prefix = &owner[..owner.floor_char_boundary(MAX_PREFIX)];
    format!("{prefix}-{hash}")
}

/// FNV-1 over the JSON of `data` and the number of collisions.
fn hash(data: &Value, collisions: i32) -> String {
    let text = data.to_string() + &collisions.to_string();
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    });
    crate::template::safe_encode(&hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::StatefulSet;

    fn owner() -> StatefulSet {
        let metadata = json!({"name": "web", "namespace": "a", "uid": "1"});
        serde_json::from_value(json!({ "metadata": metadata })).expect("an owner")
    }

    fn revision(image: &str, number: i64, collisions: i32) -> ControllerRevision {
        let template = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        let template: PodTemplateSpec = serde_json::from_value(template).expect("a template");
        new(&owner(), None, data(&template), number, collisions)
    }

    #[test]
    fn a_revision_records_a_template_and_gives_it_back() {
        let known = revision("a:1", 1, 0);
        let template = template(&known).expect("a template");
        assert!(records(&known, &data(&template)));
        assert!(!records(&revision("a:2", 1, 0), &data(&template)));
        assert_eq!(
            known.data.unwrap().0["spec"]["template"]["$patch"],
            "replace"
        );
    }

    #[test]
    fn the_name_follows_from_data_and_collisions() {
        assert_eq!(revision("a:1", 1, 0).name(), revision("a:1", 2, 0).name());
        assert_ne!(revision("a:1", 1, 0).name(), revision("a:2", 1, 0).name());
        assert_ne!(revision("a:1", 1, 0).name(), revision("a:1", 1, 1).name());
        let hash = revision("a:1", 1, 0).label(HASH_LABEL).map(str::to_owned);
        assert_eq!(
            revision("a:1", 1, 0).name(),
            format!("web-{}", hash.unwrap())
        );
    }

    #[test]
    fn revisions_are_numbered_on_from_the_newest() {
        let mut revisions = [revision("a:3", 7, 0), revision("a:1", 2, 0)];
        sort(&mut revisions);
        assert_eq!(revisions.each_ref().map(|r| r.revision), [2, 7]);
        assert_eq!(next_number(&revisions), 8);
        assert_eq!(next_number(&[]), 1);
    }
}
