//! A selection from a snapshot, narrowed down step by step.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use super::held::{Codec, Held, typed};
use super::index::{Index, IndexValue};
use super::selector::Selector;
use super::snapshot::Snapshot;
use crate::error::Undeclared;
use crate::object::{Object, ObjectKey};

/// Some of the objects of a [`Snapshot`], in the order of their keys.
///
/// Where a controller watches several parts of a kind, those of all of them: each
/// object once, in the newest state that one of the watches has shown.
///
/// Each step narrows the selection; nothing is copied until it is read.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # use sendo::cache::{Index, Snapshot};
/// # static BY_NODE: Index<Pod, String> = Index::new("by-node", |pod| pod.spec.as_ref()?.node_name.clone());
/// # fn example(pods: Snapshot<Pod>) {
/// for pod in pods.list().in_namespace("web").by(&BY_NODE, "node-0").iter() {
///     println!("{:?}", pod.metadata.name);
/// }
/// # }
/// ```
pub struct Listing<'f, K> {
    first: Part<K>,
    /// Other parts of the same kind. Hardly ever any.
    others: Vec<Part<K>>,
    namespace: Option<String>,
    filters: Vec<Filter<'f, K>>,
}

/// What is listed of one snapshot.
struct Part<K> {
    snapshot: Snapshot<K>,
    /// What indexes have narrowed the selection to, in order.
    keys: Option<Vec<ObjectKey>>,
}

type Filter<'f, K> = Box<dyn Fn(&K) -> bool + Send + Sync + 'f>;

impl<'f, K: Object> Listing<'f, K> {
    /// Everything in any of the snapshots.
    pub(crate) fn new(first: Snapshot<K>, others: Vec<Snapshot<K>>) -> Self {
        let part = |snapshot| {
            let keys = None;
            Part { snapshot, keys }
        };
        Listing {
            first: part(first),
            others: others.into_iter().map(part).collect(),
            namespace: None,
            filters: Vec::new(),
        }
    }

    /// Only those in a namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only those that `index` finds by `value`. Takes time for these only,
    /// however many objects there are.
    ///
    /// An index that was not declared ends the reconcile with an error that names
    /// the fix; see [`Undeclared`].
    pub fn by<V: IndexValue>(mut self, index: &'static Index<K, V>, value: impl Into<V>) -> Self {
        let value = value.into();
        for part in self.others.iter_mut().chain([&mut self.first]) {
            part.narrow(index, value.clone());
        }
        self
    }

    /// Only those whose labels match.
    pub fn labels<'g>(self, selector: &'g Selector) -> Listing<'g, K>
    where
        'f: 'g,
    {
        self.filter(move |object: &K| selector.matches(object.meta().labels.as_ref()))
    }

    /// Only those that pass.
    pub fn filter<'g>(self, passes: impl Fn(&K) -> bool + Send + Sync + 'g) -> Listing<'g, K>
    where
        'f: 'g,
    {
        let mut narrowed: Listing<'g, K> = self;
        narrowed.filters.push(Box::new(passes));
        narrowed
    }

    /// The objects.
    pub fn iter(&self) -> impl Iterator<Item = Arc<K>> + Send + '_ {
        let open = |found: Found<'_, K>| {
            let Found { entry, opened } = found;
            opened.unwrap_or_else(|| entry.open())
        };
        self.entries().map(open)
    }

    /// The keys of the objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.entries()
            .map(|found| found.entry.key.clone())
            .collect()
    }

    /// The object with the least key.
    pub fn first(&self) -> Option<Arc<K>> {
        self.iter().next()
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        self.entries().count()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    fn entries(&self) -> Box<dyn Iterator<Item = Found<'_, K>> + Send + '_> {
        let namespace = self.namespace.as_deref();
        if self.others.is_empty() {
            let entries = self.first.entries(namespace);
            return Box::new(entries.filter_map(|entry| self.found(entry)));
        }
        let parts = || [&self.first].into_iter().chain(&self.others);
        let mut entries = Vec::new();
        for (at, part) in parts().enumerate() {
            // Of several states of an object only the newest counts, even if it
            // is one that would not be found.
            let is_newest = |entry: &Entry<'_>| {
                parts().enumerate().all(|(other, part)| {
                    let objects = &part.snapshot.view().objects;
                    objects.get(entry.key).is_none_or(|held| {
                        let (version, known) = (entry.held.version(), held.version());
                        version > known || (version == known && at <= other)
                    })
                })
            };
            entries.extend(part.entries(namespace).filter(is_newest));
        }
        entries.sort_by_key(|entry| entry.key);
        Box::new(entries.into_iter().filter_map(|entry| self.found(entry)))
    }

    /// The object, if it passes. It is opened only if somebody looks into it.
    fn found<'a>(&self, entry: Entry<'a>) -> Option<Found<'a, K>> {
        let mut opened = None;
        if !self.filters.is_empty() {
            let object = entry.open();
            if !self.filters.iter().all(|filter| filter(&object)) {
                return None;
            }
            opened = Some(object);
        }
        Some(Found { entry, opened })
    }
}

impl<K: Object> Part<K> {
    fn narrow<V: IndexValue>(&mut self, index: &'static Index<K, V>, value: V) {
        let view = self.snapshot.view();
        let Some(entries) = view.entries(index) else {
            Undeclared(format!(
                "the index `{}` of {} is not declared: add `.index(&…)` to the controller that uses it (declared are: {})",
                index.name(),
                view.kind,
                view.index_names().join(", "),
            ))
            .raise()
        };
        let mut found = entries.keys(value);
        if let Some(before) = &self.keys {
            found.retain(|key| before.binary_search(key).is_ok());
        }
        self.keys = Some(found);
    }

    fn entries<'a>(
        &'a self,
        namespace: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = Entry<'a>> + Send + 'a> {
        let view = self.snapshot.view();
        let (objects, codec) = (&view.objects, &*view.codec);
        let entry = move |(key, held): (&'a ObjectKey, &'a Held)| Entry { key, held, codec };
        let in_namespace =
            move |key: &ObjectKey| namespace.is_none_or(|wanted| key.namespace() == Some(wanted));
        match &self.keys {
            Some(keys) => Box::new(
                keys.iter()
                    .filter(move |key| in_namespace(key))
                    .filter_map(|key| objects.get_key_value(key))
                    .map(entry),
            ),
            None => {
                let from = match namespace {
                    Some(namespace) => Bound::Included(ObjectKey::namespaced(namespace, "")),
                    None => Bound::Unbounded,
                };
                Box::new(
                    objects
                        .range((from, Bound::Unbounded))
                        .take_while(move |(key, _)| in_namespace(key))
                        .map(entry),
                )
            }
        }
    }
}

/// An object of a snapshot, as it is kept.
struct Entry<'a> {
    key: &'a ObjectKey,
    held: &'a Held,
    codec: &'a Codec,
}

impl Entry<'_> {
    fn open<K: Object>(&self) -> Arc<K> {
        typed(self.codec.open(self.held))
    }
}

/// An object of a listing.
struct Found<'a, K> {
    entry: Entry<'a>,
    opened: Option<Arc<K>>,
}

impl<K: Object> IntoIterator for Listing<'_, K> {
    type Item = Arc<K>;
    type IntoIter = std::vec::IntoIter<Arc<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter().collect::<Vec<_>>().into_iter()
    }
}

impl<K> fmt::Debug for Listing<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing")
            .field("of", &self.first.snapshot)
            .field("namespace", &self.namespace)
            .field("filters", &self.filters.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::Codec;
    use super::super::options::KindOptions;
    use super::super::snapshot::View;
    use super::*;
    use crate::object::{Kind, Typed};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    static BY_COLOUR: Index<ConfigMap, String> =
        Index::new("by-colour", |map| map.data.as_ref()?.get("colour").cloned());
    static BY_KEY: Index<ConfigMap, String> = Index::many("by-key", |map| {
        map.data.iter().flat_map(|d| d.keys().cloned()).collect()
    });
    static UNDECLARED: Index<ConfigMap, String> = Index::new("undeclared", |_| None);
    static PANICS: Index<ConfigMap, u8> = Index::new("panics", |map| {
        assert!(map.data.is_some(), "on purpose");
        Some(1)
    });

    fn map(key: &str, data: serde_json::Value) -> (ObjectKey, Arc<ConfigMap>) {
        let key = ObjectKey::from(key);
        let object = serde_json::from_value(json!({
            "metadata": {"namespace": key.namespace(), "name": key.name(), "labels": data},
            "data": data,
        }));
        (key, Arc::new(object.unwrap()))
    }

    fn snapshot() -> Snapshot<ConfigMap> {
        let codec = Codec::new(Arc::new(KindOptions::<ConfigMap>::new()));
        let mut view = View::empty(Arc::new(Kind::of::<ConfigMap>()), Arc::new(codec));
        view.add_index(&BY_COLOUR);
        for (key, object) in [
            map("b/one", json!({"colour": "red", "size": "1"})),
            map("a/two", json!({"colour": "red"})),
            map("a/one", json!({"colour": "blue", "size": "2"})),
            map("c/one", json!({"size": "2"})),
        ] {
            view.set(&key, Some(object.into()));
        }
        view.add_index(&BY_KEY);
        Snapshot::new(Arc::new(view))
    }

    fn keys(listing: &Listing<'_, ConfigMap>) -> Vec<String> {
        listing.keys().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_comes_in_the_order_of_keys() {
        let all = snapshot().list();
        assert_eq!(keys(&all), ["a/one", "a/two", "b/one", "c/one"]);
        assert_eq!(all.count(), 4);
        assert_eq!(
            all.first().unwrap().metadata.namespace.as_deref(),
            Some("a")
        );
        assert_eq!(all.into_iter().count(), 4);
    }

    #[test]
    fn each_step_narrows_down() {
        let all = || snapshot().list();
        assert_eq!(keys(&all().in_namespace("a")), ["a/one", "a/two"]);
        assert_eq!(keys(&all().by(&BY_COLOUR, "red")), ["a/two", "b/one"]);
        assert_eq!(
            keys(&all().in_namespace("a").by(&BY_COLOUR, "red")),
            ["a/two"]
        );
        assert_eq!(
            keys(&all().by(&BY_KEY, "size").by(&BY_COLOUR, "red")),
            ["b/one"]
        );
        let wanted = "2".to_owned();
        let of_size = |map: &ConfigMap| map.data.as_ref().unwrap().get("size") == Some(&wanted);
        assert_eq!(keys(&all().filter(of_size)), ["a/one", "c/one"]);
        let selector: Selector = "colour,colour!=red".parse().unwrap();
        assert_eq!(keys(&all().labels(&selector)), ["a/one"]);
        assert!(all().in_namespace("nowhere").is_empty());
    }

    #[test]
    fn an_index_follows_changes_and_old_snapshots_do_not() {
        let before = snapshot();
        let mut view = before.view().clone();
        let (key, object) = map("a/two", json!({"colour": "blue"}));
        view.set(&key, Some(object.into()));
        view.set(&"a/one".into(), None);
        let after = Snapshot::new(Arc::new(view));
        assert_eq!(keys(&after.list().by(&BY_COLOUR, "blue")), ["a/two"]);
        assert_eq!(keys(&after.list().by(&BY_COLOUR, "red")), ["b/one"]);
        assert_eq!(keys(&before.list().by(&BY_COLOUR, "blue")), ["a/one"]);
    }

    #[test]
    fn an_index_function_that_panics_leaves_the_object_out() {
        let mut view = snapshot().view().clone();
        let (key, mut object) = map("z/z", json!({}));
        Arc::make_mut(&mut object).data = None;
        view.set(&key, Some(object.into()));
        view.add_index(&PANICS);
        let after = Snapshot::new(Arc::new(view));
        assert_eq!(after.list().by(&PANICS, 1).count(), 4);
        assert_eq!(after.len(), 5);
    }

    #[test]
    fn an_index_nobody_declared_is_refused_with_the_fix() {
        let read = || snapshot().list().by(&UNDECLARED, "x").count();
        let panic = std::panic::catch_unwind(read).unwrap_err();
        let undeclared = panic.downcast::<Undeclared>().unwrap().to_string();
        let fix = "the index `undeclared` of configmaps/v1 is not declared: add `.index(&…)`";
        assert!(undeclared.starts_with(fix), "{undeclared}");
    }

    fn versioned(key: &str, version: u64, colour: &str) -> (ObjectKey, Arc<ConfigMap>) {
        let (key, mut object) = map(key, json!({"colour": colour}));
        Arc::make_mut(&mut object).metadata.resource_version = Some(version.to_string());
        (key, object)
    }

    #[test]
    fn of_several_parts_each_object_is_listed_once_in_its_newest_state() {
        let part = |objects: &[(&str, u64, &str)]| {
            let mut view = View::clone(snapshot().view());
            for key in ["a/one", "a/two", "b/one", "c/one"] {
                view.set(&key.into(), None);
            }
            for (key, version, colour) in objects {
                let (key, object) = versioned(key, *version, colour);
                view.set(&key, Some(object.into()));
            }
            Snapshot::new(Arc::new(view))
        };
        let first = part(&[("a/x", 3, "red"), ("a/z", 4, "red"), ("b/x", 5, "blue")]);
        let other = part(&[("a/x", 3, "red"), ("a/y", 6, "red"), ("a/z", 7, "blue")]);
        let all = || Listing::new(first.clone(), vec![other.clone()]);
        assert_eq!(keys(&all()), ["a/x", "a/y", "a/z", "b/x"]);
        assert_eq!(all().count(), 4);
        assert_eq!(keys(&all().in_namespace("a")), ["a/x", "a/y", "a/z"]);
        assert_eq!(keys(&all().by(&BY_COLOUR, "red")), ["a/x", "a/y"]);
        assert_eq!(keys(&all().by(&BY_COLOUR, "blue")), ["a/z", "b/x"]);
        let is_red = |map: &ConfigMap| map.data.as_ref().unwrap()["colour"] == "red";
        assert_eq!(keys(&all().filter(is_red)), ["a/x", "a/y"]);
    }

    #[test]
    fn listings_cross_await_points() {
        fn sendable<T: Send>(_: T) {}
        let listing = snapshot().list();
        sendable(listing.iter());
        assert!(<ConfigMap as Typed>::kind().plural == "configmaps");
    }
}
