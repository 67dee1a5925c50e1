//! Which events matter: values that combine with `&`, `|` and `!`.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use sendo::predicate::{Predicate, deleted, generation_changed, label};
//!
//! let matters: Predicate<Deployment> = generation_changed() & label("tier", "web") | !deleted();
//! ```

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::Event;
use crate::cache::Selector;
use crate::object::ObjectExt;

/// Decides whether an event goes on to its handler. Cheap to clone.
pub struct Predicate<K>(Decide<K>);

type Decide<K> = Arc<dyn Fn(&Event<K>) -> bool + Send + Sync>;

impl<K> Predicate<K> {
    /// A predicate from a function of the event.
    pub fn new(decide: impl Fn(&Event<K>) -> bool + Send + Sync + 'static) -> Self {
        Predicate(Arc::new(decide))
    }

    /// Whether `event` passes.
    pub fn passes(&self, event: &Event<K>) -> bool {
        (self.0)(event)
    }
}

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Predicate(self.0.clone())
    }
}

impl<K> fmt::Debug for Predicate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl<K: 'static> BitAnd for Predicate<K> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Predicate::new(move |event| self.passes(event) && other.passes(event))
    }
}

impl<K: 'static> BitOr for Predicate<K> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Predicate::new(move |event| self.passes(event) || other.passes(event))
    }
}

impl<K: 'static> Not for Predicate<K> {
    type Output = Self;
    fn not(self) -> Self {
        Predicate::new(move |event| !self.passes(event))
    }
}

/// Passes events whose newest state satisfies `wanted`.
pub fn matches<K>(wanted: impl Fn(&K) -> bool + Send + Sync + 'static) -> Predicate<K> {
    Predicate::new(move |event| wanted(event.object()))
}

/// Passes objects with this label.
pub fn label<K: Resource>(name: &str, value: &str) -> Predicate<K> {
    let (name, value) = (name.to_owned(), value.to_owned());
    matches(move |object: &K| object.label(&name) == Some(&value))
}

/// Passes objects whose labels `selector` selects.
///
/// To fetch and cache only these, give the selector to the source instead:
/// [`KindSource::selecting`](crate::source::KindSource::selecting).
pub fn selected<K: Resource>(selector: Selector) -> Predicate<K> {
    matches(move |object: &K| selector.matches(object.meta().labels.as_ref()))
}

/// Passes objects that are to be deleted and are still kept by finalizers.
pub fn being_deleted<K: Resource>() -> Predicate<K> {
    matches(|object: &K| object.is_being_deleted())
}

/// Passes creations.
pub fn created<K>() -> Predicate<K> {
    Predicate::new(|event| matches!(event, Event::Created { .. }))
}

/// Passes updates.
pub fn updated<K>() -> Predicate<K> {
    Predicate::new(|event| matches!(event, Event::Updated { .. }))
}

/// Passes deletions.
pub fn deleted<K>() -> Predicate<K> {
    Predicate::new(|event| matches!(event, Event::Deleted { .. }))
}

/// Passes creations, deletions, and updates for which `differ(old, new)` holds.
pub fn changed<K>(differ: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Predicate<K> {
    Predicate::new(move |event| match event {
        Event::Updated { old, new } => differ(old, new),
        _ => true,
    })
}

/// Stops updates that left `metadata.generation` as it was: those of status,
/// labels, annotations and finalizers.
///
/// Deletion with a finalizer raises the generation, so it passes. So does a
/// [resync](crate::Config::resync), here and below: it is to reconcile everything
/// again, though nothing has changed. To stop it too: `& version_changed()`.
pub fn generation_changed<K: Resource>() -> Predicate<K> {
    metadata_changed(|old, new| old.generation != new.generation)
}

/// Stops updates that changed nothing at all: those of a resync.
pub fn version_changed<K: Resource>() -> Predicate<K> {
    changed(|old: &K, new| old.meta().resource_version != new.meta().resource_version)
}

/// Stops updates that left the labels as they were, but for a resync.
pub fn labels_changed<K: Resource>() -> Predicate<K> {
    metadata_changed(|old, new| old.labels != new.labels)
}

/// Stops updates that left the annotations as they were, but for a resync.
pub fn annotations_changed<K: Resource>() -> Predicate<K> {
    metadata_changed(|old, new| old.annotations != new.annotations)
}

/// Stops updates that left the finalizers as they were, but for a resync.
pub fn finalizers_changed<K: Resource>() -> Predicate<K> {
    metadata_changed(|old, new| old.finalizers != new.finalizers)
}

/// Passes what [`changed`] passes, and updates without any change: a resync.
fn metadata_changed<K: Resource>(
    differ: impl Fn(&ObjectMeta, &ObjectMeta) -> bool + Send + Sync + 'static,
) -> Predicate<K> {
    changed(move |old: &K, new: &K| {
        let (old, new) = (old.meta(), new.meta());
        let is_resync =
            old.resource_version.is_some() && old.resource_version == new.resource_version;
        is_resync || differ(old, new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(generation: i64, tier: &str) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.generation = Some(generation);
        pod.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
        Arc::new(pod)
    }

    fn update(old: Arc<Pod>, new: Arc<Pod>) -> Event<Pod> {
        Event::Updated { old, new }
    }

    #[test]
    fn a_generation_that_stays_stops_an_update_and_nothing_else() {
        let matters = generation_changed();
        assert!(!matters.passes(&update(pod(1, "a"), pod(1, "b"))));
        assert!(matters.passes(&update(pod(1, "a"), pod(2, "a"))));
        assert!(matters.passes(&Event::Created {
            object: pod(1, "a"),
            initial: true
        }));
    }

    #[test]
    fn a_resync_passes_where_nothing_has_changed() {
        let mut same = Pod::clone(&pod(1, "a"));
        same.metadata.resource_version = Some("7".to_owned());
        let same = Arc::new(same);
        let resync = update(same.clone(), same);
        assert!(generation_changed().passes(&resync));
        assert!(labels_changed().passes(&resync));
        assert!(annotations_changed().passes(&resync));
        assert!(finalizers_changed().passes(&resync));
        assert!(!(generation_changed() & version_changed()).passes(&resync));
    }

    #[test]
    fn predicates_combine() {
        let gone = || Event::Deleted {
            object: pod(1, "db"),
            final_state: true,
        };
        let matters = generation_changed() & label("tier", "web") | deleted();
        assert!(matters.passes(&gone()));
        assert!(matters.passes(&update(pod(1, "web"), pod(2, "web"))));
        assert!(!matters.passes(&update(pod(1, "db"), pod(2, "db"))));
        assert!(!(!deleted()).passes(&gone()));
    }
}
