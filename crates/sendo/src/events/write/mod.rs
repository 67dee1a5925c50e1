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

/// How many events are on their way to the API server at once.
const AT_ONCE: usize = 16;

/// How often an event is tried, and how long to wait in between.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// How long what waits may take to be written after a stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long losses are gathered before the log tells of them in one line.
const SUMMARY: Duration = Duration::from_secs(10);

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
        on_their_way: BTreeMap::new(),
        losses: Losses::new(component, options.metrics),
    };
    let (stopping, clock) = (world.tasks().stopping().clone(), world.clock().clone());
    world.tasks().spawn("event recorder", async move {
        let deadline = async {
            stopping.cancelled().await;
            clock.sleep(LAST_WORDS).await;
        };
        let is_done = tokio::select! {
            biased;
            () = writer.run(&mut waiting) => true,
            () = deadline => false,
        };
        if !is_done {
            writer.give_up(waiting.len() as u64);
        }
        writer.losses.tell();
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
    /// The events of which a write is on its way, each with the newer state that
    /// waits behind it.
    on_their_way: BTreeMap<Id, OnItsWay>,
    losses: Losses,
}

struct OnItsWay {
    /// How many occurrences the write tells of.
    tells: u64,
    next: Option<Write>,
}

/// A request that may be sent again: it does the same once more.
struct Write {
    how: How,
    record: Record,
    /// How many occurrences nobody will hear of if it fails.
    tells: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Create,
    /// If the event is gone by now, it is created as it should be.
    Count,
}

impl Writer {
    /// Writes what comes; after a stop, what has come.
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
                    self.losses.tell();
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
        let how = match event.count {
            1 => How::Create,
            _ => How::Count,
        };
        if let Some(before) = self.on_their_way.get_mut(&id) {
            let tells = before.next.as_ref().map_or(0, |next| next.tells) + 1;
            before.next = Some(Write { how, record, tells });
            return None;
        }
        Some(self.send(
            id,
            Write {
                how,
                record,
                tells: 1,
            },
        ))
    }

    fn send(&mut self, id: Id, write: Write) -> (Id, Write) {
        let tells = write.tells;
        self.on_their_way
            .insert(id.clone(), OnItsWay { tells, next: None });
        (id, write)
    }

    /// What to write after a write has ended: what has been counted meanwhile.
    fn settle(&mut self, id: Id, ended: Ended) -> Option<(Id, Write)> {
        let next = self.on_their_way.remove(&id).and_then(|own| own.next);
        let Ended { how, failure } = ended;
        let Some(Failure { error, tells }) = failure else {
            return next.map(|next| self.send(id, next));
        };
        self.losses.failed(tells, &error);
        match (next, how) {
            // The event is not there to be counted up.
            (Some(next), How::Create) => {
                let anew = Write { how, ..next };
                Some(self.send(id, anew))
            }
            (Some(next), How::Count) => Some(self.send(id, next)),
            (None, How::Create) => {
                self.correlator.forget(&id);
                None
            }
            (None, How::Count) => None,
        }
    }

    /// The end has come: what is on its way and what waits is lost.
    fn give_up(&mut self, waiting: u64) {
        let own = |one: &OnItsWay| one.tells + one.next.as_ref().map_or(0, |next| next.tells);
        let on_their_way: u64 = self.on_their_way.values().map(own).sum();
        self.losses.stopped(waiting + on_their_way);
    }
}

/// How a write has ended.
struct Ended {
    how: How,
    failure: Option<Failure>,
}

struct Failure {
    error: Error,
    tells: u64,
}

/// Brings single writes to the API server.
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
                let tells = write.tells;
                break Some(Failure { error, tells });
            }
            attempt += 1;
            let pause = self.world.clock().sleep(PAUSE);
            stopping.run_until_cancelled(pause).await;
        };
        let how = write.how;
        Ended { how, failure }
    }

    async fn send(&self, write: &mut Write) -> Result<(), Error> {
        if write.how == How::Count {
            match write.record.update(&self.client).await {
                Err(error) if error.is_not_found() => write.how = How::Create,
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

/// What was lost, and what of it was logged.
struct Losses {
    component: String,
    metrics: EventMetrics,
    /// How many that found the queue full have been logged.
    told_full: u64,
    /// How many failures have not been logged.
    failed: u64,
    last_error: Option<String>,
    /// When to tell of them.
    due: Option<Moment>,
}

impl Losses {
    fn new(component: &str, metrics: EventMetrics) -> Self {
        Losses {
            component: component.to_owned(),
            told_full: metrics.queue_full.get(),
            metrics,
            failed: 0,
            last_error: None,
            due: None,
        }
    }

    fn failed(&mut self, events: u64, error: &Error) {
        self.metrics.failed.inc_by(events);
        // In a namespace that goes away nobody expects to read it.
        if !error.is_namespace_gone() {
            self.failed += events;
            self.last_error = Some(error.to_string());
        }
    }

    fn stopped(&mut self, events: u64) {
        self.metrics.failed.inc_by(events);
        self.failed += events;
        if events > 0 {
            let why = format!("not written within {LAST_WORDS:?} after the stop");
            self.last_error = Some(why);
        }
    }

    fn untold_full(&self) -> u64 {
        self.metrics.queue_full.get().saturating_sub(self.told_full)
    }

    /// Schedules the log line about losses.
    fn look(&mut self, now: Moment) {
        if self.due.is_none() && (self.failed > 0 || self.untold_full() > 0) {
            self.due = Some(now + SUMMARY);
        }
    }

    /// Tells of all losses since the last time, in one line.
    fn tell(&mut self) {
        let (queue_full, failed) = (self.untold_full(), self.failed);
        self.due = None;
        if queue_full == 0 && failed == 0 {
            return;
        }
        self.told_full += queue_full;
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
