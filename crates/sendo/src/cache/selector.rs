//! Label and field selectors: parsed once, sent as text, matched in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

/// A choice of objects by their labels: all of its requirements must hold.
///
/// Written as `kubectl -l` takes it: `app=web,tier in (a, b),!old`. The default
/// selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Requirement {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    Absent(String),
}

/// A selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a selector: {cause}")]
pub struct InvalidSelector {
    text: String,
    cause: String,
}

impl Selector {
    /// Selects the objects that have all of these labels.
    pub fn labels<N, V>(labels: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let requirements = labels
            .into_iter()
            .map(|(name, value)| Requirement::In(name.into(), BTreeSet::from([value.into()])))
            .collect();
        Selector { requirements }
    }

    /// Whether nothing is required, so that everything is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let value = |name: &str| labels.and_then(|labels| labels.get(name));
        self.requirements.iter().all(|required| match required {
            Requirement::In(name, values) => value(name).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(name, values) => !value(name).is_some_and(|v| values.contains(v)),
            Requirement::Exists(name) => value(name).is_some(),
            Requirement::Absent(name) => value(name).is_none(),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, required) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{required}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, values, one, many) = match self {
            Requirement::Exists(name) => return f.write_str(name),
            Requirement::Absent(name) => return write!(f, "!{name}"),
            Requirement::In(name, values) => (name, values, "=", "in"),
            Requirement::NotIn(name, values) => (name, values, "!=", "notin"),
        };
        let list = values.iter().map(String::as_str).collect::<Vec<_>>();
        match list.as_slice() {
            [value] => write!(f, "{name}{one}{value}"),
            _ => write!(f, "{name} {many} ({})", list.join(",")),
        }
    }
}

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let requirements = split_outside_parentheses(text)
            .map(Requirement::parse)
            .collect::<Result<_, _>>()
            .map_err(|cause| InvalidSelector {
                text: text.to_owned(),
                cause,
            })?;
        Ok(Selector { requirements })
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix('!') {
            return Ok(Requirement::Absent(label_name(name)?));
        }
        if let Some((head, values)) = text.split_once('(') {
            let values = values
                .strip_suffix(')')
                .ok_or("a parenthesis is not closed")?;
            let values = values.split(',').map(|v| v.trim().to_owned()).collect();
            let mut words = head.split_whitespace();
            return match (words.next(), words.next(), words.next()) {
                (Some(name), Some("in"), None) => Ok(Requirement::In(label_name(name)?, values)),
                (Some(name), Some("notin"), None) => {
                    Ok(Requirement::NotIn(label_name(name)?, values))
                }
                _ => Err(format!("`{text}` is neither `in` nor `notin`")),
            };
        }
        let one = |value: &str| BTreeSet::from([value.trim().to_owned()]);
        if let Some((name, value)) = text.split_once("!=") {
            return Ok(Requirement::NotIn(label_name(name)?, one(value)));
        }
        if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Ok(Requirement::In(label_name(name)?, one(value)));
        }
        Ok(Requirement::Exists(label_name(text)?))
    }
}

fn label_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(format!("`{name}` is not the name of a label"));
    }
    Ok(name.to_owned())
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let text = text.trim();
    let parts = text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    // Nothing at all requires nothing.
    parts.filter(move |_| !text.is_empty())
}

/// An operator that is none of `In`, `NotIn`, `Exists` and `DoesNotExist` is refused.
impl TryFrom<&LabelSelector> for Selector {
    type Error = InvalidSelector;

    fn try_from(selector: &LabelSelector) -> Result<Self, InvalidSelector> {
        let labels = selector.match_labels.iter().flatten();
        let mut all = Selector::labels(labels.map(|(name, value)| (name.clone(), value.clone())));
        for expression in selector.match_expressions.iter().flatten() {
            all.requirements.push(expression.try_into()?);
        }
        Ok(all)
    }
}

impl TryFrom<&LabelSelectorRequirement> for Requirement {
    type Error = InvalidSelector;

    fn try_from(expression: &LabelSelectorRequirement) -> Result<Self, InvalidSelector> {
        let name = expression.key.clone();
        let values = || expression.values.iter().flatten().cloned().collect();
        match expression.operator.as_str() {
            "In" => Ok(Requirement::In(name, values())),
            "NotIn" => Ok(Requirement::NotIn(name, values())),
            "Exists" => Ok(Requirement::Exists(name)),
            "DoesNotExist" => Ok(Requirement::Absent(name)),
            other => Err(InvalidSelector {
                text: name,
                cause: format!("`{other}` is not an operator"),
            }),
        }
    }
}

/// A choice of objects by fields that the API server can select on, such as
/// `spec.nodeName=node-0,status.phase!=Succeeded`. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct FieldRequirement {
    path: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Selects the objects whose field at `path` is `value`.
    pub fn equal(path: impl Into<String>, value: impl Into<String>) -> Self {
        FieldSelector::default().and(path, true, value)
    }

    /// Selects the objects whose field at `path` is not `value`.
    pub fn not_equal(path: impl Into<String>, value: impl Into<String>) -> Self {
        FieldSelector::default().and(path, false, value)
    }

    fn and(mut self, path: impl Into<String>, equal: bool, value: impl Into<String>) -> Self {
        self.requirements.push(FieldRequirement {
            path: path.into(),
            equal,
            value: value.into(),
        });
        self
    }

    /// What either of two selectors requires.
    pub(super) fn and_all(mut self, other: FieldSelector) -> Self {
        self.requirements.extend(other.requirements);
        self
    }

    /// Whether nothing is required, so that everything is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The one name that is selected, if nothing else is required.
    pub(crate) fn only_name(&self) -> Option<&str> {
        match &self.requirements[..] {
            [one] if one.equal && one.path == "metadata.name" => Some(&one.value),
            _ => None,
        }
    }

    /// Whether an object is selected, as far as its JSON says.
    ///
    /// A field that is not there counts as empty. The few selectable fields
    /// that have no place in the JSON (`status.successful` of a Job) do too.
    pub(super) fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|required| {
            let mut path = required.path.split('.');
            let found = path.try_fold(object, |at, member| at.get(member));
            let equal = match found.unwrap_or(&Value::Null) {
                Value::Null => ["", "false", "0"].contains(&&*required.value),
                Value::String(text) => *text == required.value,
                Value::Bool(value) => value.to_string() == required.value,
                Value::Number(value) => value.to_string() == required.value,
                Value::Array(_) | Value::Object(_) => false,
            };
            equal == required.equal
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, required) in self.requirements.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let operator = if required.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", required.path)?;
            for c in required.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let mut all = FieldSelector::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (path, equal, value) = if let Some((path, value)) = part.split_once("!=") {
                (path, false, value)
            } else if let Some((path, value)) =
                part.split_once("==").or_else(|| part.split_once('='))
            {
                (path, true, value)
            } else {
                return Err(InvalidSelector {
                    text: text.to_owned(),
                    cause: format!("`{part}` compares nothing: write `path=value`"),
                });
            };
            all = all.and(path.trim(), equal, value.trim());
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn a_selector_is_written_as_it_is_read() {
        for text in [
            "",
            "app=web",
            "app!=web,tier in (a,b),x notin (c,d),!old,new",
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.to_string(), text);
        }
        let spaced: Selector = " app == web , tier in ( a , b ) ".parse().unwrap();
        assert_eq!(spaced.to_string(), "app=web,tier in (a,b)");
    }

    #[test]
    fn what_is_no_selector_is_refused_with_its_cause() {
        for text in ["a b", "a in (b", "a of (b)", "=x", "a,,b", "app=web,"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    #[test]
    fn labels_are_matched_as_the_server_matches_them() {
        let have = labels(&[("app", "web"), ("tier", "a")]);
        let matches = |text: &str| text.parse::<Selector>().unwrap().matches(Some(&have));
        for text in [
            "",
            "app=web",
            "tier in (a,b)",
            "x!=y",
            "x notin (y)",
            "!x",
            "app",
        ] {
            assert!(matches(text), "{text}");
        }
        for text in ["app=db", "x=y", "tier notin (a)", "!app", "x", "app!=web"] {
            assert!(!matches(text), "{text}");
        }
        assert!(!"app".parse::<Selector>().unwrap().matches(None));
    }

    #[test]
    fn a_label_selector_of_the_api_becomes_a_selector() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]},
                                 {"key": "old", "operator": "DoesNotExist"}],
        }))
        .unwrap();
        let selector = Selector::try_from(&selector).unwrap();
        assert_eq!(selector.to_string(), "app=web,tier in (a,b),!old");
    }

    #[test]
    fn fields_are_matched_by_their_place_in_the_object() {
        let pod = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let matches = |text: &str| text.parse::<FieldSelector>().unwrap().matches(&pod);
        assert!(matches(
            "spec.nodeName=n,status.phase!=Failed,spec.unschedulable=false"
        ));
        assert!(matches("metadata.name="));
        assert!(!matches("spec.nodeName="));
        assert!(!matches("spec.nodeName!=n"));
    }
}
