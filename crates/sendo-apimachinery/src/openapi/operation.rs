//! Operations, and the path items that hold them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::Describe;
use super::parameter::Parameter;

/// What a client may do at a path with one method.
pub(super) struct Operation {
    method: &'static str,
    id: String,
    tag: String,
    said: Option<String>,
    parameters: BTreeSet<Parameter>,
    body: Option<Value>,
    responses: BTreeMap<u16, ResponseBody>,
    /// `x-kubernetes-action`, and the group, version and kind it is about.
    action: Option<(&'static str, Value)>,
}

/// In which encodings objects travel besides JSON.
#[derive(Clone, Copy)]
pub(super) struct MediaTypes {
    pub(super) protobuf: bool,
    pub(super) yaml: bool,
}

/// What a response carries.
#[derive(Clone)]
pub(super) enum ResponseBody {
    /// A named type, and whether it may come as a stream of events.
    Object {
        schema: String,
        stream: bool,
        media_types: MediaTypes,
    },
    /// Text, as a log; whatever a client accepts.
    Text(MediaTypes),
    /// Whatever lies behind a connection.
    Connection,
}

impl ResponseBody {
    /// A named type in all encodings.
    pub(super) fn object(schema: &str) -> Self {
        let media_types = MediaTypes {
            protobuf: true,
            yaml: true,
        };
        Self::Object {
            schema: schema.to_owned(),
            stream: false,
            media_types,
        }
    }

    /// The same in these encodings only.
    pub(super) fn over(self, encodings: MediaTypes) -> Self {
        match self {
            Self::Object { schema, stream, .. } => Self::Object {
                schema,
                stream,
                media_types: encodings,
            },
            Self::Text(_) => Self::Text(encodings),
            Self::Connection => Self::Connection,
        }
    }

    /// The same, or a stream of it.
    pub(super) fn or_stream(self) -> Self {
        match self {
            Self::Object {
                schema,
                media_types,
                ..
            } => Self::Object {
                schema,
                stream: true,
                media_types,
            },
            other => other,
        }
    }

    fn content(&self) -> Value {
        let (schema, names) = match self {
            Self::Object {
                schema,
                stream,
                media_types,
            } => (reference(schema), media_types.names(*stream)),
            Self::Text(media_types) => {
                let mut names = media_types.names(false);
                names.push("text/plain");
                (json!({"type": "string"}), names)
            }
            Self::Connection => (json!({"type": "string"}), vec!["*/*"]),
        };
        content(&names, &schema)
    }
}

impl MediaTypes {
    pub(super) fn names(self, stream: bool) -> Vec<&'static str> {
        let mut names = vec!["application/json"];
        if stream {
            names.push("application/json;stream=watch");
        }
        if self.protobuf {
            names.push("application/vnd.kubernetes.protobuf");
            if stream {
                names.push("application/vnd.kubernetes.protobuf;stream=watch");
            }
        }
        if self.yaml {
            names.push("application/yaml");
        }
        names
    }
}

impl Operation {
    pub(super) fn new(method: &'static str, id: &str, tag: &str) -> Self {
        Self {
            method,
            id: id.to_owned(),
            tag: tag.to_owned(),
            said: None,
            parameters: BTreeSet::new(),
            body: None,
            responses: BTreeMap::new(),
            action: None,
        }
    }

    pub(super) fn about(mut self, action: &'static str, kind: Value) -> Self {
        self.action = Some((action, kind));
        self
    }

    /// What it does.
    pub(super) fn saying(mut self, text: impl Into<String>) -> Self {
        self.said = Some(text.into());
        self
    }

    pub(super) fn taking(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// Fields of one type of options as query parameters.
    pub(super) fn asking(self, options: &'static str, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter();
        self.taking(fields.map(|(name, kind)| Parameter::query(name, kind, options)))
    }

    /// A body of a named type that must be sent.
    pub(super) fn requiring(mut self, media_types: &[&str], schema: &str) -> Self {
        let content = content(media_types, &reference(schema));
        self.body = Some(json!({"content": content, "required": true}));
        self
    }

    /// A body of a named type that may be sent.
    pub(super) fn accepting(mut self, media_types: &[&str], schema: &str) -> Self {
        self.body = Some(json!({"content": content(media_types, &reference(schema))}));
        self
    }

    pub(super) fn answering(mut self, code: u16, answer: ResponseBody) -> Self {
        self.responses.insert(code, answer);
        self
    }

    fn render(&self, shared: &BTreeSet<Parameter>, describe: Describe<'_>) -> Value {
        let mut operation = Map::new();
        operation.insert("operationId".to_owned(), json!(self.id));
        operation.insert("tags".to_owned(), json!([self.tag]));
        if let Some(text) = &self.said {
            operation.insert("description".to_owned(), json!(text));
        }
        let own: Vec<_> = self.parameters.difference(shared).collect();
        if !own.is_empty() {
            let own: Vec<_> = own
                .iter()
                .map(|parameter| parameter.render(describe))
                .collect();
            operation.insert("parameters".to_owned(), json!(own));
        }
        if let Some(body) = &self.body {
            operation.insert("requestBody".to_owned(), body.clone());
        }
        let mut responses = Map::new();
        for (code, answer) in &self.responses {
            let response = json!({"description": reason(*code), "content": answer.content()});
            responses.insert(code.to_string(), response);
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        operation.insert("responses".to_owned(), Value::Object(responses));
        if let Some((action, kind)) = &self.action {
            operation.insert("x-kubernetes-action".to_owned(), json!(action));
            operation.insert("x-kubernetes-group-version-kind".to_owned(), kind.clone());
        }
        Value::Object(operation)
    }
}

/// The operations at a path.
#[derive(Default)]
pub(super) struct PathItem {
    operations: Vec<Operation>,
}

impl PathItem {
    pub(super) fn add(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Parameters that all operations share are said once, for the path.
    pub(super) fn render(&self, describe: Describe<'_>) -> Value {
        let sets = self
            .operations
            .iter()
            .map(|operation| &operation.parameters);
        let shared = sets
            .cloned()
            .reduce(|a, b| a.intersection(&b).cloned().collect());
        let shared = shared.unwrap_or_default();
        let mut item = Map::new();
        if !shared.is_empty() {
            let shared: Vec<_> = shared.iter().map(|own| own.render(describe)).collect();
            item.insert("parameters".to_owned(), json!(shared));
        }
        for operation in &self.operations {
            item.insert(
                operation.method.to_owned(),
                operation.render(&shared, describe),
            );
        }
        Value::Object(item)
    }
}

/// Refers to a schema of the document.
pub(super) fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    let entries = media_types.iter();
    let entries = entries.map(|name| ((*name).to_owned(), json!({ "schema": schema })));
    Value::Object(entries.collect())
}

fn reason(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        _ => "OK",
    }
}
