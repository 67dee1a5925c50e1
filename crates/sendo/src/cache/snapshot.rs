//! What a reader sees: the objects of a kind and their indexes at one moment.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use imbl::OrdMap;

use super::held::{Codec, Held, typed};
use super::index::{Entries, Index, IndexValue, Sorted};
use super::listing::Listing;
use crate::object::{Kind, Object, ObjectKey};

/// The cached objects of a kind at one moment.
///
/// Taking one costs nothing that grows with the number of objects, and it never
/// changes afterwards: all reads from it agree with each other. It keeps what it
/// shows in memory, so hold it no longer than a reconcile.
pub struct Snapshot<K> {
    view: Arc<View>,
    of: PhantomData<fn() -> K>,
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Snapshot {
            view: self.view.clone(),
            of: PhantomData,
        }
    }
}

impl<K: Object> Snapshot<K> {
    pub(super) fn new(view: Arc<View>) -> Self {
        let of = PhantomData;
        Snapshot { view, of }
    }

    /// The object under `key`.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let held = self.view.objects.get(key)?;
        Some(typed(self.view.codec.open(held)))
    }

    /// All objects, to be narrowed down.
    pub fn list(&self) -> Listing<'static, K> {
        Listing::new(self.clone(), Vec::new())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.view.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.view.objects.is_empty()
    }

    /// The version of the API up to which every change is in the snapshot; 0
    /// before the first list is complete. What this program itself wrote later
    /// is in it too.
    pub fn version(&self) -> u64 {
        self.view.version
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("kind", &self.view.kind)
            .field("objects", &self.view.objects.len())
            .field("version", &self.view.version)
            .finish()
    }
}

/// The maps behind a [`Snapshot`]. Cloning shares them; changing a clone copies
/// only the way to what changes.
#[derive(Clone)]
pub(super) struct View {
    pub(super) kind: Arc<Kind>,
    pub(super) codec: Arc<Codec>,
    pub(super) objects: OrdMap<ObjectKey, Held>,
    indexes: Vec<Arc<dyn Entries>>,
    pub(super) version: u64,
}

impl View {
    pub(super) fn empty(kind: Arc<Kind>, codec: Arc<Codec>) -> Self {
        View {
            kind,
            codec,
            objects: OrdMap::new(),
            indexes: Vec::new(),
            version: 0,
        }
    }

    /// Puts an object, or nothing, under a key, and keeps the indexes true.
    pub(super) fn set(&mut self, key: &ObjectKey, object: Option<Held>) {
        let old = match &object {
            Some(object) => self.objects.insert(key.clone(), object.clone()),
            None => self.objects.remove(key),
        };
        if self.indexes.is_empty() {
            return;
        }
        let open = |held: &Held| self.codec.open(held);
        let (old, new) = (old.as_ref().map(open), object.as_ref().map(open));
        for slot in &mut self.indexes {
            let (old, new) = (old.as_deref(), new.as_deref());
            if slot.differ(key, old, new) {
                entries_mut(slot).change(key, old, new);
            }
        }
    }

    /// Adds an index over what is there; one that is there already is left as it is.
    pub(super) fn add_index<K: Object, V: IndexValue>(&mut self, index: &'static Index<K, V>) {
        if self.entries(index).is_some() {
            return;
        }
        let mut entries = Sorted::new(index);
        for (key, object) in &self.objects {
            entries.change(key, None, Some(&*self.codec.open(object)));
        }
        self.indexes.push(Arc::new(entries));
    }

    pub(super) fn entries<K: Object, V: IndexValue>(
        &self,
        index: &'static Index<K, V>,
    ) -> Option<&Sorted<K, V>> {
        let mut indexes = self.indexes.iter();
        indexes.find_map(|entries| {
            let entries = entries.as_any().downcast_ref::<Sorted<K, V>>()?;
            entries.is(index).then_some(entries)
        })
    }

    /// How many bytes the objects take: packed, or estimated from the JSON of some.
    pub(super) fn bytes(&self) -> u64 {
        /// Enough for a good guess, and quick.
        const SOME: usize = 16;
        let (mut packed, mut whole, mut looked_at, mut json) = (0, 0_u64, 0_u64, 0);
        let step = (self.objects.len() / SOME).max(1);
        for (at, held) in self.objects.values().enumerate() {
            match held {
                Held::Packed(bytes) => packed += bytes.len() as u64,
                Held::Whole(object) => {
                    whole += 1;
                    if at % step == 0 {
                        looked_at += 1;
                        json += object.to_json().map_or(0, |json| json.len() as u64);
                    }
                }
            }
        }
        packed + json * whole / looked_at.max(1)
    }

    pub(super) fn index_names(&self) -> Vec<&'static str> {
        self.indexes.iter().map(|entries| entries.name()).collect()
    }
}

/// The entries to write to: a copy, if a snapshot still shows them.
fn entries_mut(slot: &mut Arc<dyn Entries>) -> &mut dyn Entries {
    if Arc::get_mut(slot).is_none() {
        *slot = slot.duplicate();
    }
    Arc::get_mut(slot).expect("a fresh copy has one owner")
}
