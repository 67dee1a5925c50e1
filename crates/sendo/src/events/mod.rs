//! The event recorder: writes Events about objects, which show people what a controller did.
//!
//! Recording never blocks and never fails a reconcile: events go into a bounded queue, and one task
//! writes them, several at a time. Equal events become one with a count, many similar ones are
//! combined, and a flood about one object is cut off, as Kubernetes' own components do it. Lost
//! events are counted in `sendo_events_dropped_total` and logged in summary.

mod correlate;
mod name;
mod record;
mod write;

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use sendo_world::{Moment, Timestamp, World};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::client::Client;
use crate::metrics::EventMetrics;

/// How many events wait to be written before more are dropped: enough for three
/// about each of five thousand objects that a start finds. One that waits takes
/// about 1 KB, so a full queue 16 MB; an empty one takes next to nothing.
const WAITING: usize = 16 * 1024;

/// The `type` of a Kubernetes Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventSeverity {
    /// As it should be.
    Normal,
    /// Something somebody should look at.
    Warning,
}

impl EventSeverity {
    fn as_str(self) -> &'static str {
        match self {
            EventSeverity::Normal => "Normal",
            EventSeverity::Warning => "Warning",
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

/// How events are recorded.
#[derive(Clone, Debug, Default)]
pub struct RecorderOptions {
    /// Which API they are written to; `v1` by default.
    pub api: EventsApi,
    /// Where losses are counted; shown nowhere by default.
    pub metrics: EventMetrics,
}

/// Records events of one component. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    component: String,
    /// Boxed: a queue allocates dozens at once, and most programs are quiet.
    queue: mpsc::Sender<Box<Occurrence>>,
    metrics: EventMetrics,
    world: World,
}

/// Something that happened once.
#[derive(Clone, Debug)]
struct Occurrence {
    about: ObjectReference,
    related: Option<ObjectReference>,
    kind: EventSeverity,
    reason: String,
    action: String,
    message: String,
    /// For people to read.
    at: Timestamp,
    /// To measure spans by.
    moment: Moment,
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
    /// Its task belongs to `world`. When that stops, waiting events are still written for 2 s;
    /// those that the API server has not accepted by then are lost.
    pub fn start(client: Client, world: &World, component: &str, options: RecorderOptions) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        let metrics = options.metrics.clone();
        write::start(client, world, component, options, waiting);
        Recorder {
            shared: Arc::new(Shared {
                component: component.to_owned(),
                queue,
                metrics,
                world: world.clone(),
            }),
        }
    }

    /// Records an event about an object. Never blocks and never fails: if more
    /// than 16,384 wait to be written the event is dropped and counted.
    pub fn event(
        &self,
        about: &ObjectReference,
        kind: EventSeverity,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.event_with(about, None, kind, reason, reason, message);
    }

    /// The same, with what was done (a word such as `Binding`; by default the reason) and a second
    /// object that was part of it. Both are written only to
    /// [`EventsApi::Series`].
    pub fn event_with(
        &self,
        about: &ObjectReference,
        related: Option<&ObjectReference>,
        kind: EventSeverity,
        reason: &str,
        action: &str,
        message: impl Into<String>,
    ) {
        let clock = self.shared.world.clock();
        let occurrence = Occurrence {
            about: about.clone(),
            related: related.cloned(),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: message.into(),
            at: clock.wall(),
            moment: clock.now(),
        };
        let metrics = &self.shared.metrics;
        match self.shared.queue.try_send(Box::new(occurrence)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => drop(metrics.queue_full.inc()),
            // The program has ended.
            Err(TrySendError::Closed(_)) => drop(metrics.failed.inc()),
        }
    }

    /// How many events will never be seen: too many waited to be written, one
    /// object caused too many, or the API server did not take them.
    pub fn lost(&self) -> u64 {
        self.shared.metrics.dropped()
    }
}
