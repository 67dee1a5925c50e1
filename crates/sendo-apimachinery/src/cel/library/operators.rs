//! CEL operators.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::convert::in_range;
use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;

fn overflow() -> Fault {
    Fault::new("integer overflow")
}

fn uint_overflow() -> Fault {
    Fault::new("unsigned integer overflow")
}

fn span_overflow() -> Fault {
    Fault::new("duration overflow")
}

fn time_overflow() -> Fault {
    Fault::new("timestamp overflow")
}

pub(in crate::cel) fn not<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn equal<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(machine.equal(&args[0], &args[1])?))
}

pub(in crate::cel) fn not_equal<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(!machine.equal(&args[0], &args[1])?))
}

fn ordered<'a>(args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Result<Value<'a>> {
    // What is no number is before and behind nothing.
    if let [Value::Double(one), Value::Double(other)] = args
        && (one.is_nan() || other.is_nan())
    {
        return Err(Fault::new("NaN values cannot be ordered"));
    }
    match args[0].order(&args[1]) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn less<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    ordered(args, Ordering::is_lt)
}

pub(in crate::cel) fn less_or_equal<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    ordered(args, Ordering::is_le)
}

pub(in crate::cel) fn greater<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    ordered(args, Ordering::is_gt)
}

pub(in crate::cel) fn greater_or_equal<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    ordered(args, Ordering::is_ge)
}

pub(in crate::cel) fn add<'a>(machine: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args {
        [Value::Int(one), Value::Int(other)] => {
            Value::Int(one.checked_add(*other).ok_or_else(overflow)?)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            Value::Uint(one.checked_add(*other).ok_or_else(uint_overflow)?)
        }
        [Value::Double(one), Value::Double(other)] => Value::Double(one + other),
        [Value::Text(one), Value::Text(other)] => {
            machine.allow_text(one.len() + other.len())?;
            format!("{}{}", &**one, &**other).into()
        }
        [Value::Bytes(one), Value::Bytes(other)] => {
            machine.allow_text(one.len() + other.len())?;
            Value::Bytes([&**one, &**other].concat().into())
        }
        [Value::List(one), Value::List(other)] => {
            machine.allow_items(one.len() + other.len())?;
            machine.spend_parts(one.len() + other.len())?;
            Value::List(machine.compare(|comparison| one.joined(other, comparison))??)
        }
        [Value::Duration(one), Value::Duration(other)] => {
            Value::Duration(one.checked_add(*other).ok_or_else(span_overflow)?)
        }
        [Value::Duration(span), Value::Timestamp(time)]
        | [Value::Timestamp(time), Value::Duration(span)] => moved(*time, *span)?,
        _ => return Err(Fault::no_such_overload()),
    })
}

fn moved<'a>(time: Timestamp, nanos: i64) -> Result<Value<'a>> {
    time.checked_add(SignedDuration::from_nanos(nanos))
        .ok()
        .filter(|time| in_range(*time))
        .map(Value::Timestamp)
        .ok_or_else(time_overflow)
}

pub(in crate::cel) fn subtract<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args {
        [Value::Int(one), Value::Int(other)] => {
            Value::Int(one.checked_sub(*other).ok_or_else(overflow)?)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            Value::Uint(one.checked_sub(*other).ok_or_else(uint_overflow)?)
        }
        [Value::Double(one), Value::Double(other)] => Value::Double(one - other),
        [Value::Duration(one), Value::Duration(other)] => {
            Value::Duration(one.checked_sub(*other).ok_or_else(span_overflow)?)
        }
        [Value::Timestamp(time), Value::Duration(span)] => {
            moved(*time, span.checked_neg().ok_or_else(span_overflow)?)?
        }
        [Value::Timestamp(one), Value::Timestamp(other)] => {
            let nanos = one.as_nanosecond() - other.as_nanosecond();
            Value::Duration(i64::try_from(nanos).map_err(|_| span_overflow())?)
        }
        _ => return Err(Fault::no_such_overload()),
    })
}

pub(in crate::cel) fn multiply<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args {
        [Value::Int(one), Value::Int(other)] => {
            Value::Int(one.checked_mul(*other).ok_or_else(overflow)?)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            Value::Uint(one.checked_mul(*other).ok_or_else(uint_overflow)?)
        }
        [Value::Double(one), Value::Double(other)] => Value::Double(one * other),
        _ => return Err(Fault::no_such_overload()),
    })
}

pub(in crate::cel) fn divide<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(Fault::new("division by zero"));
        }
        [Value::Int(one), Value::Int(other)] => {
            Value::Int(one.checked_div(*other).ok_or_else(overflow)?)
        }
        [Value::Uint(one), Value::Uint(other)] => Value::Uint(one / other),
        [Value::Double(one), Value::Double(other)] => Value::Double(one / other),
        _ => return Err(Fault::no_such_overload()),
    })
}

pub(in crate::cel) fn modulo<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(Fault::new("modulus by zero"));
        }
        [Value::Int(one), Value::Int(other)] => {
            Value::Int(one.checked_rem(*other).ok_or_else(overflow)?)
        }
        [Value::Uint(one), Value::Uint(other)] => Value::Uint(one % other),
        _ => return Err(Fault::no_such_overload()),
    })
}

pub(in crate::cel) fn negate<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(match args {
        [Value::Int(number)] => Value::Int(number.checked_neg().ok_or_else(overflow)?),
        [Value::Double(number)] => Value::Double(-number),
        [Value::Duration(span)] => Value::Duration(span.checked_neg().ok_or_else(span_overflow)?),
        _ => return Err(Fault::no_such_overload()),
    })
}

pub(in crate::cel) fn contained<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let [value, container] = args else {
        return Err(Fault::no_such_overload());
    };
    let found = match container {
        Value::List(list) => {
            let mut found = false;
            for item in list.iter() {
                if machine.equal(&item?, value)? {
                    found = true;
                    break;
                }
            }
            found
        }
        Value::Map(map) => match map.find(value) {
            Some(Err(fault)) => return Err(fault),
            found => found.is_some(),
        },
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Bool(found))
}
