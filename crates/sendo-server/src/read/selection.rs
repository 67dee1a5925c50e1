//! Selects the objects of a collection by labels, fields and name.

use sendo_apimachinery::jsonpath::JsonPath;
use sendo_apimachinery::selector::FieldOperator;
use sendo_apimachinery::{LabelSelector, Meta, Status};
use serde_json::Value;

use crate::catalog::Resource;
use crate::request::options::ListOptions;

/// The label and field selectors of a request, checked against its resource.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: Vec<Field>,
    name: Option<String>,
}

struct Field {
    read: FieldReader,
    operator: FieldOperator,
    value: String,
}

/// How the value of a field is read.
enum FieldReader {
    /// As the kind's rules say.
    Rule(fn(&Value) -> String),
    /// By a path that the definition names.
    Path(JsonPath),
}

impl FieldReader {
    fn new(resource: &Resource, field: &str) -> Result<Self, String> {
        let custom = resource.custom.iter().flat_map(|custom| &custom.selectable);
        if let Some((_, path)) = custom.into_iter().find(|(name, _)| name == field) {
            return Ok(FieldReader::Path(path.clone()));
        }
        resource.rules.select(field).map(FieldReader::Rule)
    }

    fn read(&self, object: &Value) -> String {
        match self {
            FieldReader::Rule(read) => read(object),
            FieldReader::Path(path) => match path.first(object) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            },
        }
    }
}

impl Selection {
    /// What the selectors choose; fields that the kind does not offer are refused.
    pub(crate) fn new(resource: &Resource, options: &ListOptions) -> Result<Self, Status> {
        let labels = options.labels.clone();
        let selector = &options.fields;
        let mut fields = Vec::new();
        for requirement in selector.requirements() {
            let read =
                FieldReader::new(resource, &requirement.field).map_err(Status::bad_request)?;
            fields.push(Field {
                read,
                operator: requirement.operator,
                value: requirement.value.clone(),
            });
        }
        let name = selector.exact("metadata.name").map(str::to_owned);
        Ok(Selection {
            labels,
            fields,
            name,
        })
    }

    /// Adds what an old watch path names: one object.
    pub(crate) fn pin(&mut self, name: &str) {
        self.fields.push(Field {
            read: FieldReader::Rule(|object| Meta::new(object).name().to_owned()),
            operator: FieldOperator::Equals,
            value: name.to_owned(),
        });
        self.name = Some(name.to_owned());
    }

    /// Whether every object is meant.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }

    /// The one name that can match, if the fields leave only one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the object under a key may match: most that do not are excluded by their name alone.
    pub(crate) fn may_match(&self, key: &str) -> bool {
        let named = |name: &String| key.rsplit('/').next() == Some(name);
        self.name.as_ref().is_none_or(named)
    }

    /// Whether an object, in its storage version, is meant.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let field = |field: &Field| {
            let equal = field.read.read(object) == field.value;
            match field.operator {
                FieldOperator::Equals => equal,
                FieldOperator::NotEquals => !equal,
            }
        };
        self.labels.matches(&Meta::new(object)) && self.fields.iter().all(field)
    }
}
