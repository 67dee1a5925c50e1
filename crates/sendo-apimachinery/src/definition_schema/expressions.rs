//! What the rules of a schema say: whether they compile, and what they cost.

use serde_json::Value;

use crate::cel::Declared;
use crate::field::{BadValue, Error, Path};
use crate::go_text::go_json;
use crate::structural::{Additional, Structural};
use crate::validation_rules::{Rule, declared_property};

/// What one rule may cost at most.
const RULE_LIMIT: u64 = 10_000_000;
/// What all rules of a schema may cost at most.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are named.
const NAMED: usize = 4;
const MAX_REQUEST: i64 = crate::cel::MAX_REQUEST;

/// Checks all rules of a schema; rules beside one of the `known` errors are skipped.
pub(super) fn check(schema: &Structural, path: &Path, known: &[Error]) -> Vec<Error> {
    if !schema.has_validations() {
        return Vec::new();
    }
    let declared = Declared::from_schema(schema, true);
    let mut check = Check {
        known,
        errors: Vec::new(),
        total: 0,
        expensive: Vec::new(),
    };
    let context = RuleContext {
        path: path.clone(),
        repeats: Some(1),
        uncorrelatable: None,
    };
    check.schema(schema, declared.as_ref(), &context);
    if check.total > SCHEMA_LIMIT {
        for (at, _) in &check.expensive {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            check.errors.push(Error::forbidden(at, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = too_expensive(what, check.total, SCHEMA_LIMIT);
        check.errors.push(Error::forbidden(path, why));
    }
    check.errors
}

struct Check<'k> {
    known: &'k [Error],
    errors: Vec<Error>,
    total: u64,
    expensive: Vec<(Path, u64)>,
}

#[derive(Clone)]
struct RuleContext {
    path: Path,
    /// How often the value can be there; none if nothing limits it.
    repeats: Option<u64>,
    /// The list above whose items cannot be identified.
    uncorrelatable: Option<Path>,
}

impl RuleContext {
    /// The place of a schema inside of `schema`.
    fn below(&self, schema: &Structural, path: Path) -> RuleContext {
        let bound = match (schema.type_name.as_str(), &schema.additional_properties) {
            ("object", Some(_)) => schema.constraints.max_properties,
            ("array", _) => schema.constraints.max_items,
            _ => Some(1),
        };
        let repeats = match (self.repeats, bound) {
            (Some(repeats), Some(bound)) => {
                Some(repeats.saturating_mul(u64::try_from(bound).unwrap_or(0)))
            }
            _ => None,
        };
        RuleContext {
            path,
            repeats,
            uncorrelatable: self.uncorrelatable.clone(),
        }
    }
}

impl Check<'_> {
    fn schema(&mut self, schema: &Structural, declared: Option<&Declared>, context: &RuleContext) {
        if !schema.has_validations() {
            return;
        }
        let element = declared.and_then(|declared| declared.element.as_deref());
        if let Some(Additional::Schema(values)) = &schema.additional_properties {
            let below = context.below(schema, context.path.child("additionalProperties"));
            self.schema(values, element, &below);
        }
        for (name, property) in &schema.properties {
            let of = match declared {
                Some(declared) => declared_property(property, name, declared),
                None => None,
            };
            let of = of.or_else(|| Declared::from_schema(property, property.embedded_resource));
            let below = context.below(schema, context.path.child("properties").key(name));
            self.schema(property, of.as_ref(), &below);
        }
        if let Some(items) = &schema.items {
            let mut below = context.below(schema, context.path.child("items"));
            if schema.list_type.as_deref() != Some("map") && below.uncorrelatable.is_none() {
                below.uncorrelatable = Some(context.path.clone());
            }
            self.schema(items, element, &below);
        }
        self.rules(schema, declared, context);
    }

    fn rules(&mut self, schema: &Structural, declared: Option<&Declared>, context: &RuleContext) {
        let inside = context.path.to_string();
        if schema.validations.is_empty()
            || self
                .known
                .iter()
                .any(|error| error.field.starts_with(&inside))
        {
            return;
        }
        let path = context.path.child("x-kubernetes-validations");
        let Some(declared) = declared else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(Error::internal(&path, why));
            return;
        };
        // Where nothing else limits it, the size of a request does.
        let repeats = context
            .repeats
            .unwrap_or((MAX_REQUEST / (declared.min_size + 1)) as u64);
        for (i, given) in schema.validations.iter().enumerate() {
            let rule = Rule::compile(given, schema, declared);
            self.rule(&rule, given, repeats, &path.index(i), context);
        }
    }

    fn rule(
        &mut self,
        rule: &Rule,
        given: &Value,
        repeats: u64,
        path: &Path,
        context: &RuleContext,
    ) {
        let at = path.child("rule");
        let cost = rule
            .program
            .as_ref()
            .map_or(0, |program| program.max_cost());
        let cost = cost.saturating_mul(repeats);
        if cost > RULE_LIMIT {
            let why = too_expensive("estimated rule cost", cost, RULE_LIMIT);
            self.errors.push(Error::forbidden(&at, why));
        }
        self.count(&at, cost);
        if let Err(why) = &rule.program {
            self.errors
                .push(Error::invalid(&at, in_go(given), why.clone()));
        }
        match &rule.message_program {
            None => {}
            Some(Err(why)) => {
                let at = path.child("messageExpression");
                self.errors
                    .push(Error::invalid(&at, in_go(given), why.clone()));
            }
            Some(Ok(program)) => {
                let at = path.child("messageExpression");
                if program.max_cost() > RULE_LIMIT {
                    let what = "estimated messageExpression cost";
                    let why = too_expensive(what, program.max_cost(), RULE_LIMIT);
                    self.errors.push(Error::forbidden(&at, why));
                }
                self.count(&at, program.max_cost());
            }
        }
        let optional = given
            .get("optionalOldSelf")
            .filter(|value| !value.is_null());
        match (rule.uses_old_self(), &context.uncorrelatable, optional) {
            (true, Some(list), _) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors
                    .push(Error::invalid(&at, given["rule"].clone(), why));
            }
            (false, _, Some(optional)) => {
                let at = path.child("optionalOldSelf");
                let why = "may not be set if oldSelf is not used in rule";
                self.errors.push(Error::invalid(&at, optional.clone(), why));
            }
            _ => {}
        }
    }

    fn count(&mut self, at: &Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        self.expensive.push((at.clone(), cost));
        self.expensive
            .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.expensive.truncate(NAMED);
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as Go shows its own form of it.
fn in_go(rule: &Value) -> BadValue {
    let text = |name: &str| go_json(&rule[name].as_str().unwrap_or_default().into());
    BadValue::Raw(format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        go_json(&rule["reason"]),
        text("fieldPath"),
        rule["optionalOldSelf"],
    ))
}
