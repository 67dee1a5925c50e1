//! Rules of Events, which the core group and `events.k8s.io` serve from the same stored objects.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/apis/core/validation/events.go`
//! - `pkg/apis/events/v1/conversion.go`
//! - `pkg/apis/core/v1/conversion.go`: `AddFieldLabelConversionsForEvent`
//! - `pkg/registry/core/event/strategy.go`

use sendo_apimachinery::field::{Error, Path};
use sendo_apimachinery::meta::Scope;
use sendo_apimachinery::names;
use serde_json::{Map, Value, json};

use super::check::{self, Errors};
use super::value::{Read, Write, with_api_version};
use super::{NAMESPACE, Rules, UnknownFields, internal};

const CORE: &str = "v1";
const EVENTS: &str = "events.k8s.io/v1";

/// Field names in `v1` and in `events.k8s.io/v1`.
const RENAMED: [(&str, &str); 6] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("source", "deprecatedSource"),
];
const REPORTER: (&str, &str) = ("reportingComponent", "reportingController");

/// Rules of `v1` Events.
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
    validate: |cx, event| validate(cx.api_version, event),
    validate_update: |cx, new, old| validate_update(cx.api_version, new, old),
    create_on_update: true,
    convert,
    ..Rules::NEUTRAL
};

/// Rules of `events.k8s.io/v1` Events: the same objects with other field names.
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

fn validate(version: &str, event: &Value) -> Errors {
    let mut errors = validate_in_any_version(version, event);
    if version == CORE {
        return errors;
    }
    errors.extend(check::new_metadata(
        event,
        Scope::Namespaced,
        names::dns1123_subdomain,
    ));
    series(&mut errors, event);
    if !event.has("eventTime") {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        let fault = format!("has invalid value: {kind}");
        errors.push(Error::invalid(&Path::new("type"), "", fault));
    }
    let source = event.at("source");
    let has_source = !source.text("component").is_empty() || !source.text("host").is_empty();
    for (key, is_there) in [
        ("firstTimestamp", event.has("firstTimestamp")),
        ("lastTimestamp", event.has("lastTimestamp")),
        ("count", event.count("count") != 0),
        ("source", has_source),
    ] {
        if is_there {
            errors.push(Error::invalid(&Path::new(key), "", "needs to be unset"));
        }
    }
    errors
}

fn validate_update(version: &str, new: &Value, old: &Value) -> Errors {
    let mut errors = validate_in_any_version(version, new);
    if version == CORE {
        return errors;
    }
    errors.extend(check::changed_metadata(new, old));
    if new.at("series") != old.at("series") {
        series(&mut errors, new);
    }
    for key in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
    ] {
        unchanged(&mut errors, key, key, new, old);
    }
    unchanged(
        &mut errors,
        "reportingComponent",
        "reportingController",
        new,
        old,
    );
    unchanged(
        &mut errors,
        "reportingInstance",
        "reportingInstance",
        new,
        old,
    );
    errors
}

/// Reports a change of an immutable field. An absent text is shown as an empty one.
fn unchanged(errors: &mut Errors, key: &str, shown: &str, new: &Value, old: &Value) {
    let is_text = !matches!(
        key,
        "eventTime" | "firstTimestamp" | "lastTimestamp" | "related"
    );
    let of = |event: &Value| match event.at(key) {
        Value::Null if key == "count" => 0.into(),
        Value::Null if key == "source" => json!({}),
        Value::Null if is_text => "".into(),
        value => value.clone(),
    };
    let kind = match key {
        "involvedObject" => "ObjectReference",
        "related" => "*ObjectReference",
        "source" => "EventSource",
        _ => return check::immutable(errors, &Path::new(shown), &of(new), &of(old)),
    };
    if of(new) != of(old) {
        let value = internal::bad_value(kind, &of(new));
        errors.push(Error::invalid(
            &Path::new(shown),
            value,
            "field is immutable",
        ));
    }
}

fn series(errors: &mut Errors, event: &Value) {
    let series = event.at("series");
    if series.is_null() {
        return;
    }
    if series.count("count") < 2 {
        errors.push(Error::invalid(
            &Path::new("series.count"),
            "",
            "should be at least 2",
        ));
    }
    if !series.has("lastObservedTime") {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
}

/// Validates the fields common to both versions: the involved object is in the event's namespace,
/// and with an `eventTime` the reporter, action and reason are required.
fn validate_in_any_version(version: &str, event: &Value) -> Errors {
    let mut errors = Vec::new();
    let namespace = event.at("metadata").text("namespace");
    let involved = event.at("involvedObject").text("namespace");
    let is_new = event.has("eventTime");
    let is_foreign = match (involved, is_new) {
        ("", false) => !matches!(namespace, "" | "default"),
        ("", true) => !matches!(namespace, "default" | "kube-system"),
        (_, false) => namespace != involved,
        (_, true) => false,
    };
    if is_foreign {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(Error::invalid(
            &path,
            involved,
            "does not match event.namespace",
        ));
    }
    if is_new {
        let reporter = if version == CORE {
            "reportingComponent"
        } else {
            "reportingController"
        };
        let reporter = &Path::new(reporter);
        let name = event.text("reportingComponent");
        check::required(&mut errors, reporter, name);
        check::label_name(&mut errors, reporter, name);
        for key in ["reportingInstance", "action", "reason"] {
            check::required(&mut errors, &Path::new(key), event.text(key));
            at_most(&mut errors, key, event.text(key), 128);
        }
        at_most(&mut errors, "message", event.text("message"), 1024);
    }
    check::faults(
        &mut errors,
        &Path::new("namespace"),
        namespace,
        names::dns1123_subdomain(namespace),
    );
    errors
}

fn at_most(errors: &mut Errors, key: &str, text: &str, length: usize) {
    if text.len() > length {
        let fault = format!("can have at most {length} characters");
        errors.push(Error::invalid(&Path::new(key), "", fault));
    }
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

    #[test]
    fn an_event_is_about_its_own_namespace() {
        let event = |namespace: &str, about: &str| json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": about}});
        for (namespace, about, faults) in [
            ("n", "n", 0),
            ("default", "", 0),
            ("n", "", 1),
            ("n", "m", 1),
        ] {
            assert_eq!(
                validate(CORE, &event(namespace, about)).len(),
                faults,
                "{namespace} {about}"
            );
        }
    }

    #[test]
    fn the_newer_group_requires_more() {
        let event = json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n"},
                           "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "c",
                           "reportingInstance": "i", "action": "a", "reason": "r", "count": 1});
        assert_eq!(validate(CORE, &event), []);
        let fields: Vec<String> = validate(EVENTS, &event)
            .into_iter()
            .map(|error| error.field)
            .collect();
        assert_eq!(fields, ["type", "count"]);
    }
}
