//! What a command prints for people, or with `--output json` for programs.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::project::Changes;
use crate::screen::Screen;

/// The form of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    #[default]
    Text,
    /// One JSON document
    Json,
}

impl Format {
    /// Where progress is told: not in between of JSON.
    pub(crate) fn progress(self) -> Screen {
        match self {
            Format::Text => Screen::stdout(),
            Format::Json => Screen::stderr(),
        }
    }

    /// The files that were changed.
    pub(crate) fn print_changes(self, changes: &Changes) -> Result<()> {
        match self {
            Format::Text => {
                let screen = Screen::stdout();
                for (verb, path) in changes.summary() {
                    screen.say(format!("{verb} {}", path.display()));
                }
            }
            Format::Json => print_json(&changed(changes))?,
        }
        Ok(())
    }
}

#[cfg(feature = "add")]
impl Format {
    /// The changes that would be made.
    pub(crate) fn print_diff(self, changes: &Changes) -> Result<()> {
        match self {
            Format::Text => Screen::stdout().diff(&changes.diff()),
            Format::Json => {
                let mut value = changed(changes);
                value["diff"] = changes.diff().into();
                print_json(&value)?;
            }
        }
        Ok(())
    }
}

fn changed(changes: &Changes) -> Value {
    let summary = changes.summary().into_iter();
    let files: Vec<_> = summary
        .map(|(verb, path)| json!({"path": path, "change": verb}))
        .collect();
    json!({"files": files})
}

/// Prints a document for a program.
pub(crate) fn print_json(value: &Value) -> Result<()> {
    Screen::stdout().say(serde_json::to_string_pretty(value)?);
    Ok(())
}
