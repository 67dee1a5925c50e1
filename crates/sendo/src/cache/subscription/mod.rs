//! What a subscriber has not read yet, kept short.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sendo_world::{Clock, Moment};
use tokio::sync::Notify;

use super::held::{Codec, Held, Notice};
use crate::Event;
use crate::object::{Object, ObjectKey};

/// What a [`Subscription`] delivers.
#[derive(Clone, Debug)]
pub enum Delivery<K> {
    /// An object changed.
    Event(Event<K>),
    /// All that was there has been delivered. Said once.
    Synced,
}

/// The changes of a kind, for one reader.
///
/// First comes what is there (as [`Event::Created`] with `initial`), then
/// [`Delivery::Synced`], then what changes; nothing is lost and nothing comes
/// twice, however late the subscription. Changes of one object come in order.
/// While unread they are merged, so a slow reader costs memory for each object
/// that changed, not for each change:
///
/// - a creation and updates are a creation in the newest state;
/// - updates are one update, from the state last delivered to the newest;
/// - any of these and a deletion are the deletion. An object that came and
///   went unread is so seen once, as deleted;
/// - an object and another of the same name after it are never merged.
pub struct Subscription<K> {
    mailbox: Arc<Mailbox>,
    waited: Duration,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Subscription<K> {
    /// The next delivery; `None` when the informer has ended and all is read.
    ///
    /// Cancel safe: a dropped future has taken nothing.
    pub async fn next(&mut self) -> Option<Delivery<K>> {
        loop {
            {
                let mut unread = self.mailbox.lock();
                if let Some(unopened) = unread.pop() {
                    drop(unread);
                    if let Unopened::Notice(_, arrived) = &unopened {
                        self.waited = self.mailbox.clock.now() - *arrived;
                    }
                    return Some(unopened.open(&self.mailbox.codec));
                }
                if unread.closed {
                    return None;
                }
            }
            self.mailbox.arrived.notified().await;
        }
    }

    /// How long the change that was delivered last had waited to be read.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// Where an informer leaves what a subscriber has not read.
struct Mailbox {
    codec: Arc<Codec>,
    clock: Clock,
    unread: Mutex<Unread>,
    arrived: Notify,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock()
    }
}

/// The subscribers of an informer.
pub(super) struct Subscribers {
    clock: Clock,
    mailboxes: Vec<Weak<Mailbox>>,
    closed: bool,
}

impl Subscribers {
    pub(super) fn new(clock: Clock) -> Self {
        Subscribers {
            clock,
            mailboxes: Vec::new(),
            closed: false,
        }
    }

    /// A subscriber who is given what is there, and is notified when that is all.
    pub(super) fn add<K>(
        &mut self,
        codec: Arc<Codec>,
        present: BTreeMap<ObjectKey, Held>,
        synced: bool,
    ) -> Subscription<K> {
        let mut unread = Unread::new(self.closed);
        let now = self.clock.now();
        for (key, object) in present {
            let initial = true;
            unread.push(key, Notice::Created { object, initial }, now);
        }
        if synced {
            unread.push_synced();
        }
        let mailbox = Arc::new(Mailbox {
            codec,
            clock: self.clock.clone(),
            unread: Mutex::new(unread),
            arrived: Notify::new(),
        });
        self.mailboxes.push(Arc::downgrade(&mailbox));
        Subscription {
            mailbox,
            waited: Duration::ZERO,
            of: PhantomData,
        }
    }

    pub(super) fn send(&mut self, changes: &[(ObjectKey, Notice)]) {
        let now = self.clock.now();
        self.each(|unread| {
            for (key, notice) in changes {
                unread.push(key.clone(), notice.clone(), now);
            }
        });
    }

    pub(super) fn send_synced(&mut self) {
        self.each(Unread::push_synced);
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.each(|unread| unread.closed = true);
    }

    /// Changes every mailbox that is still read and wakes its reader.
    fn each(&mut self, mut change: impl FnMut(&mut Unread)) {
        self.mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else {
                return false;
            };
            change(&mut mailbox.lock());
            mailbox.arrived.notify_one();
            true
        });
    }
}

/// Events not yet read, merged per object, in the order of each object's first.
pub(super) struct Unread {
    turns: VecDeque<Turn>,
    events: BTreeMap<ObjectKey, Pending>,
    closed: bool,
}

enum Turn {
    Object(ObjectKey),
    Synced,
}

/// The events of one key: those of one object merged into one.
struct Pending {
    first: Notice,
    /// When the first of what is merged came.
    arrived: Moment,
    /// Of objects of the same name that came after. Hardly ever any.
    rest: VecDeque<Notice>,
}

/// A delivery that nobody has looked at.
enum Unopened {
    Notice(Notice, Moment),
    Synced,
}

impl Unopened {
    fn open<K: Object>(&self, codec: &Codec) -> Delivery<K> {
        match self {
            Unopened::Notice(notice, _) => Delivery::Event(notice.open(codec)),
            Unopened::Synced => Delivery::Synced,
        }
    }
}

impl Unread {
    fn new(closed: bool) -> Self {
        Unread {
            turns: VecDeque::new(),
            events: BTreeMap::new(),
            closed,
        }
    }

    fn push_synced(&mut self) {
        self.turns.push_back(Turn::Synced);
    }

    fn push(&mut self, key: ObjectKey, notice: Notice, arrived: Moment) {
        let Some(pending) = self.events.get_mut(&key) else {
            self.turns.push_back(Turn::Object(key.clone()));
            let rest = VecDeque::new();
            let first = notice;
            let pending = Pending {
                first,
                arrived,
                rest,
            };
            self.events.insert(key, pending);
            return;
        };
        let last = pending.rest.back_mut().unwrap_or(&mut pending.first);
        match merge(last, &notice) {
            Some(merged) => *last = merged,
            None => pending.rest.push_back(notice),
        }
    }

    fn pop(&mut self) -> Option<Unopened> {
        let key = match self.turns.pop_front()? {
            Turn::Synced => return Some(Unopened::Synced),
            Turn::Object(key) => key,
        };
        let Pending {
            first,
            arrived,
            mut rest,
        } = self.events.remove(&key)?;
        if let Some(next) = rest.pop_front() {
            self.turns.push_front(Turn::Object(key.clone()));
            let pending = Pending {
                first: next,
                arrived,
                rest,
            };
            self.events.insert(key, pending);
        }
        Some(Unopened::Notice(first, arrived))
    }
}

/// Two changes in a row of the same object as one.
fn merge(earlier: &Notice, later: &Notice) -> Option<Notice> {
    if !earlier.object().is_same_object(later.object()) {
        return None;
    }
    match (earlier, later) {
        // Deleted and created again under the same uid does happen: an object
        // that leaves a selection and comes back to it.
        (Notice::Deleted { .. }, _) => None,
        (_, Notice::Deleted { .. }) => Some(later.clone()),
        (Notice::Created { initial, .. }, _) => Some(Notice::Created {
            object: later.object().clone(),
            initial: *initial,
        }),
        (Notice::Updated { old, .. }, _) => Some(Notice::Updated {
            old: old.clone(),
            new: later.object().clone(),
        }),
    }
}

#[cfg(test)]
mod tests;
