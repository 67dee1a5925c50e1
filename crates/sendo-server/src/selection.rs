//! Which objects of a collection a request is about.

use sendo_apimachinery::selector::FieldOperator;
use sendo_apimachinery::{FieldSelector, LabelSelector, Meta, Status};
use serde_json::Value;

use crate::options::ListOptions;
use crate::resource::Resource;

/// The label and field selectors of a request, checked against its resource.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: Vec<Field>,
    name: Option<String>,
}

struct Field {
    read: fn(&Value) -> String,
    operator: FieldOperator,
    value: String,
}

impl Selection {
    /// Reads the selectors; fields that the kind does not offer are refused.
    pub(crate) fn parse(resource: &Resource, options: &ListOptions) -> Result<Self, Status> {
        let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
        let labels = LabelSelector::parse(&options.label_selector).map_err(|error| bad(&error))?;
        let selector =
            FieldSelector::parse(&options.field_selector).map_err(|error| bad(&error))?;
        let mut fields = Vec::new();
        for requirement in selector.requirements() {
            let read = resource
                .rules
                .select(&requirement.field)
                .map_err(|text| bad(&text))?;
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
            read: |object| Meta::of(object).name().to_owned(),
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

    /// Whether an object, in its storage version, is meant.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let field = |field: &Field| {
            let equal = (field.read)(object) == field.value;
            match field.operator {
                FieldOperator::Equals => equal,
                FieldOperator::NotEquals => !equal,
            }
        };
        self.labels.matches(&Meta::of(object)) && self.fields.iter().all(field)
    }
}
