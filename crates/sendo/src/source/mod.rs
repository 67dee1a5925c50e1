//! Where events come from: kinds of the API, channels, tickers, streams, functions.
//!
//! A source is a value. It is declared with a controller and opened when the
//! manager runs; it then delivers what is there already, says that this was all,
//! and goes on with what happens. The controller's workers start only when every
//! source has said so.

mod channel;
mod function;
mod kinds;

use std::fmt;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use prometheus_client::metrics::histogram::Histogram;
use sendo_world::{Stop, World};
use tokio::sync::mpsc;

use crate::Event;
use crate::cache::{Cache, Delivery, Namespaces, Selection, Subscription};
use crate::metrics::Registry;
use crate::object::{Kind, Object, ObjectExt, Typed};
use crate::predicate::Predicate;
use crate::queue::{Priority, Reason};
use crate::reader::{DeclaredRead, within};

pub use channel::{Closed, Sender, channel};
pub use function::{Output, Tick, function, ticker};
pub use kinds::{AnyMeta, EveryKind, every_kind};

/// What a source delivers.
#[derive(Debug)]
pub enum Item<E> {
    /// Something happened.
    Event(E),
    /// Everything that was there when the source was opened has been delivered.
    /// Said once.
    Ready,
}

/// A declared source of events of type `E`.
pub struct Source<E> {
    name: String,
    pub(crate) read: Option<DeclaredRead>,
    /// Whether it watches kinds that are known only at run time.
    pub(crate) is_of_any_kind: bool,
    passes: Box<dyn Fn(&E) -> bool + Send + Sync>,
    urgency: fn(&E) -> (Priority, Reason),
    open: Box<dyn FnOnce(Opening) -> BoxStream<'static, Item<E>> + Send>,
}

/// A source at work.
pub(crate) struct Opened<E> {
    /// What happens. Ends when the source has no more to say.
    pub(crate) items: BoxStream<'static, Item<E>>,
    /// Whether an event goes on to the handler. User code: it may panic.
    pub(crate) passes: Box<dyn Fn(&E) -> bool + Send + Sync>,
    /// How urgent an event is, and what it is called in the queue.
    pub(crate) urgency: fn(&E) -> (Priority, Reason),
}

/// What a source finds when it is opened.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) cache: Cache,
    pub(crate) client: kube::Client,
    pub(crate) world: World,
    pub(crate) metrics: Registry,
    /// The controller and the source, as metrics call them.
    pub(crate) name: String,
    /// The namespaces the program is confined to.
    pub(crate) namespaces: Namespaces,
    /// Whether the source can be taken away again while the program runs.
    pub(crate) removable: bool,
}

impl<E> Source<E> {
    pub(crate) fn new(
        name: impl Into<String>,
        open: impl FnOnce(Opening) -> BoxStream<'static, Item<E>> + Send + 'static,
    ) -> Self {
        Source {
            name: name.into(),
            read: None,
            is_of_any_kind: false,
            passes: Box::new(|_| true),
            urgency: |_| (Priority::NORMAL, Reason::EVENT),
            open: Box::new(open),
        }
    }

    /// The source under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Delivers only the events that pass, whatever their type. Those that
    /// passed before must pass this, too.
    pub fn when(mut self, passes: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self
    where
        E: 'static,
    {
        let before = self.passes;
        self.passes = Box::new(move |event| before(event) && passes(event));
        self
    }

    /// What the source is called in logs, metrics and printed declarations.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn open(self, opening: Opening) -> Opened<E> {
        Opened {
            items: (self.open)(opening),
            passes: self.passes,
            urgency: self.urgency,
        }
    }
}

impl<E> fmt::Debug for Source<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish()
    }
}

/// A watch of all objects of a kind.
///
/// All watches of one kind and selection in a manager share one informer.
pub fn kind<K: Typed>() -> KindSource<K> {
    KindSource {
        selection: Selection::default(),
        predicate: None,
    }
}

/// See [`kind`].
#[derive(Debug)]
pub struct KindSource<K> {
    selection: Selection,
    predicate: Option<Predicate<K>>,
}

impl<K: Typed> KindSource<K> {
    /// Delivers only the events that pass; several predicates must all pass.
    pub fn when(mut self, predicate: Predicate<K>) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(before) => before & predicate,
            None => predicate,
        });
        self
    }

    /// Watches only part of the kind. The rest is neither fetched nor cached.
    pub fn selecting(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }
}

impl<K: Typed> From<KindSource<K>> for Source<Event<K>> {
    fn from(declared: KindSource<K>) -> Self {
        let kind = Kind::of::<K>();
        let KindSource {
            selection,
            predicate,
        } = declared;
        let read = DeclaredRead::new::<K>(selection.clone());
        let mut source = Source::new(kind.to_string(), move |opening: Opening| {
            let selection = within::<K>(&selection, &opening.namespaces);
            if opening.removable {
                let keep_alive = opening.cache.keep_alive::<K>(kind, selection);
                let latency = opening.metrics.event_latency(keep_alive.informer().kind());
                let events = deliveries(keep_alive.informer().subscribe(), latency);
                // What is watched for this source alone is watched as long as it is there.
                return events
                    .inspect(move |_| {
                        let _kept = &keep_alive;
                    })
                    .boxed();
            }
            let informer = opening.cache.informer::<K>(kind, selection);
            let latency = opening.metrics.event_latency(informer.kind());
            deliveries(informer.subscribe(), latency)
        });
        source.read = Some(read);
        source.urgency = urgency;
        if let Some(predicate) = predicate {
            source.passes = Box::new(move |event| predicate.passes(event));
        }
        source
    }
}

/// What was there at the start, and what did not change, can wait behind real news.
fn urgency<K: Object>(event: &Event<K>) -> (Priority, Reason) {
    match event {
        Event::Created { initial: true, .. } => (Priority::LOW, Reason::INITIAL),
        Event::Updated { old, new } if old.version() == new.version() => {
            (Priority::LOW, Reason::RESYNC)
        }
        _ => (Priority::NORMAL, Reason::EVENT),
    }
}

fn deliveries<K: Object>(
    subscription: Subscription<K>,
    latency: Histogram,
) -> BoxStream<'static, Item<Event<K>>> {
    let next = |(mut subscription, latency): (Subscription<K>, Histogram)| async {
        let item = match subscription.next().await? {
            Delivery::Event(event) => {
                latency.observe(subscription.waited().as_secs_f64());
                Item::Event(event)
            }
            Delivery::Synced => Item::Ready,
        };
        Some((item, (subscription, latency)))
    };
    stream::unfold((subscription, latency), next).boxed()
}

/// What a task sends, as a stream. The task ends with the controller, or when the
/// source is taken away: when the stream is dropped. `work` is given what it is
/// stopped by.
fn from_task<T, F>(
    world: &World,
    name: &str,
    mut receiver: mpsc::Receiver<T>,
    work: impl FnOnce(Stop) -> F,
) -> impl Stream<Item = T> + Send + 'static
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let stop = world.tasks().stopping().child_token();
    let (work, stopping) = (work(stop.clone()), stop.clone());
    world.tasks().spawn(name, async move {
        stopping.run_until_cancelled(work).await;
    });
    let wanted = stop.drop_guard();
    stream::poll_fn(move |cx| {
        let _kept = &wanted;
        receiver.poll_recv(cx)
    })
}

/// Events from any stream. The source is ready at once; when the stream ends, so does the source.
pub fn from_stream<E: Send + 'static>(
    name: &str,
    events: impl Stream<Item = E> + Send + 'static,
) -> Source<E> {
    Source::new(name, move |_| ready_then(events))
}

/// Events from a stream that itself says when all that was there has been
/// delivered: the controller's workers wait for its [`Item::Ready`].
pub fn from_items<E: Send + 'static>(
    name: &str,
    items: impl Stream<Item = Item<E>> + Send + 'static,
) -> Source<E> {
    Source::new(name, move |_| items.boxed())
}

fn ready_then<E: Send + 'static>(
    events: impl Stream<Item = E> + Send + 'static,
) -> BoxStream<'static, Item<E>> {
    stream::iter([Item::Ready])
        .chain(events.map(Item::Event))
        .boxed()
}
