//! The rows of a Table: what `kubectl get` shows of an object.
//!
//! Cells come in the order of the kind's columns and always include the wide
//! ones; a client hides columns by their priority. Objects are read in their
//! storage version.

mod age;
mod pod;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::value::Read;
pub use age::human_duration;

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
    match (group, kind) {
        ("", "Pod") => Some(pod::pod),
        _ => None,
    }
}

/// One object on its way into a row.
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

    /// How long ago the object was made.
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
}

/// `text`, or `other` where there is none.
fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}
