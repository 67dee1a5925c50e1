//! CEL functions of regular expressions.

use crate::cel::eval::{Fault, Machine, PatternFault, Result};
use crate::cel::value::Value;

fn illegal(fault: PatternFault, prefix: &str) -> Fault {
    match fault {
        PatternFault::TooMany => Fault::TooExpensive,
        PatternFault::Invalid(error) => Fault::new(format!("{prefix}{error}")),
    }
}

pub(in crate::cel) fn matches<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let [Value::Text(text), Value::Text(pattern)] = args else {
        return Err(Fault::no_such_overload());
    };
    machine
        .with_pattern(pattern, |pattern| Value::Bool(pattern.matches(text)))
        .map_err(|fault| illegal(fault, ""))
}

pub(in crate::cel) fn find<'a>(machine: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Text(text), Value::Text(pattern)] = args else {
        return Err(Fault::no_such_overload());
    };
    let found = machine
        .with_pattern(pattern, |pattern| {
            pattern.find_all(text, 1).pop().map(str::to_owned)
        })
        .map_err(|fault| illegal(fault, "Illegal regex: "))?;
    Ok(found.unwrap_or_default().into())
}

pub(in crate::cel) fn find_all<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (text, pattern, most) = match args {
        [Value::Text(text), Value::Text(pattern)] => (text, pattern, -1),
        [Value::Text(text), Value::Text(pattern), Value::Int(most)] => (text, pattern, *most),
        _ => return Err(Fault::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = machine
        .with_pattern(pattern, |pattern| {
            let parts = pattern.find_all(text, most);
            parts
                .into_iter()
                .map(|part| part.to_owned().into())
                .collect()
        })
        .map_err(|fault| illegal(fault, "Illegal regex: "))?;
    Ok(Value::list(found))
}
