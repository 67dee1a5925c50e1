//! Following a collection: what is there, then every change.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use sendo_apimachinery::Status;
use sendo_store::{At, Batch, Change, Error, KeyRange, Revision, Watch};
use sendo_world::{Clock, Moment, Stop};
use serde_json::Value;

use crate::answer::Answer;
use crate::body::Body;
use crate::call::{Call, backend};
use crate::event::{EventType, Events};
use crate::negotiate::Encoding;
use crate::options::ListOptions;
use crate::selection::Selection;
use crate::verbs::get;
use crate::view::Stored;

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
/// Events that are there at the same time travel together up to about this size.
const CHUNK: usize = 32 * 1024;

/// Streams the changes of what the selectors choose.
pub(crate) async fn watch(call: &Call<'_>) -> Result<Answer, Status> {
    let options = ListOptions::parse(&call.request.query, true)?;
    let mut selection = Selection::new(call.resource, &options)?;
    if let Some(name) = call.path.name.as_deref().filter(|_| call.path.watch) {
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
            return Ok(Answer::Stream(Body::stream(stream::iter([event]))));
        }
    };
    let clock = call.server.world.clock().clone();
    let now = clock.now();
    let deadline = now + lifetime(call, &options);
    let mut feed = Feed {
        events,
        selection,
        changes,
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
        ended: false,
    };
    feed.arm(now);
    if let Some(initial) = initial {
        feed.start(initial, closes_with_bookmark(&options));
    }
    let stream = stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((bytes, feed))
    });
    Ok(Answer::Stream(Body::stream(stream)))
}

/// What may be meant of what is there at the start, and the changes from there on.
async fn begin(
    call: &Call<'_>,
    options: &ListOptions,
    version: Revision,
    range: &KeyRange,
    selection: &Selection,
) -> Result<(Option<Vec<Stored>>, Watch), Status> {
    let store = &call.server.store;
    let since = call
        .resource
        .custom
        .as_ref()
        .map_or(Revision(0), |custom| custom.since);
    if version > Revision(0) && version < since {
        return Err(too_old(Error::Compacted {
            asked: version,
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
    let initial = page
        .entries
        .iter()
        .filter(|entry| selection.may_match(&entry.key))
        .map(|entry| Stored {
            value: entry.value.clone(),
            at: entry.modified,
        });
    Ok((Some(initial.collect()), changes))
}

fn too_old(error: Error) -> Status {
    match error {
        Error::Compacted { asked, oldest } => {
            Status::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        other => backend(other),
    }
}

/// Whether the initial state ends with a bookmark that says so.
fn closes_with_bookmark(options: &ListOptions) -> bool {
    let asked = options
        .send_initial_events
        .unwrap_or(matches!(options.resource_version.as_str(), "" | "0"));
    options.bookmarks && asked
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

/// One client's watch. It is driven by whoever reads its body, and ends with it.
struct Feed {
    events: Events,
    selection: Selection,
    changes: Watch,
    /// Events that are encoded and not yet read.
    ready: VecDeque<Bytes>,
    bookmarks: bool,
    deadline: Moment,
    /// When the timer fires: the next bookmark, or the end.
    wake: Moment,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    clock: Clock,
    stop: Stop,
    ended: bool,
}

impl Feed {
    /// Queues the initial state.
    fn start(&mut self, initial: Vec<Stored>, close: bool) {
        let mut chunk = Vec::new();
        for stored in &initial {
            if !self.selection.is_everything()
                && !self.selection.matches(&self.events.decode(stored))
            {
                continue;
            }
            self.events.write(&mut chunk, EventType::Added, stored);
            if chunk.len() >= CHUNK {
                self.ready.push_back(std::mem::take(&mut chunk).into());
            }
        }
        if !chunk.is_empty() {
            self.ready.push_back(chunk.into());
        }
        if close {
            self.ready
                .push_back(self.events.bookmark(self.changes.progress(), true));
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(self.with_more(bytes));
            }
            if self.ended {
                return None;
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
        while self.take_next() {}
        self.ended = true;
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if now >= self.deadline {
            self.ended = true;
            return;
        }
        if self.bookmarks {
            self.ready
                .push_back(self.events.bookmark(self.changes.progress(), false));
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
            Some(Err(error)) => return self.fail(error),
            None => return self.ended = true,
        };
        for change in batch.changes.iter() {
            if let Some(kind) = self.event_type(change) {
                self.ready.push_back(self.events.of_change(kind, change));
            }
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

    fn fail(&mut self, error: Error) {
        self.ready.push_back(self.events.failure(&too_old(error)));
        self.ended = true;
    }
}
