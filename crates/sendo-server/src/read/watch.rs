//! Watches a collection: sends what is there, then every change.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use sendo_apimachinery::Status;
use sendo_store::{At, Batch, Change, Entry, Error, Key, KeyRange, Page, Revision, Store, Watch};
use sendo_world::{Clock, Moment, Stop};
use serde_json::Value;

use crate::catalog::storage::backend;
use crate::metrics::requests::WatchEvents;
use crate::read::answer::ApiResponse;
use crate::read::get;
use crate::read::selection::Selection;
use crate::read::view::Stored;
use crate::read::watch_event::{EventType, Events};
use crate::request::body::Body;
use crate::request::negotiate::Encoding;
use crate::request::options::ListOptions;
use crate::state::call::Call;

/// What a watch comes in.
pub(crate) const MEDIA_TYPES: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// How often a quiet watch says how far it has come.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How long before its end a watch says how far it has come.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The least a watch lasts if its client names no time; it is drawn up to twice that.
const LEAST_SECONDS: u64 = 1800;
/// How many objects of the initial state a webhook is sent at a time.
const CONVERTED_TOGETHER: usize = 100;
/// Events that are there at the same time travel together up to about this size.
const CHUNK: usize = 32 * 1024;

/// Streams the changes of what the selectors choose.
pub(crate) async fn watch(call: &Call<'_>) -> Result<ApiResponse, Status> {
    let options = ListOptions::parse(&call.request.query, true)?;
    let mut selection = Selection::new(call.resource, &options)?;
    if let Some(name) = call.path.name.as_deref().filter(|name| !name.is_empty()) {
        selection.pin(name);
    }
    let version = get::version(&options.resource_version)?;
    let custom = call.resource.custom.as_ref();
    let events = Events::new(call)?;
    let range = match selection
        .name()
        .filter(|_| call.namespace().is_some() || !call.resource.is_namespaced())
    {
        Some(name) => KeyRange::one(call.resource.keys.object(call.namespace(), name)),
        None => KeyRange::prefix(&call.resource.keys.collection(call.namespace())),
    };
    if call.request.form.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable_parameters(&MEDIA_TYPES));
    }
    let begun = begin(call, &options, version, &range, &selection).await;
    let (initial, changes) = match begun {
        Ok(begun) => begun,
        // The stream is open: what went wrong is its only event.
        Err(status) => {
            let event = events.failure(&status);
            return Ok(ApiResponse::Stream(Body::stream(stream::iter([event]))));
        }
    };
    let clock = call.server.world.clock().clone();
    let now = clock.now();
    let deadline = now + lifetime(call, &options);
    let facts = &call.resource.facts;
    let requests = &call.server.metrics.requests;
    let mut feed = Feed {
        events,
        counted: requests.watch_events(&facts.group, &facts.version, &facts.plural),
        selection,
        initial,
        closes: closes_with_bookmark(&options),
        changes,
        unconverted: VecDeque::new(),
        ready: VecDeque::new(),
        bookmarks: options.bookmarks,
        deadline,
        wake: deadline,
        timer: Box::pin(std::future::pending()),
        stop: custom
            .map_or_else(
                || call.server.world.tasks().stopping(),
                |custom| &custom.gone,
            )
            .clone(),
        clock,
        stopping: call.server.world.tasks().stopping().clone(),
        ended: false,
    };
    feed.arm(now);
    let stream = stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((bytes, feed))
    });
    Ok(ApiResponse::Stream(Body::stream(stream)))
}

/// What may be meant of what is there at the start, and the changes from there on.
async fn begin(
    call: &Call<'_>,
    options: &ListOptions,
    version: Revision,
    range: &KeyRange,
    selection: &Selection,
) -> Result<(Option<Initial>, Watch), Status> {
    let store = &call.server.store;
    let since = call
        .resource
        .custom
        .as_ref()
        .map_or(Revision(0), |custom| custom.since);
    if version > Revision(0) && version < since {
        return Err(too_old(Error::Compacted {
            requested: version,
            oldest: since,
        }));
    }
    let wants_state = options
        .send_initial_events
        .unwrap_or(version == Revision(0));
    if !wants_state {
        let after = if version == Revision(0) {
            store.revision()
        } else {
            version
        };
        let changes = store.watch(range.clone(), after).map_err(too_old)?;
        return Ok((None, changes));
    }
    call.server.reach(version).await?;
    let page = store
        .range(range.clone(), At::Latest, None)
        .await
        .map_err(backend)?;
    let changes = store.watch(range.clone(), page.revision).map_err(too_old)?;
    let initial = Initial::new(Arc::clone(store), page, selection);
    Ok((Some(initial), changes))
}

fn too_old(error: Error) -> Status {
    match error {
        Error::Compacted { requested, oldest } => {
            Status::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        other => backend(other),
    }
}

/// Whether the initial state ends with a bookmark that says so.
fn closes_with_bookmark(options: &ListOptions) -> bool {
    let sends_initial_events = options
        .send_initial_events
        .unwrap_or(matches!(options.resource_version.as_str(), "" | "0"));
    options.bookmarks && sends_initial_events
}

fn lifetime(call: &Call<'_>, options: &ListOptions) -> Duration {
    match options.timeout_seconds {
        Some(seconds) if seconds != 0 => Duration::from_secs(seconds.max(0).unsigned_abs()),
        _ => {
            let more = call.server.world.random().fraction();
            Duration::from_secs(LEAST_SECONDS).mul_f64(1.0 + more)
        }
    }
}

/// What there was when the watch began, as far as it was not written yet.
///
/// Nothing of it is kept alive for a client that does not read: the store has what
/// is current, and what was replaced as long as its history reaches back. A client
/// that reads on later than that has been too slow, as it is for changes.
struct Initial {
    store: Arc<dyn Store>,
    at: Revision,
    entries: std::vec::IntoIter<(Weak<Entry>, Key)>,
}

impl Initial {
    fn new(store: Arc<dyn Store>, page: Page, selection: &Selection) -> Self {
        let chosen = page.entries.iter();
        let chosen = chosen.filter(|entry| selection.may_match(&entry.key));
        let entries: Vec<_> = chosen
            .map(|entry| (Arc::downgrade(entry), Key::clone(&entry.key)))
            .collect();
        Initial {
            store,
            at: page.revision,
            entries: entries.into_iter(),
        }
    }

    /// The next object; an error if what it was is no longer kept.
    async fn next(&mut self) -> Option<Result<Stored, Error>> {
        loop {
            let (entry, key) = self.entries.next()?;
            let found = match entry.upgrade() {
                Some(entry) => Some(entry),
                // Out of memory; the store knows whether out of its history too.
                None => match self.store.get(&key, At::Revision(self.at)).await {
                    Ok(found) => found.entry,
                    Err(error) => return Some(Err(error)),
                },
            };
            if let Some(entry) = found {
                return Some(Ok(Stored {
                    value: entry.value.clone(),
                    at: entry.modified,
                }));
            }
        }
    }
}

/// One client's watch. It is driven by reading its body, and ends with it.
struct Feed {
    events: Events,
    counted: WatchEvents,
    selection: Selection,
    /// What comes before the changes; `None` when all of it is written.
    initial: Option<Initial>,
    /// Whether a bookmark says so then.
    closes: bool,
    changes: Watch,
    /// Changes that a webhook still has to convert.
    unconverted: VecDeque<Arc<Change>>,
    /// Events that are encoded and not yet read.
    ready: VecDeque<Bytes>,
    bookmarks: bool,
    deadline: Moment,
    /// When the timer fires: the next bookmark, or the end.
    wake: Moment,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    clock: Clock,
    /// Ends the watch after what has happened.
    stop: Stop,
    /// The server stops: no webhook is waited for.
    stopping: Stop,
    ended: bool,
}

impl Feed {
    /// Writes as much of the initial state as travels together.
    async fn go_on_with(&mut self, mut initial: Initial) {
        if self.events.are_converted() {
            return self.convert_initial(initial).await;
        }
        let mut chunk = Vec::new();
        let mut outcome = Ok(true);
        while chunk.len() < CHUNK {
            let stored = match initial.next().await {
                Some(Ok(stored)) => stored,
                Some(Err(error)) => {
                    outcome = Err(error);
                    break;
                }
                None => {
                    outcome = Ok(false);
                    break;
                }
            };
            if self.selection.is_everything()
                || self.selection.matches(&self.events.decode(&stored))
            {
                let before = chunk.len();
                self.events.write(&mut chunk, EventType::Added, &stored);
                self.counted.sent(chunk.len() - before);
            }
        }
        if !chunk.is_empty() {
            self.ready.push_back(chunk.into());
        }
        match outcome {
            Ok(true) => self.initial = Some(initial),
            Ok(false) => self.close_initial(),
            Err(error) => self.fail(&too_old(error)),
        }
    }

    /// Says that the initial state has been sent, if the client wants to know.
    fn close_initial(&mut self) {
        if self.closes {
            let end = self.events.bookmark(self.changes.progress(), true);
            self.push(end);
        }
    }

    /// Has a webhook convert as much of the initial state as goes well together, and writes it.
    async fn convert_initial(&mut self, mut initial: Initial) {
        let mut batch = Vec::new();
        while batch.len() < CONVERTED_TOGETHER {
            match initial.next().await {
                Some(Ok(stored)) => batch.push(stored),
                Some(Err(error)) => return self.fail(&too_old(error)),
                None => break,
            }
        }
        let is_last = batch.len() < CONVERTED_TOGETHER;
        let stored = match self.events.in_version(batch).await {
            Ok(stored) => stored,
            Err(status) => return self.fail(&status),
        };
        for item in stored {
            if self.selection.is_everything() || self.selection.matches(&self.events.decode(&item))
            {
                let mut event = Vec::new();
                self.events.write(&mut event, EventType::Added, &item);
                self.push(event.into());
            }
        }
        match is_last {
            true => self.close_initial(),
            false => self.initial = Some(initial),
        }
    }

    /// Has a webhook convert the objects of a change, and writes its event. A change that cannot
    /// be shown ends the watch, with the reason: a client that reads the collection is told the
    /// same.
    async fn convert_change(&mut self, change: Arc<Change>) {
        let converted = tokio::select! {
            biased;
            () = self.stopping.cancelled() => return self.ended = true,
            converted = self.events.convert(&change) => converted,
        };
        match converted {
            Ok(()) => self.write_change(&change),
            Err(status) => self.fail(&status),
        }
    }

    fn push(&mut self, event: Bytes) {
        self.counted.sent(event.len());
        self.ready.push_back(event);
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(self.with_more(bytes));
            }
            if let Some(change) = self.unconverted.pop_front() {
                self.convert_change(change).await;
                continue;
            }
            if self.ended {
                return None;
            }
            if let Some(initial) = self.initial.take() {
                self.go_on_with(initial).await;
                continue;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => self.finish(),
                () = &mut self.timer => self.tick(),
                batch = self.changes.next() => self.take(batch),
            }
        }
    }

    /// The event, and those that are there behind it: a client that is late
    /// catches up in few large steps.
    fn with_more(&mut self, first: Bytes) -> Bytes {
        let mut size = first.len();
        let mut count = 0;
        while size < CHUNK {
            if let Some(next) = self.ready.get(count) {
                size += next.len();
                count += 1;
            } else if !self.take_next() {
                break;
            }
        }
        if count == 0 {
            return first;
        }
        let mut chunk = Vec::with_capacity(size);
        chunk.extend_from_slice(&first);
        for bytes in self.ready.drain(..count) {
            chunk.extend_from_slice(&bytes);
        }
        chunk.into()
    }

    /// Takes in what has happened next, if anything has; whether it did.
    fn take_next(&mut self) -> bool {
        let waits = self.initial.is_some() || !self.unconverted.is_empty();
        !waits && self.take_any()
    }

    fn take_any(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let next = self.changes.next().now_or_never();
        let is_some = next.is_some();
        if let Some(batch) = next {
            self.take(batch);
        }
        is_some
    }

    /// Ends the watch after what has happened already.
    fn finish(&mut self) {
        while self.take_any() {}
        self.ended = true;
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if now >= self.deadline {
            self.ended = true;
            return;
        }
        if self.bookmarks {
            let bookmark = self.events.bookmark(self.changes.progress(), false);
            self.push(bookmark);
        }
        self.arm(now);
    }

    /// Sets the timer for the next bookmark, or for the end.
    fn arm(&mut self, now: Moment) {
        self.wake = self.deadline;
        if self.bookmarks {
            let last = Moment::START
                + (self
                    .deadline
                    .since(Moment::START)
                    .saturating_sub(LAST_BOOKMARK));
            let next = now + BOOKMARK_PERIOD;
            let next = if last > now { next.min(last) } else { next };
            self.wake = self.wake.min(next);
        }
        let (clock, wake) = (self.clock.clone(), self.wake);
        self.timer = Box::pin(async move { clock.sleep_until(wake).await });
    }

    fn take(&mut self, batch: Option<Result<Batch, Error>>) {
        let batch = match batch {
            Some(Ok(batch)) => batch,
            Some(Err(error)) => return self.fail(&too_old(error)),
            None => return self.ended = true,
        };
        if self.events.are_converted() {
            let changes = batch.changes.iter();
            let may_match = changes.filter(|change| self.selection.may_match(&change.key));
            self.unconverted.extend(may_match.cloned());
            return;
        }
        for change in batch.changes.iter() {
            self.write_change(change);
        }
    }

    fn write_change(&mut self, change: &Arc<Change>) {
        if let Some(kind) = self.event_type(change) {
            let event = self.events.of_change(kind, change);
            self.push(event);
        }
    }

    /// What a change is to this watch: coming into the selection adds, leaving it deletes.
    fn event_type(&self, change: &Arc<Change>) -> Option<EventType> {
        let (before, now) = if self.selection.is_everything() {
            (change.before.is_some(), change.now.is_some())
        } else if !self.selection.may_match(&change.key) {
            (false, false)
        } else {
            let chosen = |object: Option<Arc<Value>>| {
                object.is_some_and(|object| self.selection.matches(&object))
            };
            (
                chosen(self.events.before(change)),
                chosen(self.events.now(change)),
            )
        };
        match (before, now) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }

    /// Ends the watch with an error.
    fn fail(&mut self, status: &Status) {
        let failure = self.events.failure(status);
        self.unconverted.clear();
        self.push(failure);
        self.ended = true;
    }
}
