//! The entries of `managedFields`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::set::FieldSet;
use crate::go_text::go_quote;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By applying.
    Apply,
    /// By anything else.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who manages fields.
///
/// One name is several managers: by operation, by subresource, and for updates
/// by version too. Displays as conflicts show it: `"a" using v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The name, as given by `fieldManager` or taken from the user agent.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it writes in; empty for those who apply, who have one entry for all.
    api_version: String,
    /// The subresource it writes through; empty for the object itself.
    pub subresource: String,
}

impl ManagerId {
    /// A manager; an empty name is `unknown`.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        ManagerId {
            name: if name.is_empty() {
                "unknown".to_owned()
            } else {
                name.to_owned()
            },
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            subresource: subresource.to_owned(),
        }
    }
}

impl fmt::Display for ManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", go_quote(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// What a manager has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The version that the fields are named in.
    pub api_version: String,
    /// The fields.
    pub fields: FieldSet,
    /// When the manager last changed something, in RFC 3339; none if it only joined others.
    pub time: Option<String>,
}

/// Why a list of managers cannot be read, in the words of Kubernetes.
///
/// # Errors
/// If an entry has another operation, no version, or fields in another form.
pub fn validate_managers(list: Option<&Value>) -> Result<(), String> {
    Entries::decode(list).map(drop)
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) by_manager: BTreeMap<ManagerId, Entry>,
}

impl Entries {
    /// Reads `metadata.managedFields`.
    pub(super) fn decode(list: Option<&Value>) -> Result<Self, String> {
        let mut entries = Entries::default();
        let list = list
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for (i, item) in list.iter().enumerate() {
            let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                other => {
                    let other = go_quote(other);
                    return Err(format!(
                        "invalid fieldsType {other} in managed fields entry {i}"
                    ));
                }
            }
            let fields = FieldSet::from_json(item.get("fieldsV1").unwrap_or(&Value::Null))?;
            let name = text("manager").to_owned();
            let subresource = text("subresource");
            let id = ManagerId {
                name,
                ..ManagerId::new("", operation, api_version, subresource)
            };
            let time = item.get("time").and_then(Value::as_str).map(str::to_owned);
            let entry = Entry {
                api_version: api_version.to_owned(),
                fields,
                time,
            };
            entries.by_manager.insert(id, entry);
        }
        Ok(entries)
    }

    /// `metadata.managedFields`, sorted as Kubernetes sorts it: by operation,
    /// whole seconds, manager, version, subresource. `None` without managers.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.by_manager.is_empty() {
            return None;
        }
        let mut entries: Vec<(&ManagerId, &Entry)> = self.by_manager.iter().collect();
        entries.sort_by_cached_key(|(id, entry)| {
            let time = entry.seconds();
            (
                id.operation,
                time,
                &id.name,
                &entry.api_version,
                &id.subresource,
            )
        });
        Some(
            entries
                .into_iter()
                .map(|(id, entry)| entry.encode(id))
                .collect(),
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_manager.is_empty()
    }

    /// Forgets managers that have nothing.
    pub(super) fn drop_empty(&mut self) {
        self.by_manager.retain(|_, entry| !entry.fields.is_empty());
    }
}

impl Entry {
    /// Takes over the fields of another one.
    pub(super) fn take(&mut self, fields: FieldSet) {
        self.fields = std::mem::take(&mut self.fields).union(fields);
    }

    /// The seconds since 1970 of its time; 0 without one.
    pub(super) fn seconds(&self) -> i64 {
        let time = self
            .time
            .as_deref()
            .and_then(|time| time.parse::<jiff::Timestamp>().ok());
        time.map_or(0, jiff::Timestamp::as_second)
    }

    /// The text of a list of one updater, whose `fieldsV1` are given as text.
    pub(super) fn list_of_one(
        id: &ManagerId,
        api_version: &str,
        time: &str,
        fields: &str,
    ) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let mut list = String::with_capacity(fields.len() + 256);
        list.push_str(r#"[{"apiVersion":"#);
        list.push_str(&text(api_version));
        list.push_str(r#","fieldsType":"FieldsV1","fieldsV1":"#);
        list.push_str(fields);
        list.push_str(r#","manager":"#);
        list.push_str(&text(&id.name));
        list.push_str(r#","operation":"#);
        list.push_str(&text(id.operation.as_str()));
        if !id.subresource.is_empty() {
            list.push_str(r#","subresource":"#);
            list.push_str(&text(&id.subresource));
        }
        list.push_str(r#","time":"#);
        list.push_str(&text(time));
        list.push_str("}]");
        list
    }

    fn encode(&self, id: &ManagerId) -> Value {
        let mut out = Map::new();
        let texts = [
            ("manager", id.name.as_str()),
            ("operation", id.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("time", self.time.as_deref().unwrap_or_default()),
            ("fieldsType", "FieldsV1"),
            ("subresource", &id.subresource),
        ];
        for (name, text) in texts {
            if !text.is_empty() {
                out.insert(name.to_owned(), text.into());
            }
        }
        out.insert("fieldsV1".to_owned(), self.fields.to_json());
        Value::Object(out)
    }
}

/// Whether a list of managers removes all of them: `[]`, or one empty entry.
pub(super) fn is_reset(list: Option<&Value>) -> bool {
    match list.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}},
        });
        if !time.is_empty() {
            entry["time"] = time.into();
        }
        entry
    }

    #[test]
    fn entries_are_sorted_by_operation_and_time() {
        let sorted = json!([
            entry("z", "Apply", ""),
            entry("a", "Apply", "2026-01-01T00:00:02Z"),
            entry("b", "Update", "2026-01-01T00:00:01Z"),
            entry("c", "Update", "2026-01-01T00:00:01Z"),
        ]);
        let mut shuffled = sorted.as_array().unwrap().clone();
        shuffled.reverse();
        let entries = Entries::decode(Some(&Value::Array(shuffled))).unwrap();
        assert_eq!(entries.encode(), Some(sorted));
    }

    #[test]
    fn an_unreadable_list_is_refused() {
        for broken in [
            json!([{}]),
            json!([{"operation": "Apply"}]),
            json!([{"operation": "Apply", "apiVersion": "v1"}]),
        ] {
            assert!(Entries::decode(Some(&broken)).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_list_without_content_asks_to_forget() {
        assert!(is_reset(Some(&json!([]))));
        assert!(is_reset(Some(&json!([{}]))));
        assert!(!is_reset(None));
        assert!(!is_reset(Some(&Value::Null)));
        assert!(!is_reset(Some(&json!([entry("a", "Apply", "")]))));
    }

    #[test]
    fn managers_are_named_as_conflicts_show_them() {
        let id = |operation, subresource: &str| {
            ManagerId::new("a", operation, "apps/v1", subresource).to_string()
        };
        assert_eq!(id(Operation::Apply, ""), "\"a\"");
        assert_eq!(id(Operation::Update, ""), "\"a\" using apps/v1");
        assert_eq!(
            id(Operation::Update, "scale"),
            "\"a\" with subresource \"scale\" using apps/v1"
        );
    }
}
