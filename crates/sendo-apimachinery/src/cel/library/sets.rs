//! CEL functions of sets.

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::{Comparison, Value};

fn both<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<(Vec<Value<'a>>, Vec<Value<'a>>)> {
    let [Value::List(one), Value::List(other)] = args else {
        return Err(Fault::no_such_overload());
    };
    machine.afford((one.len() as u64).saturating_mul(other.len() as u64))?;
    Ok((one.values()?, other.values()?))
}

fn holds_all<'a>(comparison: &mut Comparison, list: &[Value<'a>], others: &[Value<'a>]) -> bool {
    others
        .iter()
        .all(|other| list.iter().any(|item| comparison.equal(item, other)))
}

pub(in crate::cel) fn contains<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (list, part) = both(machine, args)?;
    let holds = machine.compare(|comparison| holds_all(comparison, &list, &part))?;
    Ok(Value::Bool(holds))
}

pub(in crate::cel) fn intersects<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (one, other) = both(machine, args)?;
    let common = machine.compare(|comparison| {
        one.iter()
            .any(|item| other.iter().any(|other| comparison.equal(other, item)))
    })?;
    Ok(Value::Bool(common))
}

pub(in crate::cel) fn equivalent<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (one, other) = both(machine, args)?;
    let same = machine.compare(|comparison| {
        holds_all(comparison, &one, &other) && holds_all(comparison, &other, &one)
    })?;
    Ok(Value::Bool(same))
}
