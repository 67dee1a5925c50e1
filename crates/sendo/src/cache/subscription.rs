//! What a subscriber has not read yet, kept short.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

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
    mailbox: Arc<Mailbox<K>>,
}

impl<K: Object> Subscription<K> {
    /// The next delivery; `None` when the informer has ended and all is read.
    ///
    /// Cancel safe: a dropped future has taken nothing.
    pub async fn next(&mut self) -> Option<Delivery<K>> {
        loop {
            {
                let mut unread = self.mailbox.lock();
                if let Some(delivery) = unread.pop() {
                    return Some(delivery);
                }
                if unread.closed {
                    return None;
                }
            }
            self.mailbox.arrived.notified().await;
        }
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// Where an informer leaves what a subscriber has not read.
struct Mailbox<K> {
    unread: Mutex<Unread<K>>,
    arrived: Notify,
}

impl<K> Mailbox<K> {
    fn lock(&self) -> MutexGuard<'_, Unread<K>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subscribers of an informer.
pub(super) struct Subscribers<K> {
    mailboxes: Vec<Weak<Mailbox<K>>>,
    closed: bool,
}

impl<K: Object> Subscribers<K> {
    pub(super) fn new() -> Self {
        Subscribers {
            mailboxes: Vec::new(),
            closed: false,
        }
    }

    /// A subscriber who is given what is there, and is told if that is all.
    pub(super) fn add(
        &mut self,
        present: BTreeMap<ObjectKey, Arc<K>>,
        synced: bool,
    ) -> Subscription<K> {
        let mut unread = Unread::new(self.closed);
        for (key, object) in present {
            let initial = true;
            unread.push(key, Event::Created { object, initial });
        }
        if synced {
            unread.push_synced();
        }
        let mailbox = Arc::new(Mailbox {
            unread: Mutex::new(unread),
            arrived: Notify::new(),
        });
        self.mailboxes.push(Arc::downgrade(&mailbox));
        Subscription { mailbox }
    }

    pub(super) fn send(&mut self, changes: &[(ObjectKey, Event<K>)]) {
        self.each(|unread| {
            for (key, event) in changes {
                unread.push(key.clone(), event.clone());
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
    fn each(&mut self, mut change: impl FnMut(&mut Unread<K>)) {
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
pub(super) struct Unread<K> {
    turns: VecDeque<Turn>,
    events: BTreeMap<ObjectKey, Pending<K>>,
    closed: bool,
}

enum Turn {
    Object(ObjectKey),
    Synced,
}

/// The events of one key: those of one object merged into one.
struct Pending<K> {
    first: Event<K>,
    /// Of objects of the same name that came after. Hardly ever any.
    rest: VecDeque<Event<K>>,
}

impl<K: Object> Unread<K> {
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

    fn push(&mut self, key: ObjectKey, event: Event<K>) {
        let Some(pending) = self.events.get_mut(&key) else {
            self.turns.push_back(Turn::Object(key.clone()));
            let rest = VecDeque::new();
            self.events.insert(key, Pending { first: event, rest });
            return;
        };
        let last = pending.rest.back_mut().unwrap_or(&mut pending.first);
        match merge(last, &event) {
            Some(merged) => *last = merged,
            None => pending.rest.push_back(event),
        }
    }

    fn pop(&mut self) -> Option<Delivery<K>> {
        let key = match self.turns.pop_front()? {
            Turn::Synced => return Some(Delivery::Synced),
            Turn::Object(key) => key,
        };
        let Pending { first, mut rest } = self.events.remove(&key)?;
        if let Some(next) = rest.pop_front() {
            self.turns.push_front(Turn::Object(key.clone()));
            self.events.insert(key, Pending { first: next, rest });
        }
        Some(Delivery::Event(first))
    }
}

/// Two changes in a row of the same object as one.
fn merge<K: Object>(earlier: &Event<K>, later: &Event<K>) -> Option<Event<K>> {
    if earlier.object().meta().uid != later.object().meta().uid {
        return None;
    }
    match (earlier, later) {
        // Deleted and created again under the same uid does happen: an object
        // that leaves a selection and comes back to it.
        (Event::Deleted { .. }, _) => None,
        (_, Event::Deleted { .. }) => Some(later.clone()),
        (Event::Created { initial, .. }, _) => Some(Event::Created {
            object: later.object().clone(),
            initial: *initial,
        }),
        (Event::Updated { old, .. }, _) => Some(Event::Updated {
            old: old.clone(),
            new: later.object().clone(),
        }),
    }
}

#[cfg(test)]
mod tests;
