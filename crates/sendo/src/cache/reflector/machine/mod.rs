//! The course of a list and watch as a state machine: no IO, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use sendo_world::Random;

use super::super::held::{AnyObject, Held};
use super::super::state::{Verb, WatchError};
use super::super::store::Listed;
use super::backoff::Backoff;
use super::wire::{Line, Page, Undecoded, keys};
use crate::object::ObjectKey;

/// How many objects a page of a list holds at most.
const PAGE: u32 = 500;

/// A watch that lived this long was a success, whatever ended it.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// Lists, watches, and knows what to do when either fails.
pub(super) struct Machine {
    /// How an object of a list is kept until the list is whole.
    hold: Hold,
    phase: Phase,
    backoff: Backoff,
    /// Whether lists are requested as streams: until the API server shows that it cannot do that.
    streams: bool,
}

pub(super) type Hold = Box<dyn Fn(Arc<dyn AnyObject>) -> Held + Send + Sync>;

enum Phase {
    /// A watch that begins with all there is.
    Streaming {
        objects: BTreeMap<ObjectKey, Held>,
        unreadable: BTreeMap<ObjectKey, Undecoded>,
        /// The newest version that has come.
        newest: u64,
        /// How many objects have come that were there before the list began: they
        /// are older than others before them, and so no changes that happened meanwhile.
        older: u64,
    },
    Listing {
        page: Option<String>,
        /// Whether to request pages. A list too long to page through before its first page is too
        /// old is requested in one piece.
        paged: bool,
        objects: Vec<(ObjectKey, Held)>,
        unreadable: Vec<Undecoded>,
    },
    Watching {
        version: String,
    },
}

/// What to request from the API server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    List {
        page: Option<String>,
        limit: Option<u32>,
    },
    /// A watch that begins with all there is.
    Stream,
    Watch {
        from: String,
    },
}

/// What came of it.
pub(super) enum Input {
    Page(Page),
    /// The watch is open.
    Opened,
    Line(Line),
    /// The watch ended as it should, after having lived so long.
    Ended {
        lived: Duration,
    },
    /// Nothing has come for longer than a live watch is silent.
    Silent,
    /// The list or the watch failed; a watch after having lived so long.
    Failed {
        error: WatchError,
        lived: Duration,
    },
    /// The API server does not stream lists: it says so, or never says that one
    /// is whole.
    CannotStream,
}

impl Input {
    pub(super) fn failed(error: impl Into<WatchError>, lived: Duration) -> Self {
        let error = error.into();
        Input::Failed { error, lived }
    }
}

/// What the cache is to take in, and what to do then.
pub(super) struct Reaction {
    pub(super) update: Option<Update>,
    pub(super) next: Next,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read on from the open watch.
    Read,
    /// Wait so long, then send [`Machine::request`].
    Request { after: Duration },
}

impl Next {
    /// How long to wait before the next request, where nothing is there to read on.
    pub(super) fn wait(self) -> Duration {
        match self {
            Next::Read => Duration::ZERO,
            Next::Request { after } => after,
        }
    }
}

pub(in crate::cache) enum Update {
    Listed(Listed, Vec<Undecoded>),
    Applied(Arc<dyn AnyObject>),
    Deleted(Arc<dyn AnyObject>),
    DeletedUnreadable(Undecoded),
    Unreadable(Undecoded),
    Progress(u64),
    /// A watch is open, and its list is still to come.
    Opened,
    /// A watch is open from where the last one was: whatever failed before does
    /// so no more.
    Recovered,
    Failed(Verb, WatchError),
}

impl Machine {
    /// One that streams lists, if it may and can.
    pub(super) fn new(random: Random, streams: bool, hold: Hold) -> Self {
        Machine {
            hold,
            phase: Phase::first(streams),
            backoff: Backoff::new(random),
            streams,
        }
    }

    /// While a list comes as a stream, how many objects have come that can only
    /// be of the list.
    pub(super) fn listed(&self) -> Option<u64> {
        match &self.phase {
            Phase::Streaming { older, .. } => Some(*older),
            Phase::Listing { .. } | Phase::Watching { .. } => None,
        }
    }

    /// What to request next.
    pub(super) fn request(&self) -> Request {
        match &self.phase {
            Phase::Listing { page, paged, .. } => Request::List {
                page: page.clone(),
                limit: paged.then_some(PAGE),
            },
            Phase::Streaming { .. } => Request::Stream,
            Phase::Watching { version } => Request::Watch {
                from: version.clone(),
            },
        }
    }

    /// Takes in what happened.
    pub(super) fn on(&mut self, input: Input) -> Reaction {
        match input {
            Input::Page(page) => self.page(page),
            Input::Opened if self.listed().is_some() => Reaction::read(Some(Update::Opened)),
            Input::Opened => Reaction::read(Some(Update::Recovered)),
            Input::Line(line) if self.listed().is_some() => self.streamed(line),
            Input::Line(line) => self.line(line),
            Input::CannotStream => self.cannot_stream(),
            Input::Ended { lived } if lived >= LONG_ENOUGH => self.go_on(),
            // Some servers send no bookmarks of a kind that nobody changes, so it
            // is no failure. If the connection is dead, opening the next one is.
            Input::Silent => self.go_on(),
            // Otherwise a server that closes every watch at once would get requests without end.
            Input::Ended { lived } => {
                let error = WatchError::Other("the watch ended as soon as it began".to_owned());
                self.failed(error, lived)
            }
            Input::Failed { error, lived } => self.failed(error, lived),
        }
    }

    /// Opens the watch again from where it was, at once.
    fn go_on(&mut self) -> Reaction {
        self.backoff.reset();
        Reaction::request(None, Duration::ZERO)
    }

    /// Lists in pages from now on.
    fn cannot_stream(&mut self) -> Reaction {
        self.streams = false;
        self.phase = Phase::first(false);
        Reaction::request(None, Duration::ZERO)
    }

    fn page(&mut self, page: Page) -> Reaction {
        let Phase::Listing {
            page: place,
            objects,
            unreadable,
            ..
        } = &mut self.phase
        else {
            unreachable!("a page comes only while listing");
        };
        let held = page.objects.into_iter();
        objects.extend(held.map(|object| (object.key(), (self.hold)(object))));
        unreadable.extend(page.unreadable);
        if page.next.is_some() {
            *place = page.next;
            return Reaction::request(None, Duration::ZERO);
        }
        let (objects, unreadable) = (std::mem::take(objects), std::mem::take(unreadable));
        let update = listed(&page.version, objects, unreadable);
        self.phase = Phase::Watching {
            version: page.version,
        };
        Reaction::request(Some(update), Duration::ZERO)
    }

    /// A line of a list that comes as a stream.
    fn streamed(&mut self, line: Line) -> Reaction {
        let Phase::Streaming {
            objects,
            unreadable,
            newest,
            older,
        } = &mut self.phase
        else {
            unreachable!("a page does not come in lines");
        };
        match line {
            Line::Applied(object) => {
                let (key, version) = (object.key(), object.version());
                *older += u64::from((1..*newest).contains(&version));
                *newest = version.max(*newest);
                unreadable.remove(&key);
                objects.insert(key, (self.hold)(object));
            }
            Line::Deleted(object) => {
                objects.remove(&object.key());
            }
            Line::DeletedUnreadable(object) => {
                unreadable.remove(&object.key);
            }
            Line::Unreadable(object) => {
                objects.remove(&object.key);
                unreadable.insert(object.key.clone(), object);
            }
            Line::Error(status) => return self.broke_off(*status),
            Line::Bookmark {
                version,
                ends_list: true,
            } => {
                let objects = std::mem::take(objects).into_iter().collect();
                let unreadable = std::mem::take(unreadable).into_values().collect();
                self.phase = Phase::Watching {
                    version: version.clone(),
                };
                let update = listed(&version, objects, unreadable);
                return Reaction::read(Some(update));
            }
            // The first bookmark is the one that ends the list (apiserver,
            // storage/cacher/cache_watcher.go): this server has overlooked the question.
            Line::Bookmark { .. } => return self.cannot_stream(),
        }
        Reaction::read(None)
    }

    fn broke_off(&mut self, status: Status) -> Reaction {
        let error = match status.code {
            410 => WatchError::Expired(status.message),
            _ => WatchError::Other(status.message),
        };
        self.list_anew(error)
    }

    fn line(&mut self, line: Line) -> Reaction {
        let (version, update) = match line {
            Line::Applied(object) => (object.version_text().to_owned(), Update::Applied(object)),
            Line::Deleted(object) => (object.version_text().to_owned(), Update::Deleted(object)),
            Line::DeletedUnreadable(object) => {
                (object.version.clone(), Update::DeletedUnreadable(object))
            }
            Line::Unreadable(object) => (object.version.clone(), Update::Unreadable(object)),
            Line::Bookmark { version, .. } => {
                let update = Update::Progress(number(&version));
                (version, update)
            }
            Line::Error(status) => return self.broke_off(*status),
        };
        // An object without a version cannot be gone on from.
        if let Phase::Watching { version: known } = &mut self.phase
            && !version.is_empty()
        {
            *known = version;
        }
        Reaction::read(Some(update))
    }

    fn failed(&mut self, error: WatchError, lived: Duration) -> Reaction {
        if lived >= LONG_ENOUGH {
            self.backoff.reset();
        }
        match error {
            // A kind that went away and came back has other objects.
            WatchError::Expired(_) | WatchError::NotServed => self.list_anew(error),
            WatchError::Forbidden(_) | WatchError::Other(_) => {
                let after = self.backoff.fail();
                if let Phase::Streaming { .. } = self.phase {
                    // A stream has no place to go on from before it is complete.
                    self.phase = Phase::first(true);
                }
                Reaction::request(Some(Update::Failed(self.verb(), error)), after)
            }
        }
    }

    /// The watch cannot go on from where it was.
    fn list_anew(&mut self, error: WatchError) -> Reaction {
        let verb = self.verb();
        let expired = matches!(error, WatchError::Expired(_));
        let at_once = expired && self.backoff.failures() == 0;
        let wait = self.backoff.fail();
        let too_slow = expired && verb == Verb::List;
        self.phase = match too_slow {
            true => Phase::listing(false),
            false => Phase::first(self.streams),
        };
        let after = if at_once { Duration::ZERO } else { wait };
        Reaction::request(Some(Update::Failed(verb, error)), after)
    }

    fn verb(&self) -> Verb {
        match self.phase {
            Phase::Listing { .. } => Verb::List,
            Phase::Streaming { .. } | Phase::Watching { .. } => Verb::Watch,
        }
    }
}

fn listed(version: &str, objects: Vec<(ObjectKey, Held)>, unreadable: Vec<Undecoded>) -> Update {
    let listed = Listed {
        version: number(version),
        objects,
        unreadable: keys(&unreadable),
    };
    Update::Listed(listed, unreadable)
}

impl Phase {
    fn first(streams: bool) -> Self {
        match streams {
            true => Phase::Streaming {
                objects: BTreeMap::new(),
                unreadable: BTreeMap::new(),
                newest: 0,
                older: 0,
            },
            false => Phase::listing(true),
        }
    }

    fn listing(paged: bool) -> Self {
        Phase::Listing {
            page: None,
            paged,
            objects: Vec::new(),
            unreadable: Vec::new(),
        }
    }
}

impl Reaction {
    fn read(update: Option<Update>) -> Self {
        let next = Next::Read;
        Reaction { update, next }
    }

    fn request(update: Option<Update>, after: Duration) -> Self {
        let next = Next::Request { after };
        Reaction { update, next }
    }
}

/// A version as a number; zero, if it is none.
pub(in crate::cache) fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests;
