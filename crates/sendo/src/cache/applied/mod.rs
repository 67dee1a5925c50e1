//! What this program has applied to each cached object, so that an apply that
//! would change nothing is not sent.
//!
//! Server-side apply does two things: it sets the fields that are said, and it
//! makes the manager their owner and that of no others. So an apply changes
//! nothing if the fields that the manager owns by apply are those that are said,
//! and have the values that are said. The values are in the cache. The fields
//! stand in `metadata.managedFields`, which are not kept; of these only the entries
//! of this program's own managers are, as text, once for all objects that have the
//! same one: objects of one template do.
//!
//! Which path of an object is a field of its own is decided by its schema, which
//! nobody here knows: it shows in the paths that are owned. Where they leave a
//! doubt, the apply is sent.

mod same;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use memchr::memmem;
use parking_lot::{Mutex, MutexGuard, RwLock};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::object::ObjectKey;

/// The names under which this program applies.
#[derive(Debug, Default)]
pub(super) struct Managers(RwLock<BTreeSet<Arc<str>>>);

impl Managers {
    pub(super) fn add(&self, name: &str) {
        let is_known = |known: &BTreeSet<Arc<str>>| known.contains(name);
        if !is_known(&self.0.read()) {
            self.0.write().insert(name.into());
        }
    }

    /// The name as it is known here.
    fn find(&self, name: &str) -> Option<Arc<str>> {
        let names = self.0.read();
        names.get(name).cloned()
    }
}

/// An object that is to be applied.
pub(crate) struct Wanted<'a> {
    /// Who applies it.
    pub(crate) manager: &'a str,
    pub(crate) api_version: &'a str,
    /// All that is to be sent.
    pub(crate) object: &'a Value,
}

impl Wanted<'_> {
    /// In 128 bits, as what has one of 64 in common is not always the same.
    fn digest(&self) -> [u64; 2] {
        let text = self.object.to_string();
        [0, 1].map(|seed: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, self.api_version, &text).hash(&mut hasher);
            hasher.finish()
        })
    }
}

/// What is known of the objects of one informer.
pub(super) struct Applied {
    managers: Arc<Managers>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Known>,
    /// Each text once.
    texts: BTreeSet<Arc<str>>,
}

/// What is known of one state of an object.
struct Known {
    uid: String,
    version: u64,
    by: HashMap<Arc<str>, Own>,
}

/// What one manager has applied to it.
#[derive(Default)]
struct Own {
    fields: Option<Fields>,
    /// What was applied, with this state as the answer.
    sent: Option<[u64; 2]>,
}

/// [`Fields`] as they are read.
struct OwnPaths {
    api_version: String,
    paths: String,
}

#[derive(Clone)]
struct Fields {
    api_version: Arc<str>,
    /// A `fieldsV1`, as JSON.
    paths: Arc<str>,
}

impl Applied {
    pub(super) fn new(managers: Arc<Managers>) -> Self {
        Applied {
            managers,
            table: Mutex::default(),
        }
    }

    /// Notes what this program has applied to an object, of which `json` is all
    /// that the API server says, and `metadata` the part that was read.
    pub(super) fn note(&self, json: &[u8], metadata: &ObjectMeta) {
        let own = self.own_fields(json);
        let mut table = self.lock();
        if own.is_empty() && table.objects.is_empty() {
            return;
        }
        let key = ObjectKey::from_metadata(metadata);
        let uid = metadata.uid.clone().unwrap_or_default();
        let version = metadata.resource_version.as_deref();
        let version = version.and_then(|version| version.parse().ok());
        let version = version.unwrap_or_default();
        let mut sent = Vec::new();
        if let Some(known) = table.objects.get_mut(&key).filter(|known| known.uid == uid) {
            if version < known.version {
                return;
            }
            if version == known.version {
                sent.extend(known.by.drain().map(|(manager, own)| (manager, own.sent)));
            }
        }
        if own.is_empty() {
            return table.forget(&key);
        }
        let mut by: HashMap<_, Own> = HashMap::new();
        for (manager, fields) in own {
            by.entry(manager).or_default().fields = fields.map(|fields| Fields {
                api_version: table.text(&fields.api_version),
                paths: table.text(&fields.paths),
            });
        }
        for (manager, digest) in sent {
            if let Some(own) = by.get_mut(&manager) {
                own.sent = digest;
            }
        }
        let known = Known { uid, version, by };
        if let Some(before) = table.objects.insert(key, known) {
            table.sweep(before);
        }
    }

    /// Notes that `wanted` was applied, and that this state came of it.
    pub(super) fn sent(&self, key: &ObjectKey, version: u64, wanted: &Wanted<'_>) {
        let mut table = self.lock();
        let known = table.objects.get_mut(key);
        let own = known
            .filter(|known| known.version == version)
            .and_then(|known| known.by.get_mut(wanted.manager));
        if let Some(own) = own {
            own.sent = Some(wanted.digest());
        }
    }

    /// Whether it would change nothing to apply `wanted` to an object in this
    /// state, which is `live` as JSON.
    pub(super) fn changes_nothing(
        &self,
        key: &ObjectKey,
        (uid, version): (&str, u64),
        wanted: &Wanted<'_>,
        live: impl FnOnce() -> Option<Value>,
    ) -> bool {
        let fields = {
            let table = self.lock();
            let known = table.objects.get(key);
            let known = known.filter(|known| known.uid == uid && known.version == version);
            let Some(own) = known.and_then(|known| known.by.get(wanted.manager)) else {
                return false;
            };
            if own.sent.is_some_and(|sent| sent == wanted.digest()) {
                return true; // The very same was, and nothing has happened since.
            }
            own.fields.clone()
        };
        let Some(fields) = fields.filter(|fields| *fields.api_version == *wanted.api_version)
        else {
            return false;
        };
        let paths = serde_json::from_str::<Value>(&fields.paths).ok();
        let (Some(paths), Some(live)) = (paths, live()) else {
            return false;
        };
        same::changes_nothing(&paths, wanted.object, &live)
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.lock().forget(key);
    }

    /// Forgets all objects but these.
    pub(super) fn retain(&self, mut is_there: impl FnMut(&ObjectKey) -> bool) {
        let mut table = self.lock();
        let gone = table.objects.keys().filter(|key| !is_there(key));
        for key in gone.cloned().collect::<Vec<_>>() {
            table.forget(&key);
        }
    }

    /// The fields that managers of this program own by apply, with the version of
    /// the API they are named in. A manager without them is one whose entry leaves
    /// a doubt.
    fn own_fields(&self, json: &[u8]) -> Vec<(Arc<str>, Option<OwnPaths>)> {
        // Most objects are passed by here: nobody has applied them.
        if memmem::find(json, br#""operation":"Apply""#).is_none() {
            return Vec::new();
        }
        let Ok(object) = serde_json::from_slice::<Object<'_>>(json) else {
            return Vec::new();
        };
        let entries = object.metadata.managed_fields;
        let mut own = Vec::new();
        for entry in &entries {
            let manager = self.managers.find(&entry.manager);
            let Some(manager) = manager.filter(|_| entry.is_main_apply()) else {
                continue;
            };
            let others = entries.iter().filter(|other| !std::ptr::eq(*other, entry));
            let fields = entry.paths().filter(|paths| {
                let mut others = others.map(|other| other.paths().unwrap_or_default());
                others.all(|other| same::is_clear_beside(paths, &other))
            });
            let fields = fields.map(|paths| OwnPaths {
                api_version: entry.api_version.clone(),
                paths: paths.to_string(),
            });
            own.push((manager, fields));
        }
        own
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn forget(&mut self, key: &ObjectKey) {
        if let Some(known) = self.objects.remove(key) {
            self.sweep(known);
        }
    }

    /// Lets go of texts that only `known` was using.
    fn sweep(&mut self, known: Known) {
        for Fields { api_version, paths } in known.by.into_values().filter_map(|own| own.fields) {
            for text in [api_version, paths] {
                // This one and the one in the set.
                if Arc::strong_count(&text) == 2 {
                    self.texts.remove(&text);
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    managed_fields: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    subresource: String,
    #[serde(borrow, rename = "fieldsV1", default)]
    fields: Option<&'a RawValue>,
}

impl Entry<'_> {
    /// Whether it is of an apply of the object itself.
    fn is_main_apply(&self) -> bool {
        self.operation == "Apply" && self.subresource.is_empty()
    }

    fn paths(&self) -> Option<Value> {
        serde_json::from_str(self.fields?.get()).ok()
    }
}

#[cfg(test)]
mod tests;
