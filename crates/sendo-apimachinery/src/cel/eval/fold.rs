//! Loops.

use super::{Fault, Machine, Result, missing};
use crate::cel::cost::NEW_LIST;
use crate::cel::library::lists;
use crate::cel::syntax::{Expr, Fold, Kind};
use crate::cel::value::Value;

impl<'a> Machine<'a> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Result<Value<'a>> {
        let outside = self.scopes.len();
        let result = self.fold_inside(fold);
        self.scopes.truncate(outside);
        result
    }

    fn fold_inside(&mut self, fold: &'a Fold) -> Result<Value<'a>> {
        if fold.is_binding() {
            let value = self.eval(&fold.init)?;
            self.scopes.push((&fold.accumulator, Ok(value)));
            return self.eval(&fold.result);
        }
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        let accumulator = self.scopes.len();
        self.scopes.push((&fold.accumulator, init));
        match &range {
            Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    let (first, second) = match fold.second {
                        Some(_) => (Ok(Value::Int(i as i64)), Some(item)),
                        None => (item, None),
                    };
                    if !self.step(fold, accumulator, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let second = fold
                        .second
                        .is_some()
                        .then(|| map.find(&key).unwrap_or_else(|| Err(missing(&range, &key))));
                    if !self.step(fold, accumulator, Ok(key), second)? {
                        break;
                    }
                }
            }
            _ => return Err(Fault::no_such_overload()),
        }
        self.eval(&fold.result)
    }

    /// One round of a loop; whether there may be another.
    fn step(
        &mut self,
        fold: &'a Fold,
        accumulator: usize,
        first: Result<Value<'a>>,
        second: Option<Result<Value<'a>>>,
    ) -> Result<bool> {
        self.scopes.truncate(accumulator + 1);
        for (name, value) in [
            (Some(&fold.variable), Some(first)),
            (fold.second.as_ref(), second),
        ] {
            if let (Some(name), Some(value)) = (name, value) {
                let value = match self.decoded(value) {
                    Err(fault) if fault.ends() => return Err(fault),
                    value => value,
                };
                self.scopes.push((name, value));
            }
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(fault) if fault.ends() => return Err(fault),
            _ => {}
        }
        if let Some(gathered) = gathered(&fold.step, &fold.accumulator) {
            return self.gather(fold, accumulator, gathered);
        }
        let value = match self.eval(&fold.step) {
            Err(fault) if fault.ends() => return Err(fault),
            value => value,
        };
        let failed = value.is_err();
        self.scopes[accumulator].1 = value;
        // A failure stays where only logic could outweigh it.
        Ok(!failed || absorbs(&fold.step))
    }

    /// A round that only adds to what was gathered so far: done in place.
    fn gather(
        &mut self,
        fold: &'a Fold,
        accumulator: usize,
        gathered: Gathered<'a>,
    ) -> Result<bool> {
        let outcome = self.gathered_values(&gathered);
        // What naming the accumulator costs.
        self.spend(1)?;
        let added = match outcome {
            Err(fault) => Err(fault),
            Ok(None) => return Ok(true),
            Ok(Some(values)) => self.add_in_place(accumulator, gathered.into, values),
        };
        debug_assert_eq!(self.scopes[accumulator].0, fold.accumulator);
        match added {
            Ok(()) => Ok(true),
            Err(fault) if fault.ends() => Err(fault),
            Err(fault) => {
                self.scopes[accumulator].1 = Err(fault);
                Ok(false)
            }
        }
    }

    fn add_in_place(
        &mut self,
        accumulator: usize,
        into: Container,
        mut values: Vec<Value<'a>>,
    ) -> Result<()> {
        // The list of one item, and the addition or the insertion.
        self.spend(match into {
            Container::List => NEW_LIST + 1,
            Container::Map => 1,
        })?;
        match (&mut self.scopes[accumulator].1, into) {
            (Ok(Value::List(list)), Container::List) => {
                for value in values {
                    list.push(value);
                }
                Ok(())
            }
            (Ok(Value::Map(map)), Container::Map) => {
                let value = values.pop().ok_or_else(Fault::no_such_overload)?;
                lists::insert(map, values.pop(), value)
            }
            _ => Err(Fault::no_such_overload()),
        }
    }

    /// The values that a round adds; none if it adds nothing.
    fn gathered_values(&mut self, gathered: &Gathered<'a>) -> Result<Option<Vec<Value<'a>>>> {
        if let Some(filter) = gathered.filter {
            match self.eval(filter)? {
                Value::Bool(true) => {}
                Value::Bool(false) => return Ok(None),
                _ => return Err(Fault::no_such_overload()),
            }
        }
        let mut values = Vec::with_capacity(gathered.values.len());
        for value in &gathered.values {
            values.push(self.eval(value)?);
        }
        Ok(Some(values))
    }
}

/// What a step adds to a list or map so far, if that is all it does.
struct Gathered<'a> {
    filter: Option<&'a Expr>,
    values: Vec<&'a Expr>,
    into: Container,
}

#[derive(Clone, Copy)]
enum Container {
    List,
    Map,
}

fn gathered<'a>(step: &'a Expr, accumulator: &str) -> Option<Gathered<'a>> {
    let is_accumulator =
        |expr: &Expr| matches!(&expr.kind, Kind::Ident(name) if name == accumulator);
    let Kind::Call { function, args, .. } = &step.kind else {
        return None;
    };
    let gathered = |values, into| Gathered {
        filter: None,
        values,
        into,
    };
    match (function.as_str(), args.as_slice()) {
        ("_+_", [so_far, item]) if is_accumulator(so_far) => match &item.kind {
            Kind::List(items) => match items.as_slice() {
                [one] if !one.optional => Some(gathered(vec![&one.value], Container::List)),
                _ => None,
            },
            _ => None,
        },
        ("cel.@mapInsert", [so_far, rest @ ..]) if is_accumulator(so_far) => {
            Some(gathered(rest.iter().collect(), Container::Map))
        }
        ("_?_:_", [filter, then, otherwise]) if is_accumulator(otherwise) => {
            let inner = gathered_without_filter(then, accumulator)?;
            Some(Gathered {
                filter: Some(filter),
                ..inner
            })
        }
        _ => None,
    }
}

fn gathered_without_filter<'a>(step: &'a Expr, accumulator: &str) -> Option<Gathered<'a>> {
    gathered(step, accumulator).filter(|gathered| gathered.filter.is_none())
}

/// Whether a later round can make up for a failure.
fn absorbs(step: &Expr) -> bool {
    matches!(&step.kind, Kind::Call { function, .. } if matches!(function.as_str(), "_&&_" | "_||_"))
}
