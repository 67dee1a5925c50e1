//! Informers without a watch of their own: the informer of the same whole objects passes its
//! updates on to them.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::MutexGuard;
use sendo_world::Timestamp;

use super::{Shared, covers};
use crate::cache::held::{AnyObject, Codec};
use crate::cache::reflector::{Undecoded, Update};
use crate::cache::store::{Listed, Scope};
use crate::object::ObjectKey;

impl Shared {
    /// Whether the updates of this informer suffice for `other`.
    pub(in crate::cache) fn can_feed(&self, other: &Shared) -> bool {
        self.kind == other.kind
            && self.selection == other.selection
            && self.reader().suffices(other.reader())
    }

    /// Sends `follower` the current state and every update from now on.
    pub(in crate::cache) fn add_follower(&self, follower: &Arc<Shared>, now: Timestamp) {
        let mut followers = self.followers();
        for (scope, update) in self.current_updates() {
            let update = follower.convert_update(&update, &self.codec);
            follower.apply(&scope, update, now);
        }
        followers.push(follower.clone());
    }

    /// Sends `follower` no more updates.
    pub(in crate::cache) fn remove_follower(&self, follower: &Arc<Shared>) {
        let mut followers = self.followers();
        followers.retain(|other| !Arc::ptr_eq(other, follower));
    }

    pub(super) fn followers(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.followers.lock()
    }

    /// The updates that add_follower to the current state.
    fn current_updates(&self) -> Vec<(Scope, Update)> {
        let inner = self.lock();
        let mut updates = Vec::new();
        for scope in self.selection.scopes() {
            if let Some(mut list) = inner.store.listed(&scope) {
                // Of these objects, a newer state is known than the last one that could be decoded.
                let unreadable = &inner.unreadable;
                let is_described =
                    |key: &ObjectKey| unreadable.get(key).is_some_and(|o| o.metadata.is_some());
                list.objects.retain(|(key, _)| !is_described(key));
                let unreadable = unreadable.values().filter(|o| covers(&scope, &o.key));
                let unreadable = unreadable.cloned().collect();
                updates.push((scope.clone(), Update::Listed(list, unreadable)));
            }
            if let Some(failure) = inner.failures.get(&scope) {
                let update = Update::Failed(failure.verb, failure.cause.clone());
                updates.push((scope, update));
            }
        }
        updates
    }

    /// An update of another informer, which encodes its objects with `codec`, as an update for this
    /// one.
    pub(super) fn convert_update(&self, update: &Update, codec: &Codec) -> Update {
        match update {
            Update::Listed(list, unreadable) => {
                let decoded = list.objects.iter().map(|(_, object)| codec.open(object));
                let decoded = decoded.map(|object| self.describe(object.metadata()));
                let unreadable = unreadable
                    .iter()
                    .map(|object| self.describe_undecoded(object));
                let (mut objects, mut remaining) = (Vec::new(), Vec::new());
                for described in decoded.chain(unreadable) {
                    match described {
                        Ok(object) => objects.push((object.key(), self.hold(object))),
                        Err(object) => remaining.push(object),
                    }
                }
                let list = Listed {
                    version: list.version,
                    objects,
                    unreadable: remaining.iter().map(|object| object.key.clone()).collect(),
                };
                Update::Listed(list, remaining)
            }
            Update::Applied(object) => applied(self.describe(object.metadata())),
            Update::Unreadable(object) => applied(self.describe_undecoded(object)),
            Update::Deleted(object) => deleted(self.describe(object.metadata())),
            Update::DeletedUnreadable(object) => deleted(self.describe_undecoded(object)),
            Update::Progress(version) => Update::Progress(*version),
            Update::Opened => Update::Opened,
            Update::Recovered => Update::Recovered,
            Update::Failed(verb, cause) => Update::Failed(*verb, cause.clone()),
        }
    }

    fn describe(&self, metadata: &ObjectMeta) -> Described {
        let described = self.reader().describe(metadata);
        let described = described.unwrap_or_else(|| Err("it has more than metadata".to_owned()));
        described.map_err(|cause| Undecoded {
            key: ObjectKey::from_metadata(metadata),
            version: metadata.resource_version.clone().unwrap_or_default(),
            cause,
            metadata: None,
        })
    }

    /// The same for an object that cannot be decoded as a whole.
    fn describe_undecoded(&self, object: &Undecoded) -> Described {
        match &object.metadata {
            Some(metadata) => self.describe(metadata),
            None => Err(object.clone()),
        }
    }
}

/// An object of metadata only, or one that could not be decoded.
type Described = Result<Arc<dyn AnyObject>, Undecoded>;

fn applied(object: Described) -> Update {
    match object {
        Ok(object) => Update::Applied(object),
        Err(object) => Update::Unreadable(object),
    }
}

fn deleted(object: Described) -> Update {
    match object {
        Ok(object) => Update::Deleted(object),
        Err(object) => Update::DeletedUnreadable(object),
    }
}
