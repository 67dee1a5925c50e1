//! CEL functions of optional values.

use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;

pub(in crate::cel) fn of<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::some(args[0].clone()))
}

pub(in crate::cel) fn of_non_zero<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let is_zero = match &args[0] {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(number) | Value::Duration(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Optional(inner) => inner.is_none(),
        Value::Made(made) => made.fields.is_empty(),
        _ => false,
    };
    Ok(if is_zero {
        Value::Optional(None)
    } else {
        Value::some(args[0].clone())
    })
}

pub(in crate::cel) fn none<'a>(_: &mut Machine<'a>, _: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Optional(None))
}

pub(in crate::cel) fn value<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Optional(Some(inner)) => Ok((**inner).clone()),
        Value::Optional(None) => Err(Fault::new("optional.none() dereference")),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn has_value<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match &args[0] {
        Value::Optional(inner) => Ok(Value::Bool(inner.is_some())),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn unwrap<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let Value::List(list) = &args[0] else {
        return Err(Fault::no_such_overload());
    };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(inner) => values.extend(inner.map(|inner| (*inner).clone())),
            other => {
                let shown = super::convert::shown(&other);
                return Err(Fault::new(format!("value {shown} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}
