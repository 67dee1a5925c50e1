//! Expressions that run with the same variables, one after the other.
//!
//! Beside its variables an activation keeps what expressions share: composed variables, each of
//! which is evaluated where it is first used, and the answers of the authoriser.

use std::collections::BTreeMap;

use super::eval::{Fault, Machine, Result};
use super::value::{Check, Decision};
use super::{CALL_LIMIT, Outcome, Program, Type, Value};

/// Variables that are expressions themselves.
#[derive(Debug, Default)]
pub struct Composed {
    programs: Vec<(String, Result<Program, String>)>,
}

impl Composed {
    /// Adds a variable, or why its expression cannot run.
    pub fn add(&mut self, name: impl Into<String>, program: Result<Program, String>) {
        self.programs.push((name.into(), program));
    }

    /// The names of the variables, with their types.
    pub(super) fn types(&self) -> impl Iterator<Item = (&str, Type)> {
        self.programs.iter().map(|(name, program)| {
            let kind = program.as_ref().map(|program| visible(program.output()));
            (name.as_str(), kind.unwrap_or(Type::Dyn))
        })
    }

    pub(super) fn find(&self, name: &str) -> Option<(&str, &Result<Program, String>)> {
        let (name, program) = self.programs.iter().rev().find(|(own, _)| own == name)?;
        Some((name, program))
    }
}

/// The type that a composed variable has for others: of objects nothing is known.
fn visible(kind: &Type) -> Type {
    match kind {
        Type::List(item) => Type::list(visible(item)),
        Type::Map(entry) => Type::map(visible(&entry.0), visible(&entry.1)),
        Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::Text
        | Type::Bytes
        | Type::Null
        | Type::Duration
        | Type::Timestamp => kind.clone(),
        _ => Type::Dyn,
    }
}

/// What expressions share beside their variables.
#[derive(Debug, Default)]
pub(super) struct Shared<'a> {
    pub(super) composed: Option<&'a Composed>,
    /// The composed variables that were evaluated.
    pub(super) values: BTreeMap<&'a str, Result<Value<'a>>>,
    /// What their evaluation has cost.
    pub(super) cost: u64,
    /// What the authoriser has answered.
    pub(super) decisions: BTreeMap<Check, Decision>,
}

/// The variables of expressions, with what these share.
#[derive(Debug)]
pub struct Activation<'a> {
    variables: Vec<(&'static str, Value<'a>)>,
    shared: Shared<'a>,
}

impl<'a> Activation<'a> {
    /// An activation with these variables, and with composed ones as the variable `variables`.
    pub fn new(
        mut variables: Vec<(&'static str, Value<'a>)>,
        composed: Option<&'a Composed>,
    ) -> Self {
        if composed.is_some() {
            variables.push((VARIABLES, Value::Composed));
        }
        let shared = Shared {
            composed,
            ..Shared::default()
        };
        Activation { variables, shared }
    }

    /// Takes the answer of the authoriser to what an evaluation asked for ([`Fault::Undecided`]).
    pub fn decide(&mut self, check: Check, decision: Decision) {
        self.shared.decisions.insert(check, decision);
    }

    /// What the evaluation of composed variables has cost since this was last asked.
    pub fn take_composed_cost(&mut self) -> u64 {
        std::mem::take(&mut self.shared.cost)
    }

    /// Evaluates an expression, and the composed variables it uses.
    ///
    /// Each stops as soon as it has cost more than `limit`; what composed variables cost is
    /// counted apart. After [`Fault::Undecided`] it is to be evaluated again.
    pub fn eval(&mut self, program: &'a Program, limit: u64) -> Outcome<'a> {
        loop {
            let outcome = self.run(program, limit, |machine| {
                machine.begin(program.parsed.root.depth());
                machine.eval(&program.parsed.root)
            });
            let Err(Fault::Unevaluated(name)) = &outcome.result else {
                return outcome;
            };
            let mut wanted = vec![name.clone()];
            while let Some(name) = wanted.last().cloned() {
                let result = self
                    .run(program, limit, |machine| machine.composed(&name))
                    .result;
                match result {
                    Err(Fault::Unevaluated(deeper)) => wanted.push(deeper),
                    Err(fault @ Fault::Undecided(_)) => {
                        return Outcome {
                            result: Err(fault),
                            cost: 0,
                        };
                    }
                    _ => drop(wanted.pop()),
                }
            }
        }
    }

    fn run(
        &mut self,
        program: &'a Program,
        limit: u64,
        run: impl FnOnce(&mut Machine<'a>) -> Result<Value<'a>>,
    ) -> Outcome<'a> {
        let mut machine = Machine::new(&program.checked, &self.variables, limit);
        machine.shared = std::mem::take(&mut self.shared);
        let result = run(&mut machine);
        self.shared = std::mem::take(&mut machine.shared);
        Outcome {
            result,
            cost: machine.spent(),
        }
    }
}

/// The variable that has the composed variables as fields.
pub(super) const VARIABLES: &str = "variables";

impl<'a> Machine<'a> {
    /// The value of a composed variable.
    pub(super) fn composed(&mut self, name: &str) -> Result<Value<'a>> {
        let found = self.shared.composed.and_then(|all| all.find(name));
        let Some((name, program)) = found else {
            return Err(Fault::new(format!("no such key: {name}")));
        };
        if let Some(known) = self.shared.values.get(name) {
            return known.clone();
        }
        let failed = |how: &str, why: &dyn std::fmt::Display| {
            let name = crate::go_text::go_quote(name);
            Fault::new(format!("composited variable {name} fails to {how}: {why}"))
        };
        let value = match program {
            Err(why) => Err(failed("compile", why)),
            Ok(program) => match self.nested(name, program) {
                Err(fault @ (Fault::Undecided(_) | Fault::Unevaluated(_))) => return Err(fault),
                Err(fault) => Err(failed("evaluate", &fault)),
                Ok(value) => Ok(value),
            },
        };
        self.shared.values.insert(name, value.clone());
        value
    }

    /// Evaluates the expression of a composed variable inside of another expression.
    fn nested(&mut self, name: &str, program: &'a Program) -> Result<Value<'a>> {
        let Some(outer) = self.enter(&program.checked, program.parsed.root.depth(), CALL_LIMIT)
        else {
            return Err(Fault::Unevaluated(name.to_owned()));
        };
        let result = self.eval(&program.parsed.root);
        let cost = self.leave(outer);
        if !matches!(result, Err(Fault::Undecided(_) | Fault::Unevaluated(_))) {
            self.shared.cost = self.shared.cost.saturating_add(cost);
        }
        result
    }

    /// The answer of the authoriser.
    pub(super) fn decision(&self, check: Check) -> Result<Decision> {
        match self.shared.decisions.get(&check) {
            Some(decision) => Ok(decision.clone()),
            None => Err(Fault::Undecided(Box::new(check))),
        }
    }
}
