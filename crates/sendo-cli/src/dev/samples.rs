//! The project's samples, applied to the cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::lines::{Lines, Source};
use crate::api::{Api, Conflicts, Effect, name_of, text, yaml_documents};

/// Applies all samples; tells what became of each.
pub(super) async fn apply(api: &mut Api, root: &Path, lines: &Lines) {
    let files = match files(root) {
        Ok(files) => files,
        Err(error) => return lines.say(Source::Dev, format!("{error:#}")),
    };
    if files.is_empty() {
        lines.say(
            Source::Dev,
            "there are no samples: write objects into samples/*.yaml",
        );
    }
    for file in files {
        let shown = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        let read = std::fs::read_to_string(&file).context("cannot read it");
        match read.and_then(|text| yaml_documents(&text)) {
            Ok(objects) => {
                for object in objects {
                    let name = name_of(&object);
                    match apply_one(api, object).await {
                        Ok(what) => lines.say(Source::Dev, format!("{shown}: {name} {what}")),
                        Err(error) => lines.say(Source::Dev, format!("{shown}: {error:#}")),
                    }
                }
            }
            Err(error) => lines.say(Source::Dev, format!("{shown}: {error:#}")),
        }
    }
}

async fn apply_one(api: &mut Api, object: Value) -> Result<&'static str> {
    let path = api.path(&object).await?;
    let path = path.with_context(|| {
        format!(
            "the cluster has no kind {} in {}: does the program define it?",
            text(&object, "/kind"),
            text(&object, "/apiVersion")
        )
    })?;
    let applied = api.apply(&path, &object, Conflicts::Overwrite, Effect::Persist);
    Ok(applied.await?.0.word())
}

/// The files with samples, in order.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("samples");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(&folder).context("cannot read samples")?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| is_sample(path));
    paths.sort();
    Ok(paths)
}

pub(super) fn is_sample(path: &Path) -> bool {
    let end = path.extension().unwrap_or_default();
    ["yaml", "yml", "json"].iter().any(|known| end == *known)
}
