//! An event as it is written, in either of the two APIs that have events.

use k8s_openapi::api::core::v1::EventSource;
use k8s_openapi::api::{core, events};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde_json::{Value, json};

use super::correlate::Written;
use super::{EventsApi, Occurrence};
use crate::client::{Client, Error, Patch};
use crate::object::ObjectKey;

/// The longest note that `events.k8s.io` takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// An event as it is to be.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Core(Box<core::v1::Event>),
    Series(Box<events::v1::Event>),
}

/// Who reports.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) component: String,
    pub(super) instance: String,
}

impl Record {
    /// The event that tells of an occurrence which has happened `written.count` times.
    pub(super) fn new(
        api: EventsApi,
        by: &Reporter,
        occurrence: &Occurrence,
        written: &Written,
        message: String,
    ) -> Self {
        // Beside the object; those of cluster-scoped ones in `default`.
        let namespace = occurrence.about.namespace.as_deref().unwrap_or("default");
        let metadata = ObjectMeta {
            name: Some(written.name.clone()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        let about = occurrence.about.clone();
        let kind = Some(occurrence.kind.as_str().to_owned());
        let reason = Some(occurrence.reason.clone());
        match api {
            EventsApi::Core => Record::Core(Box::new(core::v1::Event {
                metadata,
                involved_object: about,
                type_: kind,
                reason,
                message: Some(message),
                source: Some(EventSource {
                    component: Some(by.component.clone()),
                    host: None,
                }),
                reporting_component: Some(by.component.clone()),
                first_timestamp: Some(Time(written.first)),
                last_timestamp: Some(Time(occurrence.at)),
                count: Some(written.count),
                ..core::v1::Event::default()
            })),
            EventsApi::Series => Record::Series(Box::new(events::v1::Event {
                metadata,
                regarding: Some(about),
                related: occurrence.related.clone(),
                type_: kind,
                reason,
                action: Some(occurrence.action.clone()),
                note: Some(cut(message)),
                event_time: Some(MicroTime(written.first)),
                reporting_controller: Some(by.component.clone()),
                reporting_instance: Some(by.instance.clone()),
                // One is no series.
                series: (written.count > 1).then_some(events::v1::EventSeries {
                    count: written.count,
                    last_observed_time: MicroTime(occurrence.at),
                }),
                ..events::v1::Event::default()
            })),
        }
    }

    /// What to change of the event as it was written for fewer.
    fn count(&self) -> Value {
        match self {
            Record::Core(event) => json!({
                "count": event.count,
                "message": event.message,
                "lastTimestamp": event.last_timestamp,
            }),
            Record::Series(event) => json!({"note": event.note, "series": event.series}),
        }
    }

    pub(super) async fn create(&self, client: &Client) -> Result<(), Error> {
        match self {
            Record::Core(event) => client.create(&**event).await.map(drop),
            Record::Series(event) => client.create(&**event).await.map(drop),
        }
    }

    pub(super) async fn update(&self, client: &Client) -> Result<(), Error> {
        let patch = Patch::Merge(self.count());
        match self {
            Record::Core(event) => {
                let key = ObjectKey::of(&**event);
                client.patch::<core::v1::Event>(&key, patch).await.map(drop)
            }
            Record::Series(event) => {
                let key = ObjectKey::of(&**event);
                client
                    .patch::<events::v1::Event>(&key, patch)
                    .await
                    .map(drop)
            }
        }
    }
}

/// As much of a note as fits, never half a character.
fn cut(mut note: String) -> String {
    let mut end = LONGEST_NOTE.min(note.len());
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
    note
}
