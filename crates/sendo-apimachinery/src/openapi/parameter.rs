//! Parameters of operations.

use serde_json::{Map, Value, json};

use super::{Describe, META, sentences};

/// A parameter, identified by its name and location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    pub(super) name: String,
    location: ParameterIn,
    kind: String,
    /// The type whose field describes it; none if none does.
    options: Option<&'static str>,
    /// What it is, where no type says so.
    said: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ParameterIn {
    Path,
    Query,
}

pub(super) const CREATE: [(&str, &str); 3] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];

pub(super) const PATCH: [(&str, &str); 4] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];

pub(super) const DELETE: [(&str, &str); 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
    ),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// What narrows a list down.
pub(super) const SELECT: [(&str, &str); 9] = [
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
];

/// What turns a list into a watch.
pub(super) const WATCH: [(&str, &str); 2] =
    [("allowWatchBookmarks", "boolean"), ("watch", "boolean")];

impl Parameter {
    /// A part of the path, as `name`, and what it is.
    pub(super) fn path(name: &str, said: impl Into<String>) -> Self {
        Self {
            location: ParameterIn::Path,
            said: Some(said.into()),
            ..Self::own(name, "string")
        }
    }

    /// A query parameter, a field of that type of options.
    pub(super) fn query(name: &str, kind: &str, options: &'static str) -> Self {
        Self {
            options: Some(options),
            ..Self::own(name, kind)
        }
    }

    /// A query parameter that only one subresource has.
    pub(super) fn own(name: &str, kind: &str) -> Self {
        Self {
            name: name.to_owned(),
            location: ParameterIn::Query,
            kind: kind.to_owned(),
            options: None,
            said: None,
        }
    }

    pub(super) fn render(&self, describe: Describe<'_>) -> Value {
        let mut parameter = Map::new();
        parameter.insert("name".to_owned(), json!(self.name));
        parameter.insert(
            "schema".to_owned(),
            json!({"type": self.kind, "uniqueItems": true}),
        );
        match self.location {
            ParameterIn::Path => {
                parameter.insert("in".to_owned(), json!("path"));
                parameter.insert("required".to_owned(), json!(true));
            }
            ParameterIn::Query => {
                parameter.insert("in".to_owned(), json!("query"));
            }
        }
        // The options of a delete are a type of their own; what they share with
        // others, those others say in the same words.
        let described = self.options.and_then(|options| {
            [options, "DeleteOptions"]
                .iter()
                .find_map(|own| describe(&format!("{META}.{own}"), Some(&self.name)))
                .or_else(|| sentences::parameter(&self.name, options).map(str::to_owned))
        });
        if let Some(text) = described.as_ref().or(self.said.as_ref()) {
            parameter.insert("description".to_owned(), json!(text));
        }
        Value::Object(parameter)
    }
}
