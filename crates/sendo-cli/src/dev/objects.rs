//! The objects of the program's kinds, as `kubectl get` shows them.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::process::Command;

use super::lines::{Lines, Source};
use crate::api::{Api, text, yaml_documents};

/// Shows the objects of each kind that the program defines.
pub(super) async fn show(api: &Api, program: &Path, lines: &Lines) {
    if let Err(error) = try_show(api, program, lines).await {
        lines.say(Source::Dev, format!("{error:#}"));
    }
}

async fn try_show(api: &Api, program: &Path, lines: &Lines) -> Result<()> {
    let output = Command::new(program).arg("crds").output().await;
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "the program does not print its kinds: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    let definitions = yaml_documents(&String::from_utf8_lossy(&output.stdout))?;
    if definitions.is_empty() {
        lines.say(Source::Dev, "the program defines no kinds");
    }
    for definition in definitions {
        let plural = text(&definition, "/spec/names/plural");
        let group = text(&definition, "/spec/group");
        let mut versions = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten();
        let Some(version) = versions.find(|version| version["storage"] == true) else {
            continue;
        };
        let path = format!("/apis/{group}/{}/{plural}", text(version, "/name"));
        let shown = match api.table(&path).await? {
            Some(found) => table(&found, text(&definition, "/spec/scope") == "Namespaced"),
            None => String::new(),
        };
        match &*shown {
            "" => lines.say(Source::Dev, format!("there are no {plural}")),
            shown => lines.say(Source::Dev, format!("{plural}:\n{shown}")),
        }
    }
    Ok(())
}

/// A Table of the API server as text; empty if it has no rows.
fn table(found: &Value, namespaced: bool) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&found["columnDefinitions"]);
    let is_shown: Vec<bool> = columns
        .iter()
        .map(|column| column["priority"] == 0)
        .collect();
    let mut rows = Vec::new();
    let mut head: Vec<String> = columns
        .iter()
        .map(|c| text(c, "/name").to_uppercase())
        .collect();
    keep(&mut head, &is_shown);
    for row in list(&found["rows"]) {
        let mut cells: Vec<String> = list(&row["cells"]).iter().map(cell).collect();
        keep(&mut cells, &is_shown);
        if namespaced {
            cells.insert(0, text(&row, "/object/metadata/namespace").to_owned());
        }
        rows.push(cells);
    }
    if rows.is_empty() {
        return String::new();
    }
    if namespaced {
        head.insert(0, "NAMESPACE".to_owned());
    }
    rows.insert(0, head);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|at| width(at).unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn keep(cells: &mut Vec<String>, is_shown: &[bool]) {
    let mut shown = is_shown.iter();
    cells.retain(|_| shown.next().copied().unwrap_or(true));
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_the_columns_that_kubectl_shows() {
        let found = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Wide", "priority": 1},
                {"name": "Size", "priority": 0},
            ],
            "rows": [
                {"cells": ["a-bar", "x", 3], "object": {"metadata": {"namespace": "default"}}},
                {"cells": ["b", "x", null], "object": {"metadata": {"namespace": "other"}}},
            ],
        });
        let expected =
            "NAMESPACE   NAME    SIZE\ndefault     a-bar   3\nother       b       <none>";
        assert_eq!(table(&found, true), expected);
        assert_eq!(table(&json!({"rows": []}), true), "");
    }
}
