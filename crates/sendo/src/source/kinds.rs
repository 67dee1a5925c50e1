//! All kinds of the API at once, those to come included.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{AbortHandle, BoxStream, SelectAll, StreamExt, abortable};
use kube::core::{DynamicObject, PartialObjectMeta};
use tokio::sync::mpsc;

use super::{Item, Opening, Source, deliveries, from_task};
use crate::Event;
use crate::cache::{Cache, Index, IndexValue, KeepAlive, Selection};
use crate::discovery::served_kinds;
use crate::error::with_causes;
use crate::object::Kind;

/// The metadata of an object of any kind.
pub type AnyMeta = PartialObjectMeta<DynamicObject>;

/// How often discovery is read when nothing suggests a change.
const RESCAN: Duration = Duration::from_secs(300);

/// How often it is looked whether the kinds that are still waited for are worth it.
const LOOK: Duration = Duration::from_secs(1);

/// How soon discovery is read after a change of a CustomResourceDefinition or APIService.
const RESCAN_SOON: Duration = Duration::from_millis(200);

/// A watch of the metadata of every object there is, for controllers that care
/// for objects whatever their kind.
///
/// Kinds that appear later are watched within moments, kinds that go away are
/// watched no more. Those whose objects the program watches whole already are not
/// watched again. Each event names its kind; [`Reader::list_of`](crate::Reader::list_of)
/// reads the cached objects.
///
/// Which kinds that will be is not known before: the program declares that it may
/// read them all, with
/// [`.needs(Right::resource("*", "*", Verb::List | Verb::Watch))`](crate::Manager::needs).
///
/// The workers wait until all kinds there are have been listed. A kind that cannot
/// be listed for half a minute, as one whose conversion fails, is waited for no
/// longer: it goes on being tried, and its objects come when it can be.
pub fn every_kind() -> EveryKind {
    EveryKind {
        wanted: Arc::new(|_| true),
        prepare: Vec::new(),
    }
}

type Prepare = Box<dyn Fn(&Cache) + Send>;

/// See [`every_kind`].
pub struct EveryKind {
    wanted: Arc<dyn Fn(&Kind) -> bool + Send + Sync>,
    prepare: Vec<Prepare>,
}

impl std::fmt::Debug for EveryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EveryKind")
    }
}

impl EveryKind {
    /// Leaves out kinds.
    pub fn except(mut self, unwanted: impl Fn(&Kind) -> bool + Send + Sync + 'static) -> Self {
        let before = self.wanted;
        self.wanted = Arc::new(move |kind| before(kind) && !unwanted(kind));
        self
    }

    /// Keeps an index over the objects of each kind, whoever else watches it.
    pub fn index<V: IndexValue>(mut self, index: &'static Index<AnyMeta, V>) -> Self {
        self.prepare
            .push(Box::new(move |cache| cache.index_every(index)));
        self
    }
}

impl From<EveryKind> for Source<(Kind, Event<AnyMeta>)> {
    fn from(declared: EveryKind) -> Self {
        let mut source = Source::new("every kind", move |opening: Opening| {
            // Before the first event: a handler may look at any kind.
            for prepare in &declared.prepare {
                prepare(&opening.cache);
            }
            let (sender, receiver) = mpsc::channel(64);
            let world = opening.world.clone();
            let scan = Scan {
                declared,
                opening,
                open: BTreeMap::new(),
                streams: SelectAll::new(),
            };
            from_task(&world, "every kind", receiver, |_| scan.run(sender)).boxed()
        });
        source.is_of_any_kind = true;
        source
    }
}

/// Whether a change of an object of this kind may change which kinds there are.
fn defines_kinds(kind: &Kind) -> bool {
    matches!(&*kind.kind, "CustomResourceDefinition" | "APIService")
}

type Tagged = (Kind, Item<Event<AnyMeta>>);

struct Scan {
    declared: EveryKind,
    opening: Opening,
    open: BTreeMap<Kind, Open>,
    streams: SelectAll<BoxStream<'static, Tagged>>,
}

/// A kind that is watched, until it is let go of.
struct Open {
    /// Whether its initial list has been delivered.
    ready: bool,
    stream: AbortHandle,
    informer: KeepAlive<AnyMeta>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.stream.abort();
    }
}

impl Scan {
    async fn run(mut self, sender: mpsc::Sender<Item<(Kind, Event<AnyMeta>)>>) {
        let clock = self.opening.world.clock().clone();
        let (mut knows_kinds, mut said_ready) = (false, false);
        let mut rescan = Duration::ZERO;
        loop {
            let mut due = pin!(clock.sleep(rescan));
            let mut look = pin!(clock.sleep(LOOK));
            let mut soon = false;
            // Between two scans, pass on what the kinds now known deliver.
            loop {
                let tagged = tokio::select! {
                    biased;
                    () = &mut due => break,
                    Some(tagged) = self.streams.next() => Some(tagged),
                    () = &mut look, if knows_kinds && !said_ready => {
                        look.set(clock.sleep(LOOK));
                        None
                    }
                };
                match tagged {
                    Some((kind, Item::Ready)) => {
                        if let Some(open) = self.open.get_mut(&kind) {
                            open.ready = true;
                        }
                    }
                    Some((kind, Item::Event(event))) => {
                        // Not put off again by those that follow.
                        if !soon && defines_kinds(&kind) {
                            due.set(clock.sleep(RESCAN_SOON));
                            soon = true;
                        }
                        if sender.send(Item::Event((kind, event))).await.is_err() {
                            return;
                        }
                    }
                    None => {}
                }
                if !said_ready && self.is_ready() {
                    said_ready = true;
                    if sender.send(Item::Ready).await.is_err() {
                        return;
                    }
                }
            }
            rescan = match self.rescan().await {
                Ok(()) => {
                    knows_kinds = true;
                    RESCAN
                }
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(%error, "cannot find out which kinds the API serves");
                    Duration::from_secs(1)
                }
            };
        }
    }

    /// Whether every kind has been listed, or is not worth waiting for.
    fn is_ready(&self) -> bool {
        let now = self.opening.world.clock().now();
        let unlisted = || self.open.values().filter(|open| !open.ready);
        let state = |open: &Open| open.informer.informer().state();
        if !unlisted().all(|open| state(open).is_given_up(now)) {
            return false;
        }
        for open in unlisted() {
            tracing::warn!("begins without a kind: {}", state(open));
        }
        true
    }

    async fn rescan(&mut self) -> Result<(), kube::Error> {
        let mut served: Vec<Kind> = served_kinds(&self.opening.client)
            .await?
            .into_iter()
            .filter(|served| served.can("list") && served.can("watch"))
            .map(|served| served.kind)
            .collect();
        served.retain(|kind| (self.declared.wanted)(kind));
        self.open.retain(|kind, _| served.contains(kind));
        for kind in served {
            if self.open.contains_key(&kind) {
                continue;
            }
            let cache = &self.opening.cache;
            let keep_alive = cache.keep_alive::<AnyMeta>(kind.clone(), Selection::default());
            let informer = keep_alive.informer();
            informer.was_discovered();
            let latency = self.opening.metrics.event_latency(&kind);
            let items = deliveries(informer.subscribe(), latency);
            let named = kind.clone();
            let (tagged, stream) = abortable(items.map(move |item| (named.clone(), item)));
            self.streams.push(tagged.boxed());
            let open = Open {
                ready: false,
                stream,
                informer: keep_alive,
            };
            self.open.insert(kind, open);
        }
        Ok(())
    }
}
