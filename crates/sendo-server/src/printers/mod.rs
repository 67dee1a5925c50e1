//! The rows of a Table, which `kubectl get` shows.
//!
//! Cells come in the order of the kind's columns and always include the wide
//! ones; a client hides columns by their priority. Objects are read in their
//! storage version.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `AddHandlers`
//! - `pkg/printers/tablegenerator.go`
//! - `staging/src/k8s.io/apiserver/pkg/registry/rest/table.go`

mod access;
mod autoscaling;
mod cluster;
mod network;
mod pod;
mod selector;
mod storage;
mod workloads;

use jiff::Timestamp;
pub use sendo_apimachinery::duration::human_duration;
use serde_json::{Value, json};

use crate::kinds::value::Read;

/// The cells of an object's row.
///
/// Kinds without a printer of their own show name and creation time, for the
/// columns `Name` and `Created At`.
pub fn row(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let cells = Cells { object, now };
    match printer(group, kind) {
        Some(print) => print(&cells),
        None => vec![
            cells.name(),
            cells.metadata().at("creationTimestamp").clone(),
        ],
    }
}

/// The conditions of an object's row: a pod that has ended is marked `Completed`.
pub fn conditions(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    if (group, kind) != ("", "Pod") {
        return Vec::new();
    }
    let phase = object.at("status").text("phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": phase, "message": message})]
}

type Printer = fn(&Cells<'_>) -> Vec<Value>;

fn printer(group: &str, kind: &str) -> Option<Printer> {
    match group {
        "" => core_printer(kind),
        "apps" | "batch" => workloads::printer(kind),
        "autoscaling" => match kind {
            "HorizontalPodAutoscaler" => Some(autoscaling::horizontal_pod_autoscaler),
            "Scale" => Some(autoscaling::scale),
            _ => None,
        },
        "discovery.k8s.io" | "networking.k8s.io" => network::printer(kind),
        "storage.k8s.io" | "storagemigration.k8s.io" => storage::printer(kind),
        "events.k8s.io" if kind == "Event" => Some(cluster::event),
        _ => access::printer(group, kind).or_else(|| cluster::printer(group, kind)),
    }
}

fn core_printer(kind: &str) -> Option<Printer> {
    match kind {
        "Pod" => Some(pod::pod),
        "ReplicationController" | "PodTemplate" => workloads::printer(kind),
        "Service" | "Endpoints" => network::printer(kind),
        "PersistentVolume" | "PersistentVolumeClaim" => storage::printer(kind),
        _ => cluster::printer("", kind),
    }
}

/// An object whose row is being written.
struct Cells<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl<'a> Cells<'a> {
    fn metadata(&self) -> &'a Value {
        self.object.at("metadata")
    }

    fn spec(&self) -> &'a Value {
        self.object.at("spec")
    }

    fn status(&self) -> &'a Value {
        self.object.at("status")
    }

    fn name(&self) -> Value {
        self.metadata().text("name").into()
    }

    /// The age of the object.
    fn age(&self) -> Value {
        self.since(self.metadata().at("creationTimestamp")).into()
    }

    /// How long ago a time of the object was, `<unknown>` if it is not set.
    fn since(&self, time: &Value) -> String {
        match time
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
        {
            Some(time) => human_duration(self.now.duration_since(time)),
            None => "<unknown>".to_owned(),
        }
    }

    fn is_being_deleted(&self) -> bool {
        self.metadata().has("deletionTimestamp")
    }

    fn annotation(&self, key: &str) -> &'a str {
        self.metadata().at("annotations").text(key)
    }
}

/// `text`, or `other` if it is empty.
fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The text of an optional member, or `other` where it is not set.
fn text_or<'a>(object: &'a Value, key: &str, other: &'a str) -> &'a str {
    object.at(key).as_str().unwrap_or(other)
}

/// The texts of a list, joined.
fn joined(items: &[Value], separator: &str) -> String {
    let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
    texts.join(separator)
}

/// Labels as `a=b,c=d`, `<none>` if there are none.
fn labels(labels: &Value) -> String {
    let Some(labels) = labels.as_object().filter(|labels| !labels.is_empty()) else {
        return "<none>".to_owned();
    };
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.join(",")
}

/// Names and images of a pod's containers, each joined by commas.
fn containers(pod_spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|key| {
        let texts: Vec<&str> = pod_spec
            .items("containers")
            .iter()
            .map(|c| c.text(key))
            .collect();
        texts.join(",").into()
    })
}

/// The first `max` of `list`, joined by commas, and how many more there are; `empty` for no items.
fn first_of(list: &[String], max: usize, empty: &str) -> String {
    match list.len() {
        0 => empty.to_owned(),
        n if n > max => format!("{} + {} more...", list[..max].join(","), n - max),
        _ => list.join(","),
    }
}
