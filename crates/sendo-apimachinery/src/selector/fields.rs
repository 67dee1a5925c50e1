//! Field selectors.

use std::fmt;

use super::SelectorError;

/// A selection of objects by the values of some of their fields.
///
/// Displays as it is written: `metadata.name=a,status.phase!=Running`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's name, as `metadata.name`.
    pub field: String,
    /// How it is compared.
    pub operator: FieldOperator,
    /// What it is compared with; an absent field counts as empty.
    pub value: String,
}

/// How a field is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        FieldSelector::default()
    }

    /// Selects the objects that meet all requirements.
    pub fn new(requirements: Vec<FieldRequirement>) -> Self {
        FieldSelector { requirements }
    }

    /// Reads the text of a `fieldSelector` parameter. The empty text selects everything.
    ///
    /// In values `\\`, `\,` and `\=` stand for the plain characters.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = terms
            .into_iter()
            .filter(|term| !term.is_empty())
            .map(|term| {
                let Some((field, operator, value)) = split_term(term) else {
                    let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                    return Err(SelectorError(message));
                };
                Ok(FieldRequirement {
                    field: field.to_owned(),
                    operator,
                    value: unescape(value)?,
                })
            })
            .collect::<Result<Vec<FieldRequirement>, _>>()?;
        // Without a field and a value it requires nothing.
        requirements.retain(|one| !(one.field.is_empty() && one.value.is_empty()));
        Ok(FieldSelector { requirements })
    }

    /// Whether fields meet all requirements. `field` gives a field's value, empty if absent.
    pub fn matches<V: AsRef<str>>(&self, field: impl Fn(&str) -> V) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = field(&requirement.field).as_ref() == requirement.value;
            equal == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, in the order of their texts.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The value that a field must have, if one requirement demands a single one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|r| r.field == field && r.operator == FieldOperator::Equals)
            .map(|r| r.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            let operator = match requirement.operator {
                FieldOperator::Equals => "=",
                FieldOperator::NotEquals => "!=",
            };
            write!(
                f,
                "{}{operator}{}",
                requirement.field,
                escape(&requirement.value)
            )?;
        }
        Ok(())
    }
}

/// Splits at the commas without a backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == ',' {
            terms.push(&text[start..i]);
            start = i + 1;
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let equals = term.find('=')?;
    let unequal = term.find("!=");
    if let Some(at) = unequal.filter(|&at| at < equals) {
        return Some((&term[..at], FieldOperator::NotEquals, &term[at + 2..]));
    }
    let value = &term[equals + 1..];
    let value = value.strip_prefix('=').unwrap_or(value);
    Some((&term[..equals], FieldOperator::Equals, value))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    let message =
                        format!("invalid field selector: invalid escape sequence: {sequence}");
                    return Err(SelectorError(message));
                }
            },
            ',' | '=' => {
                // Kubernetes shows the character's number.
                let message = format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                );
                return Err(SelectorError(message));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace(',', r"\,")
        .replace('=', r"\=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(field: &str) -> &'static str {
        match field {
            "metadata.name" => "a",
            "status.phase" => "Running",
            "odd" => "a=b,c\\",
            _ => "",
        }
    }

    #[test]
    fn requirements_match_fields() {
        let cases = [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name!=a", false),
            ("metadata.name=a,status.phase!=Pending", true),
            ("metadata.name=a,metadata.name=b", false),
            ("absent=", true),
            ("absent!=x", true),
            (r"odd=a\=b\,c\\", true),
            (",,metadata.name=a,", true),
            ("=,metadata.name=a,!=", true),
        ];
        for (text, expected) in cases {
            assert_eq!(
                FieldSelector::parse(text).unwrap().matches(value_of),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn faults_are_reported_with_the_messages_of_kubernetes() {
        let cases = [
            (
                "metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
            (
                r"a=\x",
                r"invalid field selector: invalid escape sequence: \x",
            ),
            (
                r"a=\",
                r"invalid field selector: invalid escape sequence: \",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                FieldSelector::parse(text).unwrap_err().to_string(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn an_exact_requirement_is_found() {
        let selector = FieldSelector::parse("a!=x,metadata.name=b").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("b"));
        assert_eq!(selector.exact("a"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = FieldSelector::parse(&text);
        }

        #[test]
        fn the_text_reads_back(value in "\\PC{0,20}") {
            let selector = FieldSelector::new(vec![FieldRequirement {
                field: "f".to_owned(), operator: FieldOperator::NotEquals, value,
            }]);
            proptest::prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
        }
    }
}
