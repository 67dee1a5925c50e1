//! Holding values to a schema, with the texts of Kubernetes' own validator.

mod number;

use serde_json::{Map, Value};

use super::formats::has_format;
use super::{Additional, Structural};
use crate::field::{BadValue, Error, Path};

impl Structural {
    /// Checks a value against the schema.
    ///
    /// Errors name fields below `path`, their texts the path inside the value.
    /// With `old`, what it was before, faults of parts that did not change are
    /// tolerated: so an object that a tighter schema would refuse can still be
    /// worked with.
    pub fn validate(&self, value: &Value, old: Option<&Value>, path: &Path) -> Vec<Error> {
        let at = SchemaAt {
            schema: self,
            name: String::new(),
            base: path,
        };
        at.ratcheted(value, old).errors
    }
}

/// What a check found.
#[derive(Default)]
struct CheckResult {
    errors: Vec<Error>,
    /// How many checks were made that could have failed: the alternative of
    /// `anyOf` and `oneOf` with the most is the one whose errors are reported.
    matches: u32,
}

impl CheckResult {
    fn from_error(error: Error) -> Self {
        CheckResult {
            errors: vec![error],
            matches: 0,
        }
    }

    fn merge(&mut self, other: CheckResult) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

/// A schema and the path of the value that is validated by it.
struct SchemaAt<'s> {
    schema: &'s Structural,
    /// The path inside the value that is validated, as texts show it.
    name: String,
    /// Where that value is.
    base: &'s Path,
}

impl<'s> SchemaAt<'s> {
    fn field(&self) -> Path {
        match self.name.strip_prefix('.').unwrap_or(&self.name) {
            "" => self.base.clone(),
            name => self.base.child(name),
        }
    }

    fn at(&self, schema: &'s Structural, name: String) -> SchemaAt<'s> {
        SchemaAt {
            schema,
            name,
            base: self.base,
        }
    }

    /// Faults that a value shares with what it was before are no faults.
    fn ratcheted(&self, value: &Value, old: Option<&Value>) -> CheckResult {
        let outcome = self.check(value, old);
        if !outcome.is_valid() && old == Some(value) {
            return CheckResult::default();
        }
        outcome
    }

    fn check(&self, value: &Value, old: Option<&Value>) -> CheckResult {
        let mut outcome = CheckResult::default();
        let step = |outcome: &mut CheckResult, checked: CheckResult| {
            outcome.merge(checked);
            outcome.matches += 1;
        };
        if value.is_null() {
            outcome.merge(self.check_type(value));
            outcome.merge(self.check_allowed(value));
            return outcome;
        }
        if !self.schema.types().is_empty() || !self.schema.constraints.format.is_empty() {
            step(&mut outcome, self.check_type(value));
        }
        step(&mut outcome, self.check_combinations(value));
        if let Value::String(text) = value {
            step(&mut outcome, self.check_text(text));
            if let Some(fits) = has_format(text, &self.schema.constraints.format) {
                step(&mut outcome, self.check_format(text, fits));
            }
        }
        if let Value::Number(number) = value {
            step(&mut outcome, number::check(self, number));
        }
        if let Value::Array(items) = value {
            step(&mut outcome, self.check_items(items, old));
        }
        step(&mut outcome, self.check_allowed(value));
        if let Value::Object(members) = value {
            step(&mut outcome, self.check_members(members, old));
        }
        outcome.matches += 1;
        outcome
    }

    fn check_type(&self, value: &Value) -> CheckResult {
        let types = self.schema.types();
        let format = self.schema.constraints.format.as_str();
        let expected = types.join(",");
        if value.is_null() {
            if !types.is_empty() && !self.schema.nullable {
                return CheckResult::from_error(self.wrong_type(&expected, "null"));
            }
            return CheckResult {
                errors: Vec::new(),
                matches: 1,
            };
        }
        let (found, found_format) = type_of(value);
        let takes = |name: &str| types.contains(&name);
        let whole_float =
            found == "number" && takes("integer") && value.as_f64().is_some_and(number::is_whole);
        let fits = takes(found) || whole_float || (found == "integer" && takes("number"));
        let is_textual = value.is_string() || value.is_array();
        if !(is_textual || format.is_empty() || fits || found_format == format) {
            return CheckResult::from_error(self.wrong_type(format, found_format));
        }
        let is_numeric = takes("number") || takes("integer");
        let left_to_format = !is_numeric && !format.is_empty() && is_textual;
        if !left_to_format && !fits {
            return CheckResult::from_error(self.wrong_type(&expected, found));
        }
        CheckResult {
            errors: Vec::new(),
            matches: 1,
        }
    }

    fn wrong_type(&self, expected: &str, found: &str) -> Error {
        let quoted = crate::go_quote(found);
        let detail = format!("{} in body must be of type {expected}: {quoted}", self.name);
        Error::type_invalid(&self.field(), found, detail)
    }

    fn check_format(&self, text: &str, fits: bool) -> CheckResult {
        if fits {
            return CheckResult::default();
        }
        CheckResult::from_error(self.wrong_type(&self.schema.constraints.format, text))
    }

    fn check_text(&self, text: &str) -> CheckResult {
        let constraints = &self.schema.constraints;
        let length = text.chars().count() as i64;
        if let Some(max) = constraints.max_length
            && length > max
        {
            let error = match usize::try_from(max) {
                Ok(max) => Error::too_long(&self.field(), max),
                Err(_) => Error::new(
                    crate::field::ErrorKind::TooLong,
                    &self.field(),
                    BadValue::Omitted,
                    "value is too long",
                ),
            };
            return CheckResult::from_error(error);
        }
        if let Some(min) = constraints.min_length
            && length < min
        {
            return CheckResult::from_error(
                self.invalid(text, format!("should be at least {min} chars long")),
            );
        }
        if let Some(pattern) = &constraints.pattern
            && !pattern.matches(text)
        {
            return CheckResult::from_error(
                self.invalid(text, format!("should match '{}'", pattern.source())),
            );
        }
        CheckResult::default()
    }

    fn check_items(&self, items: &[Value], old: Option<&Value>) -> CheckResult {
        let constraints = &self.schema.constraints;
        let mut outcome = CheckResult::default();
        if let Some(schema) = &self.schema.items {
            let before = OldItems::new(self.schema, old);
            for (i, item) in items.iter().enumerate() {
                let at = self.at(schema, format!("{}[{i}]", self.name));
                outcome.merge(match before.correlate(self.schema, item) {
                    Some(old) => at.ratcheted(item, Some(old)),
                    None => at.check(item, None),
                });
            }
        }
        let size = items.len() as i64;
        if let Some(min) = constraints.min_items
            && size < min
        {
            outcome
                .errors
                .push(self.invalid(size, format!("should have at least {min} items")));
        }
        if let Some(max) = constraints.max_items
            && size > max
        {
            outcome.errors.push(self.too_many(items.len(), max));
        }
        outcome.matches += 1;
        outcome
    }

    fn check_members(&self, members: &Map<String, Value>, old: Option<&Value>) -> CheckResult {
        let constraints = &self.schema.constraints;
        let mut outcome = CheckResult::default();
        let size = members.len() as i64;
        if let Some(min) = constraints.min_properties
            && size < min
        {
            let detail = format!("should have at least {min} properties");
            outcome.errors.push(self.invalid(size, detail));
        }
        if let Some(max) = constraints.max_properties
            && size > max
        {
            outcome.errors.push(self.too_many(members.len(), max));
        }
        let others = members
            .iter()
            .filter(|(name, _)| !self.schema.properties.contains_key(*name));
        match &self.schema.additional_properties {
            Some(Additional::Allowed(false)) => {
                for (name, _) in others {
                    let detail = format!("{}.{name} in body is a forbidden property", self.name);
                    outcome
                        .errors
                        .push(Error::invalid(&self.field(), name.as_str(), detail));
                }
            }
            Some(Additional::Schema(schema)) => {
                for (name, member) in others {
                    let at = self.at(schema, format!("{}.{name}", self.name));
                    outcome.merge(self.check_member(&at, name, member, old));
                }
            }
            Some(Additional::Allowed(true)) | None => {}
        }
        for (name, schema) in &self.schema.properties {
            let Some(member) = members.get(name) else {
                continue;
            };
            let path = match self.name.as_str() {
                "" => name.clone(),
                outer => format!("{outer}.{name}"),
            };
            outcome.merge(self.check_member(&self.at(schema, path), name, member, old));
        }
        for name in &constraints.required {
            if !members.contains_key(name) {
                let path = format!("{}.{name}", self.name);
                outcome
                    .errors
                    .push(Error::required(&self.at(self.schema, path).field(), ""));
            }
        }
        outcome
    }

    fn check_member(
        &self,
        at: &SchemaAt<'_>,
        name: &str,
        member: &Value,
        old: Option<&Value>,
    ) -> CheckResult {
        let is_type = self.name.is_empty() && matches!(name, "kind" | "apiVersion");
        match old.and_then(|old| old.get(name)) {
            Some(old) if !is_type => at.ratcheted(member, Some(old)),
            _ => at.check(member, None),
        }
    }

    fn check_allowed(&self, value: &Value) -> CheckResult {
        let allowed = &self.schema.constraints.allowed;
        if allowed.is_empty() || allowed.iter().any(|choice| equals(value, choice)) {
            return CheckResult::default();
        }
        let texts: Vec<String> = allowed
            .iter()
            .map(|choice| match choice {
                Value::String(text) => text.clone(),
                other => crate::go_json(other),
            })
            .collect();
        CheckResult::from_error(Error::not_supported(&self.field(), value.clone(), &texts))
    }

    fn check_combinations(&self, value: &Value) -> CheckResult {
        let constraints = &self.schema.constraints;
        let check = |schema: &Structural| {
            SchemaAt {
                schema,
                name: self.name.clone(),
                base: self.base,
            }
            .check(value, None)
        };
        let quoted = crate::go_quote(&self.name);
        let mut outcome = CheckResult::default();

        if !constraints.any_of.is_empty() {
            let mut best: Option<CheckResult> = None;
            let mut succeeded = None;
            for schema in &constraints.any_of {
                let result = check(schema);
                if result.is_valid() {
                    succeeded = Some(result);
                    break;
                }
                keep_best(&mut best, result);
            }
            match succeeded {
                Some(result) => outcome.merge(result),
                None => {
                    let text = format!("{quoted} must validate at least one schema (anyOf)");
                    outcome.errors.push(self.about_all(text));
                    best.into_iter().for_each(|best| outcome.merge(best));
                }
            }
        }
        if !constraints.one_of.is_empty() {
            let mut best: Option<CheckResult> = None;
            let mut succeeded = Vec::new();
            for schema in &constraints.one_of {
                let result = check(schema);
                if result.is_valid() {
                    succeeded.push(result);
                } else {
                    keep_best(&mut best, result);
                }
            }
            let found = match succeeded.len() {
                1 => None,
                0 => Some("Found none valid".to_owned()),
                n => Some(format!("Found {n} valid alternatives")),
            };
            match found {
                None => outcome.merge(succeeded.remove(0)),
                Some(found) => {
                    let text =
                        format!("{quoted} must validate one and only one schema (oneOf). {found}");
                    outcome.errors.push(self.about_all(text));
                    if succeeded.is_empty() {
                        best.into_iter().for_each(|best| outcome.merge(best));
                    }
                }
            }
        }
        if !constraints.all_of.is_empty() {
            let mut valid = 0;
            for schema in &constraints.all_of {
                let result = check(schema);
                valid += usize::from(result.is_valid());
                outcome.merge(result);
            }
            if valid != constraints.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                let text = format!("{quoted} must validate all the schemas (allOf){none}");
                outcome.errors.push(self.about_all(text));
            }
        }
        if let Some(not) = &constraints.not
            && check(not).is_valid()
        {
            let text = format!("{quoted} must not validate the schema (not)");
            outcome.errors.push(self.about_all(text));
        }
        outcome.matches += 1;
        outcome
    }

    /// `name in body …`, about the value here.
    fn invalid(&self, value: impl Into<BadValue>, rule: String) -> Error {
        Error::invalid(
            &self.field(),
            value,
            format!("{} in body {rule}", self.name),
        )
    }

    fn too_many(&self, size: usize, max: i64) -> Error {
        match usize::try_from(max) {
            Ok(max) => Error::too_many(&self.field(), size, max),
            Err(_) => Error::new(
                crate::field::ErrorKind::TooMany,
                &self.field(),
                size,
                "has too many items",
            ),
        }
    }

    /// An error that names no field of its own.
    fn about_all(&self, text: String) -> Error {
        Error::invalid(self.base, "", text)
    }
}

fn keep_best(best: &mut Option<CheckResult>, result: CheckResult) {
    if best
        .as_ref()
        .is_none_or(|best| result.matches > best.matches)
    {
        *best = Some(result);
    }
}

impl Structural {
    /// The JSON types a value may have; none if it may have any.
    fn types(&self) -> Vec<&str> {
        if self.int_or_string {
            return vec!["integer", "string"];
        }
        Some(self.type_name.as_str())
            .filter(|t| !t.is_empty())
            .into_iter()
            .collect()
    }
}

/// The JSON type of a value, and the format of a number.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
    }
}

/// Whether a value is one of those allowed; `1.0` is `1`, but null is nothing.
fn equals(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => value == choice,
    }
}

/// What the items of a list were before, by their keys.
struct OldItems<'o> {
    by_key: std::collections::BTreeMap<String, &'o Value>,
}

impl<'o> OldItems<'o> {
    /// Only the items of a list of type `map` can be identified.
    fn new(schema: &Structural, old: Option<&'o Value>) -> Self {
        let items = match (schema.list_type.as_deref(), old) {
            (Some("map"), Some(Value::Array(items))) => items.as_slice(),
            _ => &[],
        };
        let by_key = items
            .iter()
            .map(|item| (schema.key_of(item).to_string(), item))
            .collect();
        OldItems { by_key }
    }

    fn correlate(&self, schema: &Structural, item: &Value) -> Option<&'o Value> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&schema.key_of(item).to_string()).copied()
    }
}

#[cfg(test)]
mod tests;
