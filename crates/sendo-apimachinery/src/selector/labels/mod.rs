//! Label selectors.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::SelectorError;
use super::parse::Parser;
use crate::field::{Error, Path};
use crate::meta::{Meta, validate_labels};
use crate::{names, status};

/// A selection of objects by their labels.
///
/// Displays in Kubernetes' canonical text, requirements by key:
/// `app=x,!old,tier in (a,b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// How a label is compared with the values of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (a,b)`.
    In,
    /// `key notin (a,b)`; an absent label matches.
    NotIn,
    /// `key=a`.
    Equals,
    /// `key==a`: the same, kept for its text.
    DoubleEquals,
    /// `key!=a`; an absent label matches.
    NotEquals,
    /// `key`.
    Exists,
    /// `!key`.
    DoesNotExist,
    /// `key>1`; the label must be an integer.
    GreaterThan,
    /// `key<1`; the label must be an integer.
    LessThan,
}

/// Labels that a selector can look at.
pub trait Labels {
    /// The value of a label, if it is there.
    fn get_label(&self, key: &str) -> Option<&str>;
}

impl Labels for Meta<'_> {
    fn get_label(&self, key: &str) -> Option<&str> {
        self.label(key)
    }
}

impl Labels for BTreeMap<String, String> {
    fn get_label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn get_label(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

impl Default for LabelSelector {
    fn default() -> Self {
        LabelSelector::everything()
    }
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        LabelSelector {
            requirements: Some(Vec::new()),
        }
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        LabelSelector { requirements: None }
    }

    /// Selects the objects that meet all requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector {
            requirements: Some(requirements),
        }
    }

    /// Selects the objects that carry all the given labels. They are not checked.
    pub fn equal_to<K: Into<String>, V: Into<String>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let requirements = labels.into_iter().map(|(key, value)| Requirement {
            key: key.into(),
            operator: Operator::Equals,
            values: vec![value.into()],
        });
        LabelSelector::new(requirements.collect())
    }

    /// Reads the text of a `labelSelector` parameter. The empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser::new(text).selector().map(LabelSelector::new)
    }

    /// Reads a `LabelSelector` object, as `spec.selector` holds it.
    ///
    /// An absent or null one selects nothing, an empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let selector = match selector {
            None | Some(Value::Null) => return Ok(LabelSelector::nothing()),
            Some(selector) => selector,
        };
        let mut requirements = Vec::new();
        for (key, value) in string_entries(selector.get("matchLabels")) {
            requirements.push(Requirement::new(key, Operator::Equals, [value])?);
        }
        for expression in items(selector.get("matchExpressions")) {
            let Expression {
                key,
                operator,
                values,
            } = Expression::from_value(expression);
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message = format!(
                        "{} is not a valid label selector operator",
                        crate::go_quote(other)
                    );
                    return Err(SelectorError(message));
                }
            };
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(LabelSelector::new(requirements))
    }

    /// Whether labels meet all requirements.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        match &self.requirements {
            None => false,
            Some(requirements) => requirements.iter().all(|r| r.matches(labels)),
        }
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements, by key; none where nothing is selected.
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements().iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl Requirement {
    /// A checked requirement: a valid key, valid values, as many of them as the operator takes.
    pub fn new<V: Into<String>>(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, SelectorError> {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        let mut errors = Vec::new();
        errors.extend(check_key(key, &Path::new("key")));
        let path = Path::new("values");
        let wrong_number = match operator {
            Operator::In | Operator::NotIn => values
                .is_empty()
                .then_some("for 'in', 'notin' operators, values set can't be empty"),
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist => (!values.is_empty())
                .then_some("values set must be empty for exists and does not exist"),
            Operator::GreaterThan | Operator::LessThan => (values.len() != 1)
                .then_some("for 'Gt', 'Lt' operators, exactly one value is required"),
        };
        if let Some(detail) = wrong_number {
            errors.push(Error::invalid(&path, values.clone(), detail));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (i, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(Error::invalid(&path.index(i), value.as_str(), detail));
                }
            }
        }
        for (i, value) in values.iter().enumerate() {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                let path = path.index(i).key(key);
                errors.push(Error::invalid(&path, value.as_str(), faults.join("; ")));
            }
        }
        if !errors.is_empty() {
            return Err(SelectorError(status::aggregate(
                errors.iter().map(Error::to_string),
            )));
        }
        Ok(Requirement {
            key: key.to_owned(),
            operator,
            values,
        })
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label is compared.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// What it is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches(&self, labels: &impl Labels) -> bool {
        let found = labels.get_label(&self.key);
        let listed = |value| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => found.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !found.is_some_and(listed),
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::GreaterThan => self.compares(found, |label, value| label > value),
            Operator::LessThan => self.compares(found, |label, value| label < value),
        }
    }

    fn compares(&self, label: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let label = label.and_then(|label| label.parse().ok());
        let value = self.values.first().and_then(|value| value.parse().ok());
        label
            .zip(value)
            .is_some_and(|(label, value)| holds(label, value))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

pub(super) fn check_key(key: &str, path: &Path) -> Option<Error> {
    let faults = names::qualified_name(key);
    (!faults.is_empty()).then(|| Error::invalid(path, key, faults.join("; ")))
}

/// Whether values that are no label values are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidValues {
    /// They are faults.
    Refused,
    /// They pass, as in updates of an object that already had them.
    Allowed,
}

/// Checks a `LabelSelector` object at `path`; an absent one is fine.
pub fn validate_label_selector(
    selector: Option<&Value>,
    invalid_values: InvalidValues,
    path: &Path,
) -> Vec<Error> {
    let Some(selector) = selector else {
        return Vec::new();
    };
    let labels = string_entries(selector.get("matchLabels"));
    let mut errors = validate_labels(labels, &path.child("matchLabels"));
    for (i, expression) in items(selector.get("matchExpressions")).enumerate() {
        let path = path.child("matchExpressions").index(i);
        errors.extend(validate_expression(
            &Expression::from_value(expression),
            invalid_values,
            &path,
        ));
    }
    errors
}

fn validate_expression(
    expression: &Expression<'_>,
    invalid_values: InvalidValues,
    path: &Path,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let values = path.child("values");
    match expression.operator {
        "In" | "NotIn" if expression.values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&values, detail));
        }
        "Exists" | "DoesNotExist" if !expression.values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&values, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let detail = "not a valid selector operator";
            errors.push(Error::invalid(&path.child("operator"), other, detail));
        }
    }
    for fault in names::qualified_name(expression.key) {
        errors.push(Error::invalid(&path.child("key"), expression.key, fault));
    }
    if invalid_values == InvalidValues::Refused {
        for (i, &value) in expression.values.iter().enumerate() {
            for fault in names::label_value(value) {
                errors.push(Error::invalid(&values.index(i), value, fault));
            }
        }
    }
    errors
}

/// An item of `matchExpressions`.
struct Expression<'a> {
    key: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl<'a> Expression<'a> {
    fn from_value(value: &'a Value) -> Self {
        let text = |member| {
            value
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Expression {
            key: text("key"),
            operator: text("operator"),
            values: items(value.get("values"))
                .filter_map(Value::as_str)
                .collect(),
        }
    }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn string_entries(value: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests;
