//! The task that writes events.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sendo_world::World;
use serde_json::json;
use tokio::sync::mpsc;

use super::Occurrence;
use super::correlate::{Correlator, Verdict};
use crate::client::{Client, Error, Patch};
use crate::object::ObjectKey;

/// How often an event is tried, and how long to wait in between.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// How long what waits may take to be written after a stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(super) fn start(
    client: Client,
    world: &World,
    component: &str,
    mut waiting: mpsc::Receiver<Occurrence>,
) {
    let mut writer = Writer {
        client,
        world: world.clone(),
        component: component.to_owned(),
        correlator: Correlator::default(),
    };
    let stopping = world.tasks().stopping().clone();
    let work = async move {
        loop {
            let next = tokio::select! {
                biased;
                next = waiting.recv() => next,
                () = stopping.cancelled() => break,
            };
            let Some(occurrence) = next else {
                return;
            };
            writer.write(&occurrence).await;
        }
        waiting.close();
        let clock = writer.world.clock().clone();
        let rest = async {
            while let Some(occurrence) = waiting.recv().await {
                writer.write(&occurrence).await;
            }
        };
        if clock.timeout(LAST_WORDS, rest).await.is_none() {
            tracing::warn!("some events were not written before the end");
        }
    };
    world.tasks().spawn("event recorder", work);
}

struct Writer {
    client: Client,
    world: World,
    component: String,
    correlator: Correlator,
}

impl Writer {
    async fn write(&mut self, occurrence: &Occurrence) {
        for attempt in 1.. {
            let Err(error) = self.attempt(occurrence).await else {
                return;
            };
            // What the server refuses it refuses again; what did not reach it may.
            let hopeless = matches!(
                error,
                Error::Api(_) | Error::Codec { .. } | Error::Refused(_)
            );
            if hopeless || attempt == ATTEMPTS || self.world.tasks().stopping().is_cancelled() {
                let reason = &occurrence.reason;
                if !error.is_namespace_terminating() {
                    tracing::warn!(%error, reason, "an event could not be written");
                }
                return;
            }
            let stopping = self.world.tasks().stopping();
            stopping
                .run_until_cancelled(self.world.clock().sleep(PAUSE))
                .await;
        }
    }

    async fn attempt(&mut self, occurrence: &Occurrence) -> Result<(), Error> {
        match self.correlator.judge(occurrence) {
            Verdict::Drop => Ok(()),
            Verdict::New { id, message } => {
                let event = self.event(occurrence, message);
                let written = self.client.create(&event).await?;
                let name = written.metadata.name.unwrap_or_default();
                self.correlator.written(id, name);
                Ok(())
            }
            Verdict::Again {
                id,
                message,
                count,
                event,
            } => {
                let key = ObjectKey::namespaced(namespace_of(occurrence), &event);
                let more = json!({
                    "count": count,
                    "message": message,
                    "lastTimestamp": Time(occurrence.at),
                });
                match self.client.patch::<Event>(&key, Patch::Merge(more)).await {
                    Ok(_) => Ok(()),
                    Err(error) if error.is_not_found() => {
                        self.correlator.forget(&id);
                        let event = self.event(occurrence, message);
                        let written = self.client.create(&event).await?;
                        let name = written.metadata.name.unwrap_or_default();
                        self.correlator.written(id, name);
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn event(&self, occurrence: &Occurrence, message: String) -> Event {
        let name = occurrence.about.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:016x}", self.world.random().u64())),
                namespace: Some(namespace_of(occurrence).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: occurrence.about.clone(),
            type_: Some(occurrence.kind.as_str().to_owned()),
            reason: Some(occurrence.reason.clone()),
            message: Some(message),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: None,
            }),
            reporting_component: Some(self.component.clone()),
            first_timestamp: Some(Time(occurrence.at)),
            last_timestamp: Some(Time(occurrence.at)),
            count: Some(1),
            ..Event::default()
        }
    }
}

/// Events live beside their object; those of cluster-scoped ones in `default`.
fn namespace_of(occurrence: &Occurrence) -> &str {
    occurrence.about.namespace.as_deref().unwrap_or("default")
}
