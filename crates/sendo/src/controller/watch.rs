//! The way of an event: source, predicate, handler, queue.

use std::panic::AssertUnwindSafe;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;
use tokio::sync::oneshot;

use super::Key;
use crate::error::{Undeclared, panic_message};
use crate::handler::Handler;
use crate::metrics::ControllerMetrics;
use crate::queue::{Add, Queue};
use crate::reader::{DeclaredRead, Reader};
use crate::source::{Item, Opening, Source};

/// A source and its handler, declared.
pub(crate) struct Watch<Q> {
    pub(crate) name: String,
    /// The kind it watches, if it watches one: that may be read too.
    pub(crate) read: Option<DeclaredRead>,
    /// Whether it watches kinds that are known only at run time.
    pub(crate) is_of_any_kind: bool,
    pump: Box<dyn FnOnce(Pump<Q>) -> BoxFuture<'static, ()> + Send>,
}

/// Where a watch's events go.
pub(crate) struct Pump<Q> {
    pub(crate) opening: Opening,
    pub(crate) reader: Reader,
    pub(crate) queue: Queue<Q>,
    pub(crate) metrics: ControllerMetrics,
    /// Told when the source has delivered what was there.
    pub(crate) ready: oneshot::Sender<()>,
}

impl<Q: Key> Watch<Q> {
    pub(crate) fn new<E: Send + 'static>(source: Source<E>, handler: Handler<E, Q>) -> Self {
        Watch {
            name: source.name().to_owned(),
            read: source.read.clone(),
            is_of_any_kind: source.is_of_any_kind,
            pump: Box::new(move |pump| Box::pin(run(source, handler, pump))),
        }
    }

    /// Opens the source now; the future then carries its events until it ends.
    pub(crate) fn start(self, pump: Pump<Q>) -> BoxFuture<'static, ()> {
        (self.pump)(pump)
    }
}

async fn run<E, Q: Key>(source: Source<E>, handler: Handler<E, Q>, pump: Pump<Q>) {
    let name = source.name().to_owned();
    let mut opened = source.open(pump.opening);
    let mut ready = Some(pump.ready);
    while let Some(item) = opened.items.next().await {
        let event = match item {
            Item::Event(event) => event,
            Item::Ready => {
                if let Some(ready) = ready.take() {
                    // A controller that has ended no longer waits for it.
                    let _ = ready.send(());
                }
                continue;
            }
        };
        // Predicates and handlers are the user's: a panic there costs one event, not the controller.
        let keys = AssertUnwindSafe(async {
            if !(opened.passes)(&event) {
                return Vec::new();
            }
            let (priority, reason) = (opened.urgency)(&event);
            let add = Add::because(reason).priority(priority);
            handler.keys(event, &pump.reader, add).await
        });
        match keys.catch_unwind().await {
            Ok(keys) => {
                for (key, add) in keys {
                    pump.queue.add(key, add);
                }
            }
            Err(panic) => {
                pump.metrics.handler_panicked();
                let message = panic_message(&*panic);
                match Undeclared::of_panic(&*panic) {
                    Some(_) => {
                        tracing::error!(source = %name, message, "a handler reads what is not declared; its event is skipped")
                    }
                    None => {
                        tracing::error!(source = %name, message, "a handler or predicate panicked; its event is skipped")
                    }
                }
            }
        }
    }
}
