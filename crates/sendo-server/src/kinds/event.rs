//! Events, which two API groups serve from one store.

use serde_json::{Map, Value};

use super::value::{Read, Write, with_api_version};
use super::{NAMESPACE, Rules, UnknownFields};

const CORE: &str = "v1";
const EVENTS: &str = "events.k8s.io/v1";

/// What `v1` and `events.k8s.io/v1` call one field.
const RENAMED: [(&str, &str); 6] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("source", "deprecatedSource"),
];
const REPORTER: (&str, &str) = ("reportingComponent", "reportingController");

/// Events of `v1`.
pub(super) const RULES: Rules = Rules {
    selectable_fields: &[
        NAMESPACE,
        ("involvedObject.kind", |event| involved(event, "kind")),
        ("involvedObject.namespace", |event| {
            involved(event, "namespace")
        }),
        ("involvedObject.name", |event| involved(event, "name")),
        ("involvedObject.uid", |event| involved(event, "uid")),
        ("involvedObject.apiVersion", |event| {
            involved(event, "apiVersion")
        }),
        ("involvedObject.resourceVersion", |event| {
            involved(event, "resourceVersion")
        }),
        ("involvedObject.fieldPath", |event| {
            involved(event, "fieldPath")
        }),
        ("reason", |event| event.text("reason").to_owned()),
        ("reportingComponent", |event| {
            event.text("reportingComponent").to_owned()
        }),
        ("source", source),
        ("type", |event| event.text("type").to_owned()),
    ],
    unknown_fields: UnknownFields::NotSupported,
    create_on_update: true,
    convert,
    ..Rules::NEUTRAL
};

/// Events of `events.k8s.io/v1`: the same objects, whose fields have other names.
pub(super) const EVENTS_RULES: Rules = Rules {
    selectable_fields: &[
        NAMESPACE,
        ("regarding.kind", |event| involved(event, "kind")),
        ("regarding.namespace", |event| involved(event, "namespace")),
        ("regarding.name", |event| involved(event, "name")),
        ("regarding.uid", |event| involved(event, "uid")),
        ("regarding.apiVersion", |event| {
            involved(event, "apiVersion")
        }),
        ("regarding.resourceVersion", |event| {
            involved(event, "resourceVersion")
        }),
        ("regarding.fieldPath", |event| involved(event, "fieldPath")),
        ("reason", |event| event.text("reason").to_owned()),
        ("reportingController", |event| {
            event.text("reportingComponent").to_owned()
        }),
        ("type", |event| event.text("type").to_owned()),
    ],
    ..RULES
};

fn involved(event: &Value, key: &str) -> String {
    event.at("involvedObject").text(key).to_owned()
}

fn source(event: &Value) -> String {
    match event.at("source").text("component") {
        "" => event.text("reportingComponent").to_owned(),
        component => component.to_owned(),
    }
}

fn convert(event: &Value, from: &str, to: &str) -> Value {
    let names = || RENAMED.into_iter().chain([REPORTER]);
    match (from, to) {
        (CORE, EVENTS) => renamed(event, to, names().collect()),
        (EVENTS, CORE) => renamed(
            event,
            to,
            names().map(|(core, events)| (events, core)).collect(),
        ),
        _ => with_api_version(event, to),
    }
}

fn renamed(event: &Value, api_version: &str, names: Vec<(&str, &str)>) -> Value {
    let name = |key: &str| {
        let renamed = names.iter().find(|(from, _)| *from == key);
        renamed.map_or(key, |(_, to)| to).to_owned()
    };
    let members = event.as_object().into_iter().flatten();
    let mut out: Value = members
        .map(|(key, value)| (name(key), value.clone()))
        .collect::<Map<_, _>>()
        .into();
    out.set("apiVersion", api_version);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_groups_show_one_event_under_their_own_names() {
        let core = json!({"apiVersion": CORE, "involvedObject": {"name": "p"}, "message": "m", "reportingComponent": "c"});
        let events = json!({"apiVersion": EVENTS, "regarding": {"name": "p"}, "note": "m", "reportingController": "c"});
        assert_eq!(convert(&core, CORE, EVENTS), events);
        assert_eq!(convert(&events, EVENTS, CORE), core);
    }
}
