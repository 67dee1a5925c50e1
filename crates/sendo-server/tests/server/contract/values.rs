//! Values under a schema: which are taken, refused, or changed on their way.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::place::{Place, widgets};
use super::table;

#[derive(Deserialize)]
struct Row {
    schema: Value,
    /// Values that are stored as they are sent.
    #[serde(default)]
    takes: Vec<Value>,
    /// Values that are stored as something else.
    #[serde(default)]
    changes: Vec<Change>,
    #[serde(default)]
    refuses: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Change {
    /// Absent: the field is not sent.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
    /// Absent: the field is not stored.
    #[serde(default, deserialize_with = "present")]
    stored: Option<Value>,
}

/// What is given, null too.
fn present<'de, D: Deserializer<'de>>(told: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(told).map(Some)
}

#[derive(Deserialize)]
struct Refusal {
    value: Value,
    with: Vec<String>,
}

/// All rows are fields of one definition, each under a name of its own.
pub(crate) async fn run(text: &str) {
    let rows: Vec<Row> = table(text);
    let place = Place::open().await;
    let name = |index: usize| format!("row{index}x");
    let fields: serde_json::Map<String, Value> = rows
        .iter()
        .enumerate()
        .map(|(i, row)| (name(i), row.schema.clone()))
        .collect();
    let schema = json!({"type": "object", "properties": fields});
    let made = place.define(&widgets("widgets", &schema)).await;
    assert_eq!(made.code, 201, "{}", made.body);

    for (i, row) in rows.iter().enumerate() {
        let field = name(i);
        for value in &row.takes {
            let (code, stored, causes) = send(&place, &field, Some(value)).await;
            assert_eq!(code, 201, "{} takes {value}: {causes:?}", row.schema);
            assert_eq!(stored.as_ref(), Some(value), "{}", row.schema);
        }
        for change in &row.changes {
            let (_, stored, causes) = send(&place, &field, change.value.as_ref()).await;
            let shown = format!("{} changes {:?}: {causes:?}", row.schema, change.value);
            assert_eq!(stored, change.stored, "{shown}");
        }
        for refusal in &row.refuses {
            let (code, _, causes) = send(&place, &field, Some(&refusal.value)).await;
            let shown = format!("{} refuses {}", row.schema, refusal.value);
            assert_eq!(causes, refusal.with, "{shown}");
            assert_eq!(code, 422, "{shown}");
        }
    }
    place.close().await;
}

/// Sends an object with one field, and gives what would be stored there, or the causes.
async fn send(
    place: &Place,
    field: &str,
    value: Option<&Value>,
) -> (u16, Option<Value>, Vec<String>) {
    let mut object = json!({
        "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {},
    });
    if let Some(value) = value {
        object["spec"][field] = value.clone();
    }
    let path = "/apis/example.dev/v1/namespaces/here/widgets?dryRun=All&fieldValidation=Ignore";
    let answer = place.post(path, &object).await;
    let of_others = |cause: &String| !cause.contains(field) && !cause.contains("<nil>");
    let causes = answer.causes().into_iter();
    let causes = causes
        .filter(|cause| !of_others(cause))
        .map(|cause| cause.replace(field, "field"))
        .collect();
    (answer.code, answer.body["spec"].get(field).cloned(), causes)
}
