//! Schemas that a definition may have, and those it may not.

use serde::Deserialize;
use serde_json::Value;

use super::place::{DEFINITIONS, Place, widgets};
use super::table;

#[derive(Deserialize)]
struct Row {
    /// The schema of `spec`, unless `root` is given.
    #[serde(default)]
    spec: Value,
    /// The schema of the whole object.
    root: Option<Value>,
    /// The subresources of the version.
    subresources: Option<Value>,
    /// What is wrong with it; nothing if it is accepted.
    #[serde(default)]
    refused: Vec<String>,
}

pub(crate) async fn run(text: &str) {
    let place = Place::open().await;
    for row in table::<Vec<Row>>(text) {
        let mut definition = widgets("widgets", &row.spec);
        let version = &mut definition["spec"]["versions"][0];
        if let Some(root) = row.root {
            version["schema"]["openAPIV3Schema"] = root;
        }
        if let Some(subresources) = row.subresources {
            version["subresources"] = subresources;
        }
        let answer = place
            .post(&format!("{DEFINITIONS}?dryRun=All"), &definition)
            .await;
        let shown = definition["spec"]["versions"][0]["schema"].to_string();
        let causes: Vec<String> = answer.causes().iter().map(|cause| short(cause)).collect();
        assert_eq!(causes, row.refused, "{shown}");
        let accepted = row.refused.is_empty();
        assert_eq!(answer.code, if accepted { 201 } else { 422 }, "{shown}");
    }
    place.close().await;
}

/// A cause with the path of a definition's schema in one word.
pub(crate) fn short(cause: &str) -> String {
    cause.replace("spec.validation.openAPIV3Schema", "schema")
}
