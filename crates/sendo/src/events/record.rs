//! An event as it is written, in either of the two APIs that have events.

use k8s_openapi::api::core::v1::EventSource;
use k8s_openapi::api::{core, events};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde_json::{Value, json};

use super::correlate::Known;
use super::{EventsApi, Occurrence};
use crate::client::{Client, Error, Patch};
use crate::hostname::hostname;
use crate::object::ObjectKey;

/// The longest note and the longest name of a reporting instance that
/// `events.k8s.io` takes, in bytes (pkg/apis/core/validation/events.go).
const LONGEST_NOTE: usize = 1024;
const LONGEST_INSTANCE: usize = 128;

/// An event as it is to be.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Core(Box<core::v1::Event>),
    Series(Box<events::v1::Event>),
}

/// Who reports.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    component: String,
    instance: String,
}

impl Reporter {
    pub(super) fn new(component: &str) -> Self {
        Reporter {
            component: component.to_owned(),
            instance: cut(format!("{component}-{}", hostname()), LONGEST_INSTANCE),
        }
    }
}

impl Record {
    /// The Event of an occurrence that has happened `event.count` times.
    pub(super) fn new(
        api: EventsApi,
        by: &Reporter,
        occurrence: &Occurrence,
        event: &Known,
        message: String,
    ) -> Self {
        // Beside the object; those of cluster-scoped ones in `default`.
        let namespace = occurrence.about.namespace.as_deref().unwrap_or("default");
        let metadata = ObjectMeta {
            name: Some(event.name.clone()),
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
                first_timestamp: Some(Time(event.first)),
                last_timestamp: Some(Time(occurrence.at)),
                count: Some(event.count),
                ..core::v1::Event::default()
            })),
            EventsApi::Series => Record::Series(Box::new(events::v1::Event {
                metadata,
                regarding: Some(about),
                related: occurrence.related.clone(),
                type_: kind,
                reason,
                action: Some(occurrence.action.clone()),
                note: Some(cut(message, LONGEST_NOTE)),
                event_time: Some(MicroTime(event.first)),
                reporting_controller: Some(by.component.clone()),
                reporting_instance: Some(by.instance.clone()),
                // One is no series.
                series: (event.count > 1).then_some(events::v1::EventSeries {
                    count: event.count,
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
            // All else is immutable (pkg/apis/core/validation/events.go, ValidateEventUpdate).
            Record::Series(event) => json!({"series": event.series}),
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
                let key = ObjectKey::from_object(&**event);
                client.patch::<core::v1::Event>(&key, patch).await.map(drop)
            }
            Record::Series(event) => {
                let key = ObjectKey::from_object(&**event);
                client
                    .patch::<events::v1::Event>(&key, patch)
                    .await
                    .map(drop)
            }
        }
    }
}

/// As much of a text as fits, never half a character.
fn cut(mut text: String, longest: usize) -> String {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
