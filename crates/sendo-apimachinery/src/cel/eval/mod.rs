//! Running a checked expression, step by step, with a budget.

mod budget;
mod fold;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Outcome;
use super::activation::Shared;
use super::check::Checked;
use super::cost::{self, NEW_LIST, NEW_MAP, NEW_OBJECT};
use super::functions::{self, Form, Special};
use super::syntax::{Expr, Kind, Literal, MAX_DEPTH, Parsed};
use super::types::Type;
use super::value::{Check, Key, Made, Map, Text, Value};
use crate::structural::Pattern;

pub(super) use budget::PatternFault;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It failed.
    Failed(String),
    /// It cost more than it may.
    TooExpensive,
    /// It needs the answer of the authoriser, and is to be evaluated again with it
    /// ([`Activation::decide`](super::Activation::decide)).
    Undecided(Box<Check>),
    /// It needs a composed variable whose evaluation would nest too deep: it is to be evaluated
    /// again after that variable.
    #[doc(hidden)]
    Unevaluated(String),
}

impl Fault {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Fault::Failed(text.into())
    }

    pub(super) fn no_such_overload() -> Self {
        Fault::new("no such overload")
    }

    /// Whether the evaluation ends with it, so that nothing in the expression outweighs it.
    fn ends(&self) -> bool {
        !matches!(self, Fault::Failed(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Failed(text) => f.write_str(text),
            Fault::TooExpensive => f.write_str("operation cancelled: actual cost limit exceeded"),
            Fault::Undecided(_) => f.write_str("the authorizer was not asked"),
            Fault::Unevaluated(name) => write!(f, "variable {name:?} is not evaluated"),
        }
    }
}

impl std::error::Error for Fault {}

pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

pub(super) fn run<'a>(
    parsed: &'a Parsed,
    checked: &'a Checked,
    variables: &[(&'static str, Value<'a>)],
    limit: u64,
) -> Outcome<'a> {
    let mut machine = Machine::new(checked, variables, limit);
    let result = machine.eval(&parsed.root);
    Outcome {
        result,
        cost: machine.cost,
    }
}

/// An expression that runs.
pub(super) struct Machine<'a> {
    checked: &'a Checked,
    /// Variables with their values; those of loops may have failed.
    scopes: Vec<(&'a str, Result<Value<'a>>)>,
    cost: u64,
    limit: u64,
    patterns: BTreeMap<String, Pattern>,
    compiled: usize,
    /// How many of the scopes are variables of the expression.
    globals: usize,
    /// How deep the expressions that run are nested, one in the other.
    depth: u16,
    /// What expressions share.
    pub(super) shared: Shared<'a>,
}

/// The expression around a composed variable, while that is evaluated.
pub(super) struct Outer<'a> {
    checked: &'a Checked,
    scopes: Vec<(&'a str, Result<Value<'a>>)>,
    cost: u64,
    limit: u64,
    depth: u16,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        checked: &'a Checked,
        variables: &[(&'static str, Value<'a>)],
        limit: u64,
    ) -> Self {
        let scope = |(name, value): &(&'static str, Value<'a>)| (*name, Ok(value.clone()));
        Machine {
            checked,
            scopes: variables.iter().map(scope).collect(),
            cost: 0,
            limit,
            patterns: BTreeMap::new(),
            compiled: 0,
            globals: variables.len(),
            depth: 0,
            shared: Shared::default(),
        }
    }

    /// Counts how deep the expression that runs is nested.
    pub(super) fn begin(&mut self, depth: u16) {
        self.depth = depth;
    }

    /// What was spent so far.
    pub(super) fn spent(&self) -> u64 {
        self.cost
    }

    /// Begins to evaluate another expression with the same variables, unless that would nest
    /// too deep.
    pub(super) fn enter(
        &mut self,
        checked: &'a Checked,
        depth: u16,
        limit: u64,
    ) -> Option<Outer<'a>> {
        let depth = self.depth + depth;
        if depth > MAX_DEPTH {
            return None;
        }
        let globals = self.scopes[..self.globals].to_vec();
        Some(Outer {
            checked: std::mem::replace(&mut self.checked, checked),
            scopes: std::mem::replace(&mut self.scopes, globals),
            cost: std::mem::take(&mut self.cost),
            limit: std::mem::replace(&mut self.limit, limit),
            depth: std::mem::replace(&mut self.depth, depth),
        })
    }

    /// Goes back to the expression around; tells what the inner one has cost.
    pub(super) fn leave(&mut self, outer: Outer<'a>) -> u64 {
        self.checked = outer.checked;
        self.scopes = outer.scopes;
        self.limit = outer.limit;
        self.depth = outer.depth;
        std::mem::replace(&mut self.cost, outer.cost)
    }

    pub(super) fn eval(&mut self, expr: &'a Expr) -> Result<Value<'a>> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(literal_value(literal)),
            Kind::Ident(name) => {
                self.spend(1)?;
                self.variable(name)
            }
            Kind::Select {
                operand,
                field,
                test,
            } => self.select(expr, operand, field, *test),
            Kind::Call { target, args, .. } => self.call(expr, target.as_deref(), args),
            Kind::List(items) => {
                let constant = items
                    .iter()
                    .all(|item| !item.optional && matches!(item.value.kind, Kind::Literal(_)));
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.eval(&item.value)?;
                    match value {
                        Value::Optional(inner) if item.optional => {
                            values.extend(inner.map(|inner| (*inner).clone()));
                        }
                        value => values.push(value),
                    }
                }
                // Lists of literals are made once, before anything runs.
                self.spend(if constant { 0 } else { NEW_LIST })?;
                Ok(Value::list(values))
            }
            Kind::Map(entries) => {
                let mut made = BTreeMap::new();
                let mut constant = true;
                for entry in entries {
                    constant &= !entry.optional
                        && matches!(entry.key.kind, Kind::Literal(_))
                        && matches!(entry.value.kind, Kind::Literal(_));
                    let key = self.eval(&entry.key)?;
                    let key = Key::from_value(&key).ok_or_else(|| {
                        Fault::new(format!("unsupported key type: {}", key.kind()))
                    })?;
                    match self.eval(&entry.value)? {
                        Value::Optional(None) if entry.optional => {}
                        Value::Optional(Some(inner)) if entry.optional => {
                            made.insert(key, (*inner).clone());
                        }
                        value => {
                            made.insert(key, value);
                        }
                    }
                }
                self.spend(if constant { 0 } else { NEW_MAP })?;
                Ok(Value::Map(Map::Entries(made.into())))
            }
            Kind::Struct { name, fields } => {
                let mut made = BTreeMap::new();
                for field in fields {
                    let value = match self.eval(&field.value)? {
                        Value::Optional(None) if field.optional => continue,
                        Value::Optional(Some(inner)) if field.optional => (*inner).clone(),
                        value => value,
                    };
                    made.insert(field.name.clone(), value);
                }
                self.spend(NEW_OBJECT)?;
                let name = Arc::from(name.as_str());
                let made = Made { name, fields: made };
                Ok(Value::Made(Arc::new(made)))
            }
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn variable(&mut self, name: &str) -> Result<Value<'a>> {
        if let Some((_, value)) = self.scopes.iter().rev().find(|(own, _)| *own == name) {
            return value.clone();
        }
        match functions::type_named(name) {
            Some(kind) => Ok(kind_value(&kind)),
            None => Err(Fault::new(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(
        &mut self,
        expr: &'a Expr,
        operand: &'a Expr,
        field: &'a str,
        test: bool,
    ) -> Result<Value<'a>> {
        if let Some(name) = self.checked.qualified(expr) {
            self.spend(1)?;
            return self.variable(&name);
        }
        if !test
            && let Type::Kind(Some(_)) = self.checked.type_of(expr)
            && let Some(kind) =
                super::check::qualified_name(expr).and_then(|name| functions::type_named(&name))
        {
            self.spend(1)?;
            return Ok(kind_value(&kind));
        }
        let of = self.eval(operand)?;
        if !test {
            self.spend(1)?;
        }
        match of {
            Value::Optional(None) if test => Ok(Value::Bool(false)),
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => {
                let found = field_of(&inner, field).transpose()?;
                Ok(match test {
                    true => Value::Bool(found.is_some()),
                    false => found.map_or(Value::Optional(None), Value::some),
                })
            }
            Value::Composed => {
                let value = self.composed(field)?;
                Ok(if test { Value::Bool(true) } else { value })
            }
            of => match field_of(&of, field) {
                found if test => Ok(Value::Bool(found.transpose()?.is_some())),
                Some(found) => self.decoded(found),
                None => Err(Fault::new(format!("no such key: {field}"))),
            },
        }
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Result<Value<'a>> {
        let Some(resolved) = self.checked.call(expr) else {
            return Err(Fault::no_such_overload());
        };
        let target = target.filter(|_| resolved.on_target);
        let run = match resolved.function.form {
            Form::Special(special) => return self.special(special, target, args),
            Form::Call(run) => run,
        };
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.eval(arg)?);
        }
        let result = run(self, &values)?;
        let cost = cost::actual(resolved.function.price, &values, &result);
        self.spend(cost)?;
        Ok(result)
    }

    fn special(
        &mut self,
        special: Special,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Result<Value<'a>> {
        match special {
            Special::And => self.logic(args, false),
            Special::Or => self.logic(args, true),
            Special::Conditional => match self.eval(&args[0])? {
                Value::Bool(true) => self.eval(&args[1]),
                Value::Bool(false) => self.eval(&args[2]),
                _ => Err(Fault::no_such_overload()),
            },
            Special::NotStrictlyFalse => {
                let value = self.eval(&args[0]);
                self.spend(1)?;
                match value {
                    Err(fault) if fault.ends() => Err(fault),
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    _ => Ok(Value::Bool(true)),
                }
            }
            Special::Index => {
                let (of, index) = self.operand_and_index(args)?;
                match of {
                    Value::Optional(None) => Ok(Value::Optional(None)),
                    Value::Optional(Some(inner)) => {
                        let found = element(&inner, &index).transpose()?;
                        Ok(found.map_or(Value::Optional(None), Value::some))
                    }
                    of => match element(&of, &index) {
                        Some(found) => self.decoded(found),
                        None => Err(missing(&of, &index)),
                    },
                }
            }
            Special::OptionalIndex => {
                let (of, index) = self.operand_and_index(args)?;
                let found = match &of {
                    Value::Optional(None) => None,
                    Value::Optional(Some(inner)) => element(inner, &index),
                    of => element(of, &index),
                };
                Ok(found
                    .transpose()?
                    .map_or(Value::Optional(None), Value::some))
            }
            Special::OptionalSelect => {
                let of = self.eval(&args[0])?;
                self.spend(1)?;
                let Kind::Literal(Literal::Text(field)) = &args[1].kind else {
                    return Err(Fault::no_such_overload());
                };
                let found = match &of {
                    Value::Optional(None) => None,
                    Value::Optional(Some(inner)) => field_of(inner, field),
                    Value::Composed => Some(self.composed(field)),
                    of => field_of(of, field),
                };
                Ok(found
                    .transpose()?
                    .map_or(Value::Optional(None), Value::some))
            }
            Special::OptionalOr | Special::OptionalOrValue => {
                let target = target.ok_or_else(Fault::no_such_overload)?;
                match self.eval(target)? {
                    Value::Optional(None) => self.eval(&args[0]),
                    Value::Optional(Some(inner)) if special == Special::OptionalOrValue => {
                        Ok((*inner).clone())
                    }
                    value @ Value::Optional(_) => Ok(value),
                    _ => Err(Fault::no_such_overload()),
                }
            }
        }
    }

    fn operand_and_index(&mut self, args: &'a [Expr]) -> Result<(Value<'a>, Value<'a>)> {
        let of = self.eval(&args[0])?;
        let index = self.eval(&args[1])?;
        self.spend(1)?;
        Ok((of, index))
    }

    /// `||` if `decisive` is true, else `&&`. A decisive side outweighs a failure of the other.
    fn logic(&mut self, args: &'a [Expr], decisive: bool) -> Result<Value<'a>> {
        let mut failure = None;
        for arg in args {
            match self.eval(arg) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Err(fault) if fault.ends() => return Err(fault),
                Err(fault) => failure = failure.or(Some(fault)),
                Ok(_) => failure = failure.or(Some(Fault::no_such_overload())),
            }
        }
        match failure {
            Some(fault) => Err(fault),
            None => Ok(Value::Bool(!decisive)),
        }
    }
}

fn literal_value(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Text(text) => Value::Text(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

/// The value of a type's name.
fn kind_value<'a>(kind: &Type) -> Value<'a> {
    let Type::Kind(Some(of)) = kind else {
        return Value::Kind("type");
    };
    Value::Kind(match &**of {
        Type::Bool => "bool",
        Type::Int => "int",
        Type::Uint => "uint",
        Type::Double => "double",
        Type::Text => "string",
        Type::Bytes => "bytes",
        Type::Null => "null_type",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::List(_) => "list",
        Type::Map(_) => "map",
        Type::Optional(_) => "optional_type",
        Type::Named(name) => name,
        _ => "type",
    })
}

fn field_of<'a>(of: &Value<'a>, field: &str) -> Option<Result<Value<'a>>> {
    match of {
        Value::Map(map) => map.get(field),
        Value::Made(made) => made.fields.get(field).cloned().map(Ok),
        Value::List(_) => Some(Err(Fault::new("unsupported index type 'string' in list"))),
        _ => None,
    }
}

fn element<'a>(of: &Value<'a>, index: &Value<'a>) -> Option<Result<Value<'a>>> {
    match (of, index) {
        (Value::List(list), Value::Int(index)) => list.get(usize::try_from(*index).ok()?),
        (Value::List(list), Value::Uint(index)) => list.get(usize::try_from(*index).ok()?),
        (Value::List(list), Value::Double(index)) if index.fract() == 0.0 && *index >= 0.0 => {
            list.get(*index as usize)
        }
        (Value::List(_), index) => Some(Err(Fault::new(format!(
            "unsupported index type '{}' in list",
            index.kind()
        )))),
        (Value::Map(map), key) => map.find(key),
        (Value::Made(made), Value::Text(name)) => made.fields.get(&**name).cloned().map(Ok),
        _ => None,
    }
}

fn missing(of: &Value<'_>, index: &Value<'_>) -> Fault {
    let index = super::library::convert::shown(index);
    match of {
        Value::List(_) => Fault::new(format!("index out of bounds: {index}")),
        _ => Fault::new(format!("no such key: {index}")),
    }
}
