//! What an informer knows of its kind: what the watch has shown, the program's
//! own writes on top, and how far the watch has come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::held::{AnyObject, Codec, Held, Notice};
use super::overlay::{Overlay, Pending, Write};
use super::selection::Selection;
use super::snapshot::View;
use crate::object::{Kind, ObjectKey, Uid};

/// What one watch covers: a namespace, or all there is.
pub(super) type Scope = Option<String>;

/// A change and the object it is about.
pub(super) type Change = (ObjectKey, Notice);

/// The state of an informer. Pure: no clock, no locks, no IO.
///
/// Events report what the watch delivers and nothing else; readers see the program's own writes as
/// well.
pub(super) struct Store {
    selection: Arc<Selection>,
    /// What readers see: what the watch has shown, with the overlay in place.
    view: View,
    overlay: Overlay,
    scopes: BTreeMap<Scope, Progress>,
}

/// How far one watch has come.
#[derive(Default)]
struct Progress {
    version: u64,
    listed: bool,
    /// Writes to look at again once the watch has come to their version.
    waiting: BTreeSet<(u64, ObjectKey)>,
}

/// A complete list of a scope.
pub(super) struct Listed {
    pub(super) version: u64,
    pub(super) objects: Vec<(ObjectKey, Held)>,
    /// Objects that are there but could not be decoded: the last known state stays.
    pub(super) unreadable: BTreeSet<ObjectKey>,
}

impl Store {
    pub(super) fn new(kind: Arc<Kind>, selection: Arc<Selection>, codec: Arc<Codec>) -> Self {
        let scopes = selection.scopes().into_iter();
        Store {
            view: View::empty(kind, codec),
            overlay: Overlay::new(),
            scopes: scopes.map(|scope| (scope, Progress::default())).collect(),
            selection,
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn view_mut(&mut self) -> &mut View {
        &mut self.view
    }

    /// What the watch has shown last under a key.
    pub(super) fn observed(&self, key: &ObjectKey) -> Option<&Held> {
        match self.overlay.get(key) {
            Some(pending) => pending.beneath.as_ref(),
            None => self.view.objects.get(key),
        }
    }

    /// All that the watch has shown.
    pub(super) fn all_observed(&self) -> BTreeMap<ObjectKey, Held> {
        let mut all: BTreeMap<_, _> = self
            .view
            .objects
            .iter()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, pending) in self.overlay.iter() {
            match &pending.beneath {
                Some(object) => all.insert(key.clone(), object.clone()),
                None => all.remove(key),
            };
        }
        all
    }

    /// All that the watch of one scope has shown.
    fn observed_in(&self, scope: &Scope) -> BTreeMap<ObjectKey, Held> {
        let mut all = self.all_observed();
        all.retain(|key, _| self.scope_of(key).as_ref() == Some(scope));
        all
    }

    /// The list that would show all that the watch of a scope has shown; `None`
    /// before its first.
    pub(super) fn listed(&self, scope: &Scope) -> Option<Listed> {
        let progress = self.scopes.get(scope).filter(|progress| progress.listed)?;
        Some(Listed {
            version: progress.version,
            objects: self.observed_in(scope).into_iter().collect(),
            unreadable: BTreeSet::new(),
        })
    }

    /// Takes in a complete list: what is not in it is gone.
    pub(super) fn replace(&mut self, scope: &Scope, list: Listed) -> Vec<Change> {
        let mut before = self.observed_in(scope);
        let progress = self.scopes.entry(scope.clone()).or_default();
        let initial = !std::mem::replace(&mut progress.listed, true);
        if list.version < progress.version {
            // The API has been restored from an older state. Nothing written since is there.
            self.forget_writes(scope);
        }
        let mut changes = Vec::new();
        for (key, object) in list.objects {
            before.remove(&key);
            self.put(key, object, initial, &mut changes);
        }
        for (key, object) in before {
            if !list.unreadable.contains(&key) {
                self.set_observed(&key, None);
                let notice = Notice::Deleted {
                    object,
                    final_state: false,
                };
                changes.push((key, notice));
            }
        }
        if let Some(progress) = self.scopes.get_mut(scope) {
            progress.version = progress.version.min(list.version);
        }
        self.progress(scope, list.version);
        changes
    }

    /// Takes in an object as the watch shows it.
    pub(super) fn apply(&mut self, scope: &Scope, object: Arc<dyn AnyObject>) -> Vec<Change> {
        let mut changes = Vec::new();
        let (key, version) = (object.key(), object.version());
        let object = self.view.codec.hold(object);
        let is_older = |known: &Held| version != 0 && version < known.version();
        if !self.observed(&key).is_some_and(is_older) {
            self.put(key, object, false, &mut changes);
        }
        self.progress(scope, version);
        changes
    }

    /// Takes in a deletion. `last` is the very last state, if it came with it.
    pub(super) fn delete(
        &mut self,
        scope: &Scope,
        key: ObjectKey,
        last: Option<Arc<dyn AnyObject>>,
        version: u64,
    ) -> Option<Change> {
        let known = self.observed(&key).cloned();
        self.set_observed(&key, None);
        self.progress(scope, version);
        let final_state = last.is_some();
        let object = known.map(|known| last.map_or(known, Held::Whole))?;
        let notice = Notice::Deleted {
            object,
            final_state,
        };
        Some((key, notice))
    }

    /// Notes that the watch has shown everything up to `version`.
    pub(super) fn progress(&mut self, scope: &Scope, version: u64) {
        let Some(progress) = self.scopes.get_mut(scope) else {
            return;
        };
        progress.version = progress.version.max(version);
        let reached = progress.version;
        let later = progress
            .waiting
            .split_off(&(reached + 1, ObjectKey::cluster("")));
        for (_, key) in std::mem::replace(&mut progress.waiting, later) {
            self.settle(&key, reached);
        }
        let versions = self.scopes.values().map(|progress| progress.version);
        self.view.version = versions.min().unwrap_or_default();
    }

    /// Shows an object as this program has just written it.
    pub(super) fn wrote(&mut self, object: Arc<dyn AnyObject>) {
        let (key, version) = (object.key(), object.version());
        if self.knows(&key, version) {
            return;
        }
        // Outside of the selection it is hidden: the watch may still come to a
        // state before, in which it was inside.
        let selected = self.selection.matches(&*object);
        let write = Write::Put {
            version,
            uid: object.uid().into(),
            shown: selected.then_some(Held::Whole(object)),
        };
        self.lay(key, write);
    }

    /// Shows the metadata of an object that this program has just changed, where
    /// nothing else of the new state is known.
    ///
    /// The rest stays as it was shown, and so does the resource version: others may have changed
    /// the rest in between, and a write with that version then fails with a conflict. An object
    /// that was not shown, or that cannot be shown with other metadata, is left to the watch.
    pub(super) fn described(&mut self, metadata: &ObjectMeta) {
        let key = ObjectKey::from_metadata(metadata);
        let version = metadata.resource_version.as_deref().map_or(0, parse);
        let uid = Uid::from(metadata.uid.as_deref().unwrap_or_default());
        if self.knows(&key, version) {
            return;
        }
        let metadata = Arc::new(metadata.clone());
        let base = self.view.objects.get(&key).filter(|base| base.is(&uid));
        let Some(base) = base.cloned() else { return };
        let Some(shown) = self.describe(&base, &metadata) else {
            return;
        };
        let write = Write::Described {
            version,
            uid,
            metadata,
            base,
            shown,
        };
        self.lay(key, write);
    }

    /// An object with other metadata, as readers are to see it: hidden, if they
    /// take it out of the selection. `None` if it cannot be made.
    fn describe(&self, base: &Held, metadata: &ObjectMeta) -> Option<Option<Held>> {
        let codec = &self.view.codec;
        let object = codec.open(base);
        let object = codec.reader().with_metadata(&*object, metadata)?;
        let selected = self.selection.matches(&*object);
        Some(selected.then_some(Held::Whole(object)))
    }

    /// Shows what the watch has shown under a key with the metadata that this
    /// program has written since.
    fn describe_anew(&mut self, key: &ObjectKey) {
        let Some(Pending { beneath, write }) = self.overlay.get(key) else {
            return;
        };
        let (Some(newer), Write::Described { base, metadata, .. }) = (beneath, write) else {
            return;
        };
        if !newer.is_same_object(base) || newer.version() <= base.version() {
            return;
        }
        let (newer, metadata) = (newer.clone(), metadata.clone());
        let Some(now_shown) = self.describe(&newer, &metadata) else {
            return;
        };
        if let Some(pending) = self.overlay.get_mut(key)
            && let Write::Described { base, shown, .. } = &mut pending.write
        {
            *base = newer;
            shown.clone_from(&now_shown);
            self.view.set(key, now_shown);
        }
    }

    /// Hides the object with this uid, which this program has just deleted and
    /// which was there at `since`.
    pub(super) fn deleted(&mut self, key: ObjectKey, uid: Uid, since: u64) {
        let observed = self.observed(&key).filter(|object| object.is(&uid));
        let versions = [
            observed.map(Held::version),
            self.overlay.version_of(&key, &uid),
        ];
        let since = versions.into_iter().flatten().fold(since, u64::max);
        if observed.is_none() && self.knows(&key, since) {
            return;
        }
        self.lay(key, Write::Gone { uid, since });
    }

    /// Whether the watch of this key has come to a version. True too for keys
    /// outside of the selection, of which there is nothing to know.
    fn knows(&self, key: &ObjectKey, version: u64) -> bool {
        let scope = self.scope_of(key);
        let progress = scope.and_then(|scope| self.scopes.get(&scope));
        progress.is_none_or(|progress| progress.version >= version)
    }

    fn scope_of(&self, key: &ObjectKey) -> Option<Scope> {
        let own = key.namespace().map(str::to_owned);
        [None, own]
            .into_iter()
            .find(|scope| self.scopes.contains_key(scope))
    }

    fn lay(&mut self, key: ObjectKey, write: Write) {
        let (shown, version) = (write.shown(), write.version());
        let beneath = self.observed(&key).cloned();
        if !self.overlay.lay(&key, beneath, write) {
            return;
        }
        self.view.set(&key, shown);
        let scope = self.scope_of(&key);
        if let Some(progress) = scope.and_then(|scope| self.scopes.get_mut(&scope)) {
            progress.waiting.insert((version, key));
        }
    }

    fn forget_writes(&mut self, scope: &Scope) {
        let keys: Vec<_> = self.overlay.iter().map(|(key, _)| key.clone()).collect();
        for key in keys {
            if self.scope_of(&key).as_ref() == Some(scope)
                && let Some(pending) = self.overlay.remove(&key)
            {
                self.view.set(&key, pending.beneath);
            }
        }
    }

    fn settle(&mut self, key: &ObjectKey, version: u64) {
        if let Some(settled) = self.overlay.settle(key, version) {
            self.view.set(key, settled.beneath);
        }
    }

    fn set_observed(&mut self, key: &ObjectKey, object: Option<Held>) {
        match self.overlay.get_mut(key) {
            None => self.view.set(key, object),
            Some(pending) => {
                pending.beneath = object;
                // A deletion may have waited for just this.
                let scope = self.scope_of(key);
                let progress = scope.and_then(|scope| self.scopes.get(&scope));
                let version = progress.map_or(0, |progress| progress.version);
                self.settle(key, version);
                self.describe_anew(key);
            }
        }
    }

    fn put(&mut self, key: ObjectKey, object: Held, initial: bool, changes: &mut Vec<Change>) {
        // The first of a list may have been packed before there was a dictionary.
        let object = self.view.codec.tighten(object);
        let created = |object: &Held| Notice::Created {
            object: object.clone(),
            initial,
        };
        match self.observed(&key).cloned() {
            None => changes.push((key.clone(), created(&object))),
            Some(old) if !old.is_same_object(&object) => {
                // Its deletion went by in a gap.
                let deleted = Notice::Deleted {
                    object: old,
                    final_state: false,
                };
                changes.push((key.clone(), deleted));
                changes.push((key.clone(), created(&object)));
            }
            Some(old) if old.is_same_state(&object) => return,
            Some(old) => {
                let new = object.clone();
                changes.push((key.clone(), Notice::Updated { old, new }));
            }
        }
        self.set_observed(&key, Some(object));
    }
}

/// A resource version as a number; 0 for what is none.
fn parse(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests;
