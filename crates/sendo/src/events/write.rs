//! The task that writes events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sendo_world::World;
use tokio::sync::mpsc;

use super::correlate::{Correlator, Id, Verdict, Written};
use super::record::{Record, Reporter};
use super::{EventsApi, Occurrence};
use crate::client::{Client, Error};
use crate::election::hostname;

/// How often an event is tried, and how long to wait in between.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// How long what waits may take to be written after a stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(super) fn start(
    client: Client,
    world: &World,
    component: &str,
    api: EventsApi,
    waiting: mpsc::Receiver<Box<Occurrence>>,
    lost: Arc<AtomicU64>,
) {
    let writer = Writer {
        client,
        world: world.clone(),
        api,
        reporter: Reporter {
            component: component.to_owned(),
            instance: format!("{component}-{}", hostname()),
        },
        correlator: Correlator::default(),
        lost,
        last: 0,
    };
    let (stopping, clock) = (world.tasks().stopping().clone(), world.clock().clone());
    world.tasks().spawn("event recorder", async move {
        let deadline = async {
            stopping.cancelled().await;
            clock.sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            () = writer.run(waiting) => {}
            () = deadline => tracing::warn!("some events were not written before the end"),
        }
    });
}

struct Writer {
    client: Client,
    world: World,
    api: EventsApi,
    reporter: Reporter,
    correlator: Correlator,
    lost: Arc<AtomicU64>,
    /// The number in the last name given.
    last: u64,
}

/// A request that may be sent again: it does the same once more.
enum Write {
    Create(Record),
    /// If the event is gone by now, it is created as it should be.
    Count(Record),
}

impl Writer {
    /// Writes what comes; after a stop, what has come.
    async fn run(mut self, mut waiting: mpsc::Receiver<Box<Occurrence>>) {
        let stopping = self.world.tasks().stopping().clone();
        loop {
            let next = tokio::select! {
                biased;
                () = stopping.cancelled(), if !waiting.is_closed() => {
                    waiting.close();
                    continue;
                }
                next = waiting.recv() => next,
            };
            let Some(occurrence) = next else { return };
            self.write(&occurrence).await;
        }
    }

    async fn write(&mut self, occurrence: &Occurrence) {
        let (id, event, mut write) = match self.correlator.judge(occurrence) {
            Verdict::Drop => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Verdict::New { id, message } => self.creation(occurrence, id, message),
            Verdict::Again {
                id,
                message,
                written,
            } => self.count(occurrence, id, message, written),
        };
        for attempt in 1.. {
            let Err(error) = self.send(&mut write).await else {
                return self.correlator.written(id, event);
            };
            // What the server refuses it refuses again; what did not reach it may.
            let hopeless = !matches!(error, Error::Transport { .. });
            let stopping = self.world.tasks().stopping();
            if hopeless || attempt == ATTEMPTS || stopping.is_cancelled() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                // In a namespace that goes away nobody expects to read it.
                if !error.is_namespace_gone() {
                    let reason = &occurrence.reason;
                    tracing::warn!(%error, reason, "an event could not be written");
                }
                return;
            }
            let pause = self.world.clock().sleep(PAUSE);
            stopping.run_until_cancelled(pause).await;
        }
    }

    async fn send(&self, write: &mut Write) -> Result<(), Error> {
        if let Write::Count(record) = write {
            match record.update(&self.client).await {
                Err(error) if error.is_not_found() => *write = Write::Create(record.clone()),
                outcome => return outcome,
            }
        }
        let Write::Create(record) = write else {
            return Ok(());
        };
        match record.create(&self.client).await {
            // An earlier attempt had arrived after all: nobody else uses this name.
            Err(error) if error.is_already_exists() => Ok(()),
            outcome => outcome,
        }
    }

    fn creation(
        &mut self,
        occurrence: &Occurrence,
        id: Id,
        message: String,
    ) -> (Id, Written, Write) {
        let object = occurrence.about.name.as_deref().unwrap_or_default();
        let written = Written {
            name: format!("{object}.{:016x}", self.number(occurrence)),
            count: 1,
            first: occurrence.at,
        };
        let record = self.record(occurrence, &written, message);
        (id, written, Write::Create(record))
    }

    /// What tells the event from others about the same object: the time of it in
    /// nanoseconds, so that a list has them in their order. Below a millisecond
    /// chance decides, so that no two components choose the same.
    fn number(&mut self, occurrence: &Occurrence) -> u64 {
        const MILLISECOND: u64 = 1_000_000;
        let milliseconds = occurrence.at.as_millisecond().max(0).unsigned_abs();
        let number = milliseconds * MILLISECOND + self.world.random().below(0..MILLISECOND);
        self.last = number.max(self.last + 1);
        self.last
    }

    fn count(
        &self,
        occurrence: &Occurrence,
        id: Id,
        message: String,
        written: Written,
    ) -> (Id, Written, Write) {
        let record = self.record(occurrence, &written, message);
        (id, written, Write::Count(record))
    }

    fn record(&self, occurrence: &Occurrence, written: &Written, message: String) -> Record {
        Record::new(self.api, &self.reporter, occurrence, written, message)
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
