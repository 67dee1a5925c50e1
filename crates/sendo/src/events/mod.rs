//! The event recorder: tells people what a controller did, beside the object it did it to.
//!
//! Recording never blocks and never fails a reconcile: events go into a bounded
//! queue, and one task writes them. Equal events become one with a count, many
//! similar ones are combined, and a flood about one object is cut off, as
//! Kubernetes' own components do it.

mod correlate;
mod record;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use sendo_world::{Timestamp, World};
use tokio::sync::mpsc;

use crate::client::Client;

/// How many events wait to be written before more are dropped.
const WAITING: usize = 1000;

/// What kind of news an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Something somebody should look at.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// Which of the two APIs that have events is written to. What is written to one
/// can be read from the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventsApi {
    /// `v1`: repeated events have a count. What most tools show best.
    #[default]
    Core,
    /// `events.k8s.io/v1`: repeated events are a series; an event can name a
    /// second object and what was done.
    Series,
}

/// Records events of one component. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    component: String,
    /// Boxed: a queue keeps room for dozens, and most programs are quiet.
    queue: mpsc::Sender<Box<Occurrence>>,
    lost: Arc<AtomicU64>,
    world: World,
}

/// Something that happened once.
#[derive(Clone, Debug)]
struct Occurrence {
    about: ObjectReference,
    related: Option<ObjectReference>,
    kind: EventType,
    reason: String,
    action: String,
    message: String,
    at: Timestamp,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("component", &self.shared.component)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder that writes through `client` in the name of `component`.
    ///
    /// Its task belongs to `world`. When that is asked to stop, what waits is
    /// still written, for 2 s; what the API server has not taken by then is lost.
    pub fn start(client: Client, world: &World, component: &str, api: EventsApi) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        write::start(client, world, component, api, waiting, lost.clone());
        Recorder {
            shared: Arc::new(Shared {
                component: component.to_owned(),
                queue,
                lost,
                world: world.clone(),
            }),
        }
    }

    /// Records an event about an object. Never blocks and never fails: if too
    /// many wait to be written the event is dropped and counted.
    pub fn event(
        &self,
        about: &ObjectReference,
        kind: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.event_with(about, None, kind, reason, reason, message);
    }

    /// The same, with what was done (a word such as `Binding`; the reason unless
    /// told) and a second object that was part of it. Both are written only to
    /// [`EventsApi::Series`].
    pub fn event_with(
        &self,
        about: &ObjectReference,
        related: Option<&ObjectReference>,
        kind: EventType,
        reason: &str,
        action: &str,
        message: impl Into<String>,
    ) {
        let occurrence = Occurrence {
            about: about.clone(),
            related: related.cloned(),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: message.into(),
            at: self.shared.world.clock().wall(),
        };
        if self.shared.queue.try_send(Box::new(occurrence)).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            let component = &self.shared.component;
            tracing::warn!(
                component,
                reason,
                "an event is lost: too many wait to be written"
            );
        }
    }

    /// How many events will never be seen: too many waited to be written, one
    /// object caused too many, or the API server did not take them.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}
