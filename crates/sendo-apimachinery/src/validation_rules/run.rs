//! Running the rules of a schema over an object.

use serde_json::Value as Json;

use super::correlate::{Pair, item_by_keys};
use super::{Node, OLD_SELF, Rule, Rules, SELF};
use crate::cel::{CALL_LIMIT, Fault, Value};
use crate::field::{BadValue, Error, ErrorKind, Path};
use crate::structural::{Additional, Structural};

/// What all rules together may cost for one object.
const BUDGET: u64 = 10_000_000;
/// How long a message may be that an expression makes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What rules say of an object.
#[derive(Debug, Default)]
pub struct ValidationResult {
    /// What is wrong.
    pub errors: Vec<Error>,
    /// What is wrong and was so before, in a part that did not change.
    pub tolerated: Vec<Error>,
}

impl Rules {
    /// Runs all rules over a new object, or over a changed one.
    ///
    /// Stops when the rules have cost more than an object's rules may.
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> ValidationResult {
        let mut run = Run {
            result: ValidationResult::default(),
            left: BUDGET,
        };
        if let Some(root) = &self.root {
            let rule_value = RuleValue {
                schema: &self.schema,
                value: object,
                old,
                current: old.map(|old| Pair::new(object, old, &self.schema)),
                nearest: None,
            };
            // An error is in the result already.
            let _ = run.node(root, rule_value, &Path::root());
        }
        run.result
    }
}

/// No further rules are run.
struct Stop;

struct Run {
    result: ValidationResult,
    left: u64,
}

/// A value with its schema and what it was before.
#[derive(Clone, Copy)]
struct RuleValue<'o> {
    schema: &'o Structural,
    value: &'o Json,
    /// The value that transition rules compare with.
    old: Option<&'o Json>,
    /// The value with what it was before, for telling whether it changed.
    current: Option<Pair<'o>>,
    /// The same of the nearest value above that is known.
    nearest: Option<Pair<'o>>,
}

impl<'o> RuleValue<'o> {
    fn member(&self, name: &str, schema: &'o Structural, value: &'o Json) -> RuleValue<'o> {
        let (current, nearest) = match self.current {
            // Kind and version are the same on both sides, whatever was stored.
            Some(_) if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") => {
                (None, None)
            }
            Some(pair) => (pair.member(name), Some(pair)),
            None => (None, self.nearest),
        };
        RuleValue {
            schema,
            value,
            old: self.old.and_then(|old| old.get(name)),
            current,
            nearest,
        }
    }

    fn item(&self, index: usize, schema: &'o Structural, value: &'o Json) -> RuleValue<'o> {
        let (current, nearest) = match self.current {
            Some(pair) => (pair.item(index), Some(pair)),
            None => (None, self.nearest),
        };
        let before = self.old.and_then(Json::as_array);
        RuleValue {
            schema,
            value,
            old: before.and_then(|items| item_by_keys(self.schema, items, value, index)),
            current,
            nearest,
        }
    }

    fn is_unchanged(&self) -> bool {
        let pair = self.current.or(self.nearest);
        pair.is_some_and(|pair| pair.is_unchanged())
    }
}

impl Run {
    fn node(&mut self, node: &Node, rule_value: RuleValue<'_>, path: &Path) -> Result<(), Stop> {
        if rule_value.value.is_null() {
            return Ok(());
        }
        self.rules(&node.rules, rule_value, path)?;
        match rule_value.value {
            Json::Array(items) => {
                let (Some(below), Some(schema)) = (&node.items, rule_value.schema.items.as_deref())
                else {
                    return Ok(());
                };
                for (i, item) in items.iter().enumerate() {
                    self.node(below, rule_value.item(i, schema, item), &path.index(i))?;
                }
            }
            Json::Object(members) => {
                for (name, member) in members {
                    if let (Some(below), Some(Additional::Schema(schema))) =
                        (&node.additional, &rule_value.schema.additional_properties)
                    {
                        self.node(
                            below,
                            rule_value.member(name, schema, member),
                            &path.key(name),
                        )?;
                    }
                    if let (Some(below), Some(schema)) = (
                        node.properties.get(name),
                        rule_value.schema.properties.get(name),
                    ) {
                        self.node(
                            below,
                            rule_value.member(name, schema, member),
                            &path.child(name),
                        )?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        rules: &[Rule],
        rule_value: RuleValue<'_>,
        path: &Path,
    ) -> Result<(), Stop> {
        if rules.is_empty() {
            return Ok(());
        }
        let kind = rule_value.schema.type_name.as_str();
        if self.left == 0 {
            return Err(self.out_of_budget(path, kind));
        }
        let value = Value::from_json(rule_value.value, rule_value.schema);
        let needs_old = rules.iter().any(Rule::uses_old_self);
        let old = rule_value
            .old
            .filter(|old| needs_old && !old.is_null())
            .map(|old| Value::from_json(old, rule_value.schema));
        for rule in rules {
            let uses_old = rule.uses_old_self();
            if uses_old && old.is_none() && !rule.optional_old_self {
                continue;
            }
            self.rule(rule, &value, old.as_ref(), rule_value, path)?;
        }
        Ok(())
    }

    fn rule<'a>(
        &mut self,
        rule: &'a Rule,
        value: &Result<Value<'a>, Fault>,
        old: Option<&Result<Value<'a>, Fault>>,
        rule_value: RuleValue<'_>,
        path: &Path,
    ) -> Result<(), Stop> {
        let kind = rule_value.schema.type_name.as_str();
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                self.refuse(path, kind, format!("rule compile error: {why}"));
                return Ok(());
            }
        };
        let mut variables = Vec::with_capacity(2);
        let failed = |fault: &Fault| format!("{fault} evaluating rule: {}", rule.shown());
        match value {
            Ok(value) => variables.push((SELF, value.clone())),
            Err(fault) => {
                self.refuse(path, kind, failed(fault));
                return Ok(());
            }
        }
        match old {
            Some(Ok(old)) if rule.optional_old_self => {
                variables.push((OLD_SELF, Value::some(old.clone())));
            }
            Some(Ok(old)) => variables.push((OLD_SELF, old.clone())),
            Some(Err(fault)) => {
                self.refuse(path, kind, failed(fault));
                return Ok(());
            }
            None if rule.optional_old_self => variables.push((OLD_SELF, Value::Optional(None))),
            None => {}
        }
        let outcome = program.eval(&variables, CALL_LIMIT);
        if outcome.cost > self.left {
            return Err(self.out_of_budget(path, kind));
        }
        self.left -= outcome.cost;
        match outcome.result {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(fault @ Fault::TooExpensive) => {
                let why = format!(
                    "'{fault}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.shown()
                );
                self.refuse(path, kind, why);
                return Err(Stop);
            }
            Err(fault) if fault.to_string().starts_with("no such overload") => {
                let why = format!(
                    "'{fault}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    rule.shown()
                );
                self.refuse(path, kind, why);
                return Ok(());
            }
            Err(fault) => {
                self.refuse(path, kind, failed(&fault));
                return Ok(());
            }
        }
        self.broken(rule, &variables, rule_value, path)
    }

    /// Tells of a rule that an object breaks.
    fn broken<'a>(
        &mut self,
        rule: &'a Rule,
        variables: &[(&'static str, Value<'a>)],
        rule_value: RuleValue<'_>,
        path: &Path,
    ) -> Result<(), Stop> {
        let kind = rule_value.schema.type_name.as_str();
        let path = match &rule.field_path {
            Some(below) => path.child(below),
            None => path.clone(),
        };
        let tolerated = !rule.uses_old_self() && rule_value.is_unchanged();
        let detail = match self.message(rule, variables) {
            Ok(message) => message.unwrap_or_else(|| rule.complaint()),
            Err(why) => {
                self.report(tolerated, Error::invalid(&path, kind, why));
                return Err(Stop);
            }
        };
        let value = || match kind {
            "object" | "array" => BadValue::Omitted,
            _ => rule_value.value.clone().into(),
        };
        let error = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => Error::forbidden(&path, detail),
            Some("FieldValueRequired") => Error::required(&path, detail),
            Some("FieldValueDuplicate") => Error::new(ErrorKind::Duplicate, &path, value(), ""),
            _ => Error::new(ErrorKind::Invalid, &path, value(), detail),
        };
        self.report(tolerated, error);
        Ok(())
    }

    /// The message that an expression makes; none if it makes none that can be used.
    fn message<'a>(
        &mut self,
        rule: &'a Rule,
        variables: &[(&'static str, Value<'a>)],
    ) -> Result<Option<String>, String> {
        let Some(Ok(program)) = &rule.message_program else {
            return Ok(None);
        };
        let outcome = program.eval(variables, CALL_LIMIT);
        if outcome.cost > self.left {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned());
        }
        if let Err(Fault::TooExpensive) = outcome.result {
            return Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                crate::go_quote(&rule.message_expression)
            ));
        }
        self.left -= outcome.cost;
        let Ok(Value::Text(text)) = outcome.result else {
            return Ok(None);
        };
        let text = text.trim();
        let usable = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        Ok(usable.then(|| text.to_owned()))
    }

    fn report(&mut self, tolerated: bool, error: Error) {
        if tolerated {
            self.result.tolerated.push(error);
        } else {
            self.result.errors.push(error);
        }
    }

    fn refuse(&mut self, path: &Path, kind: &str, why: String) {
        self.result.errors.push(Error::invalid(path, kind, why));
    }

    fn out_of_budget(&mut self, path: &Path, kind: &str) -> Stop {
        let why = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.refuse(path, kind, why.to_owned());
        Stop
    }
}
