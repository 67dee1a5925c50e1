//! CEL functions of quantities.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;
use crate::quantity::{Format, Quantity};

fn text<'v>(args: &'v [Value<'_>]) -> Result<&'v str> {
    match args.first() {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

fn amount<'v>(args: &'v [Value<'_>]) -> Result<&'v Quantity> {
    match args.first() {
        Some(Value::Quantity(quantity)) => Ok(quantity),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn parse<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match text(args)?.parse::<Quantity>() {
        Ok(quantity) => Ok(Value::Quantity(Arc::new(quantity))),
        Err(error) => Err(Fault::new(error.to_string())),
    }
}

pub(in crate::cel) fn is_quantity<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(text(args)?.parse::<Quantity>().is_ok()))
}

pub(in crate::cel) fn sign<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let amount = amount(args)?;
    let sign = i64::from(!amount.is_zero());
    Ok(Value::Int(if amount.is_negative() { -sign } else { sign }))
}

pub(in crate::cel) fn is_integer<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(amount(args)?.as_integer().is_some()))
}

pub(in crate::cel) fn as_integer<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let number = amount(args)?.as_integer();
    number
        .map(Value::Int)
        .ok_or_else(|| Fault::new("cannot convert value to integer"))
}

pub(in crate::cel) fn as_float<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Double(amount(args)?.as_float()))
}

/// Amounts and versions are compared by the same functions.
fn ordered(args: &[Value<'_>]) -> Result<Ordering> {
    match args {
        [Value::Quantity(one), Value::Quantity(other)] => Ok(one.cmp(other)),
        [Value::Semver(one), Value::Semver(other)] => Ok(one.cmp(other)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn is_greater<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(ordered(args)?.is_gt()))
}

pub(in crate::cel) fn is_less<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(ordered(args)?.is_lt()))
}

pub(in crate::cel) fn compare<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(ordered(args)? as i64))
}

fn other(args: &[Value<'_>]) -> Result<Quantity> {
    match args.get(1) {
        Some(Value::Quantity(other)) => Ok((**other).clone()),
        Some(Value::Int(units)) => Ok(Quantity::from_units(*units, Format::Decimal)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn add<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut sum = amount(args)?.clone();
    sum.add(&other(args)?);
    Ok(Value::Quantity(Arc::new(sum)))
}

pub(in crate::cel) fn sub<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut rest = amount(args)?.clone();
    rest.sub(&other(args)?);
    Ok(Value::Quantity(Arc::new(rest)))
}
