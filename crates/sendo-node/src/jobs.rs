//! Work of a node agent that takes a while: probes and hooks. It belongs to the agent's manager,
//! and is dropped when that stops.

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use sendo::{Runnable, everywhere};

type Job = BoxFuture<'static, ()>;

/// Where work is handed in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Jobs(UnboundedSender<Job>);

impl Jobs {
    /// Where work is handed in, and what carries it out.
    pub(crate) fn new() -> (Jobs, Runnable) {
        let (sender, receiver) = unbounded();
        (Jobs(sender), runnable(receiver))
    }

    /// Carries `job` out beside all others.
    pub(crate) fn add(&self, job: Job) {
        // A manager that stops does no more work.
        let _ = self.0.unbounded_send(job);
    }
}

fn runnable(jobs: UnboundedReceiver<Job>) -> Runnable {
    let work = jobs.for_each_concurrent(None, |job| job).boxed();
    everywhere("containers", move |cx| async move {
        cx.still_running(work).await;
        Ok(())
    })
}
