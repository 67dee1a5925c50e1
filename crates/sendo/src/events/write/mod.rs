//! The task that writes events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use sendo_world::{Moment, World};
use tokio::sync::mpsc;

use super::correlate::{Correlator, Id, ToWrite};
use super::name::Names;
use super::record::{Record, Reporter};
use super::{EventsApi, Occurrence, RecorderOptions};
use crate::client::{Client, Error};
use crate::metrics::EventMetrics;

/// The maximum number of events that are written at once.
const AT_ONCE: usize = 16;

/// How often an event is tried, and how long to wait in between.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// How long events that wait may take to be written after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval in which lost events are summed up in one log line.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn start(
    client: Client,
    world: &World,
    component: &str,
    options: RecorderOptions,
    mut waiting: mpsc::Receiver<Box<Occurrence>>,
) {
    let mut writer = Writer {
        delivery: Arc::new(Delivery {
            client,
            world: world.clone(),
        }),
        world: world.clone(),
        api: options.api,
        reporter: Reporter::new(component),
        correlator: Correlator::default(),
        names: Names::new(world.random().clone()),
        in_flight: BTreeMap::new(),
        losses: Losses::new(component, options.metrics),
    };
    let (stopping, clock) = (world.tasks().stopping().clone(), world.clock().clone());
    world.tasks().spawn("event recorder", async move {
        let deadline = async {
            stopping.cancelled().await;
            clock.sleep(STOP_TIMEOUT).await;
        };
        let is_done = tokio::select! {
            biased;
            () = writer.run(&mut waiting) => true,
            () = deadline => false,
        };
        if !is_done {
            writer.give_up(waiting.len() as u64);
        }
        writer.losses.log_summary();
    });
}

/// Decides what is written, and keeps the writes of one event in their order.
struct Writer {
    delivery: Arc<Delivery>,
    world: World,
    api: EventsApi,
    reporter: Reporter,
    correlator: Correlator,
    names: Names,
    /// The events that are being written, each with the newer state that waits behind that write.
    in_flight: BTreeMap<Id, InFlight>,
    losses: Losses,
}

struct InFlight {
    /// The number of occurrences that the write reports.
    occurrences: u64,
    next: Option<Write>,
}

/// A request that may be sent again: it does the same once more.
struct Write {
    operation: Operation,
    record: Record,
    /// The number of occurrences that are lost if it fails.
    occurrences: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Create,
    /// If the event does not exist any more, it is created.
    Count,
}

impl Writer {
    /// Writes events as they arrive; after a stop, those that have arrived.
    async fn run(&mut self, waiting: &mut mpsc::Receiver<Box<Occurrence>>) {
        let (stopping, clock) = (
            self.world.tasks().stopping().clone(),
            self.world.clock().clone(),
        );
        let mut writes = FuturesUnordered::new();
        let mut more_to_come = true;
        while more_to_come || !writes.is_empty() {
            self.losses.look(clock.now());
            let summary = self.losses.due;
            let write = tokio::select! {
                biased;
                () = stopping.cancelled(), if !waiting.is_closed() => {
                    waiting.close();
                    None
                }
                Some((id, ended)) = writes.next(), if !writes.is_empty() => self.settle(id, ended),
                () = clock.sleep_until(summary.unwrap_or(Moment::START)), if summary.is_some() => {
                    self.losses.log_summary();
                    None
                }
                next = waiting.recv(), if more_to_come && writes.len() < AT_ONCE => {
                    more_to_come = next.is_some();
                    next.and_then(|occurrence| self.take_up(&occurrence))
                }
            };
            if let Some((id, write)) = write {
                let delivery = self.delivery.clone();
                writes.push(async move { (id, delivery.deliver(write).await) });
            }
        }
    }

    /// What to write for an occurrence, if its event is not on its way already.
    fn take_up(&mut self, occurrence: &Occurrence) -> Option<(Id, Write)> {
        let names = &mut self.names;
        let object = occurrence.about.name.as_deref().unwrap_or_default();
        let name = || names.name(object, occurrence.at);
        let Some(ToWrite { id, message, event }) = self.correlator.correlate(occurrence, name)
        else {
            self.losses.metrics.flood.inc();
            return None;
        };
        let record = Record::new(self.api, &self.reporter, occurrence, &event, message);
        let operation = match event.count {
            1 => Operation::Create,
            _ => Operation::Count,
        };
        if let Some(before) = self.in_flight.get_mut(&id) {
            let occurrences = before.next.as_ref().map_or(0, |next| next.occurrences) + 1;
            before.next = Some(Write {
                operation,
                record,
                occurrences,
            });
            return None;
        }
        Some(self.send(
            id,
            Write {
                operation,
                record,
                occurrences: 1,
            },
        ))
    }

    fn send(&mut self, id: Id, write: Write) -> (Id, Write) {
        let occurrences = write.occurrences;
        self.in_flight.insert(
            id.clone(),
            InFlight {
                occurrences,
                next: None,
            },
        );
        (id, write)
    }

    /// The next write after one has ended: the state that was counted meanwhile.
    fn settle(&mut self, id: Id, ended: Ended) -> Option<(Id, Write)> {
        let next = self.in_flight.remove(&id).and_then(|own| own.next);
        let Ended { operation, failure } = ended;
        let Some(Failure { error, occurrences }) = failure else {
            return next.map(|next| self.send(id, next));
        };
        self.losses.failed(occurrences, &error);
        match (next, operation) {
            // The event does not exist, so its count cannot be updated.
            (Some(next), Operation::Create) => {
                let anew = Write { operation, ..next };
                Some(self.send(id, anew))
            }
            (Some(next), Operation::Count) => Some(self.send(id, next)),
            (None, Operation::Create) => {
                self.correlator.forget(&id);
                None
            }
            (None, Operation::Count) => None,
        }
    }

    /// Counts the events that are still in flight or waiting as lost.
    fn give_up(&mut self, waiting: u64) {
        let own =
            |one: &InFlight| one.occurrences + one.next.as_ref().map_or(0, |next| next.occurrences);
        let in_flight: u64 = self.in_flight.values().map(own).sum();
        self.losses.stopped(waiting + in_flight);
    }
}

/// The result of a write.
struct Ended {
    operation: Operation,
    failure: Option<Failure>,
}

struct Failure {
    error: Error,
    occurrences: u64,
}

/// Sends single writes to the API server.
struct Delivery {
    client: Client,
    world: World,
}

impl Delivery {
    async fn deliver(&self, mut write: Write) -> Ended {
        let stopping = self.world.tasks().stopping();
        let mut attempt = 1;
        let failure = loop {
            let Err(error) = self.send(&mut write).await else {
                break None;
            };
            if !is_passing(&error) || attempt == ATTEMPTS || stopping.is_cancelled() {
                let occurrences = write.occurrences;
                break Some(Failure { error, occurrences });
            }
            attempt += 1;
            let pause = self.world.clock().sleep(PAUSE);
            stopping.run_until_cancelled(pause).await;
        };
        let operation = write.operation;
        Ended { operation, failure }
    }

    async fn send(&self, write: &mut Write) -> Result<(), Error> {
        if write.operation == Operation::Count {
            match write.record.update(&self.client).await {
                Err(error) if error.is_not_found() => write.operation = Operation::Create,
                outcome => return outcome,
            }
        }
        match write.record.create(&self.client).await {
            // An earlier attempt had arrived after all: nobody else uses this name.
            Err(error) if error.is_already_exists() => Ok(()),
            outcome => outcome,
        }
    }
}

/// What the server refuses it refuses again; what did not reach it, or met it
/// too busy or broken, may not be refused.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Transport { .. }) || error.code() == 429 || error.code() >= 500
}

/// Counts lost events, and logs them in summary.
struct Losses {
    component: String,
    metrics: EventMetrics,
    /// The number of events dropped because of a full queue that were logged.
    logged_full: u64,
    /// The number of failures that were not logged yet.
    failed: u64,
    last_error: Option<String>,
    /// When to log the next summary.
    due: Option<Moment>,
}

impl Losses {
    fn new(component: &str, metrics: EventMetrics) -> Self {
        Losses {
            component: component.to_owned(),
            logged_full: metrics.queue_full.get(),
            metrics,
            failed: 0,
            last_error: None,
            due: None,
        }
    }

    fn failed(&mut self, events: u64, error: &Error) {
        self.metrics.failed.inc_by(events);
        // In a namespace that is being deleted, the event would be deleted too.
        if !error.is_namespace_gone() {
            self.failed += events;
            self.last_error = Some(error.to_string());
        }
    }

    fn stopped(&mut self, events: u64) {
        self.metrics.failed.inc_by(events);
        self.failed += events;
        if events > 0 {
            let why = format!("not written within {STOP_TIMEOUT:?} after the stop");
            self.last_error = Some(why);
        }
    }

    fn unlogged_full(&self) -> u64 {
        self.metrics
            .queue_full
            .get()
            .saturating_sub(self.logged_full)
    }

    /// Schedules the log line about losses.
    fn look(&mut self, now: Moment) {
        if self.due.is_none() && (self.failed > 0 || self.unlogged_full() > 0) {
            self.due = Some(now + SUMMARY_INTERVAL);
        }
    }

    /// Logs all losses since the last summary in one line.
    fn log_summary(&mut self) {
        let (queue_full, failed) = (self.unlogged_full(), self.failed);
        self.due = None;
        if queue_full == 0 && failed == 0 {
            return;
        }
        self.logged_full += queue_full;
        self.failed = 0;
        let last_error = self.last_error.take().unwrap_or_default();
        tracing::warn!(
            component = %self.component,
            queue_full,
            failed,
            last_error,
            "events were lost: they will not be seen"
        );
    }
}

#[cfg(test)]
mod tests;
