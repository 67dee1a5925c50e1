//! Sources that come and go while a controller runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sendo_world::Stop;
use tokio::sync::mpsc;

use super::Key;
use super::watch::Watch;
use crate::handler::Handler;
use crate::source::Source;

/// A handle to add sources to a controller that runs, and to take them away
/// again. Made before the controller, and given to it with `watches_also`, and to no
/// other; cheap to clone, so that a reconcile can hold it.
///
/// What is added before the controller runs starts with it. Sources added later
/// do not make the workers wait. A kind that is watched for a removed source
/// alone is watched no more, and its memory is free.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use sendo::controller::Watches;
/// use sendo::{Action, Context, Controller, ObjectKey, Result, handler, source};
///
/// let watches = Watches::new();
/// let more = watches.clone();
/// let controller = Controller::new::<ConfigMap>().watches_also(&watches).reconcile(
///     move |_: Arc<ConfigMap>, _: Context| {
///         let more = more.clone();
///         async move {
///             let secrets = more.add(source::kind::<Secret>(), handler::object());
///             more.remove(secrets);
///             Ok(Action::done())
///         }
///     },
/// );
/// ```
pub struct Watches<Q> {
    shared: Arc<Shared<Q>>,
}

struct Shared<Q> {
    orders: mpsc::UnboundedSender<Order<Q>>,
    /// Taken by the controller when it runs.
    waiting: Mutex<Option<mpsc::UnboundedReceiver<Order<Q>>>>,
    next: AtomicU64,
}

/// Names a source that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

pub(super) enum Order<Q> {
    Add(WatchId, Box<Watch<Q>>),
    Remove(WatchId),
}

impl<Q> Clone for Watches<Q> {
    fn clone(&self) -> Self {
        Watches {
            shared: self.shared.clone(),
        }
    }
}

impl<Q> fmt::Debug for Watches<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watches")
    }
}

impl<Q: Key> Default for Watches<Q> {
    fn default() -> Self {
        Watches::new()
    }
}

impl<Q: Key> Watches<Q> {
    /// A handle without any sources yet.
    pub fn new() -> Self {
        let (orders, waiting) = mpsc::unbounded_channel();
        Watches {
            shared: Arc::new(Shared {
                orders,
                waiting: Mutex::new(Some(waiting)),
                next: AtomicU64::new(0),
            }),
        }
    }

    /// Adds a source. A kind it watches cannot be read by the reconcile, which
    /// declares what it reads beforehand.
    pub fn add<E: Send + 'static>(
        &self,
        source: impl Into<Source<E>>,
        handler: Handler<E, Q>,
    ) -> WatchId {
        let id = WatchId(self.shared.next.fetch_add(1, Ordering::Relaxed));
        self.order(Order::Add(id, Box::new(Watch::new(source.into(), handler))));
        id
    }

    /// Takes a source away. Events that have come from it are still handled.
    /// Does nothing if it is gone already.
    pub fn remove(&self, id: WatchId) {
        self.order(Order::Remove(id));
    }

    fn order(&self, order: Order<Q>) {
        // A controller that has ended watches nothing anyway.
        let _ = self.shared.orders.send(order);
    }

    /// A number that this handle and its clones have, and no other.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// What is ordered, for the one controller that runs with it.
    pub(super) fn take(&self) -> Option<mpsc::UnboundedReceiver<Order<Q>>> {
        let mut waiting = self.shared.waiting.lock();
        waiting.take()
    }
}

/// Carries out orders until the controller stops. `start` starts a watch that
/// ends with the given signal.
pub(super) async fn carry_out<Q: Key>(
    mut orders: mpsc::UnboundedReceiver<Order<Q>>,
    stopping: Stop,
    mut start: impl FnMut(Watch<Q>, Stop),
) {
    let mut running = BTreeMap::new();
    while let Some(Some(order)) = stopping.run_until_cancelled(orders.recv()).await {
        match order {
            Order::Add(id, watch) => {
                let stop = stopping.child_token();
                start(*watch, stop.clone());
                running.insert(id, stop);
            }
            Order::Remove(id) => {
                if let Some(stop) = running.remove(&id) {
                    stop.cancel();
                }
            }
        }
    }
}
