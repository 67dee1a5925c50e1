//! CEL functions of strings.

use super::lists;
use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::{Text, Value};

fn out_of_range(index: i64) -> Fault {
    Fault::new(format!("index out of range: {index}"))
}

pub(in crate::cel) fn contains<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Text(text), Value::Text(part)] => Ok(Value::Bool(text.contains(&**part))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn starts_with<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    match args {
        [Value::Text(text), Value::Text(part)] => Ok(Value::Bool(text.starts_with(&**part))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn ends_with<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Text(text), Value::Text(part)] => Ok(Value::Bool(text.ends_with(&**part))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn char_at<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Text(text), Value::Int(index)] = args else {
        return Err(Fault::no_such_overload());
    };
    let at = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
    match text.chars().nth(at) {
        Some(c) => Ok(c.to_string().into()),
        None if at == text.chars().count() => Ok("".into()),
        None => Err(out_of_range(*index)),
    }
}

pub(in crate::cel) fn index_of<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (text, part, offset) = match args {
        [Value::List(_), _] => return lists::index_of(machine, args),
        [Value::Text(text), Value::Text(part)] => (text, part, 0),
        [Value::Text(text), Value::Text(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(Fault::no_such_overload()),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let skip = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let Some((start, _)) = text.char_indices().nth(skip) else {
        return Ok(Value::Int(-1));
    };
    let found = text[start..].find(&**part);
    Ok(Value::Int(found.map_or(-1, |at| {
        text[..start + at].chars().count() as i64
    })))
}

pub(in crate::cel) fn last_index_of<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (text, part, offset) = match args {
        [Value::List(_), _] => return lists::last_index_of(machine, args),
        [Value::Text(text), Value::Text(part)] => {
            let length = text.chars().count() as i64;
            if part.is_empty() {
                return Ok(Value::Int(length));
            }
            if text.len() < part.len() {
                return Ok(Value::Int(-1));
            }
            (text, part, length - 1)
        }
        [Value::Text(text), Value::Text(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(Fault::no_such_overload()),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let most = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    // The last match may begin at the offset, no later.
    let Some((start, _)) = text.char_indices().nth(most) else {
        return Ok(Value::Int(-1));
    };
    let mut end = (start + part.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let mut found = text[..end].rfind(&**part);
    if found.is_some_and(|at| at > start) {
        found = text[..start].rfind(&**part);
    }
    Ok(Value::Int(
        found.map_or(-1, |at| text[..at].chars().count() as i64),
    ))
}

pub(in crate::cel) fn lower_ascii<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    match args {
        [Value::Text(text)] => Ok(text.to_ascii_lowercase().into()),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn upper_ascii<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    match args {
        [Value::Text(text)] => Ok(text.to_ascii_uppercase().into()),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn trim<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::Text(text)] => Ok(text.trim().to_owned().into()),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn substring<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, start, end) = match args {
        [Value::Text(text), Value::Int(start)] => (text, *start, None),
        [Value::Text(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Fault::no_such_overload()),
    };
    if let Some(end) = end
        && start > end
    {
        let message = format!("invalid substring range. start: {start}, end: {end}");
        return Err(Fault::new(message));
    }
    let length = text.chars().count() as i64;
    for index in [Some(start), end].into_iter().flatten() {
        if index < 0 || index > length {
            return Err(out_of_range(index));
        }
    }
    let count = end.unwrap_or(length) - start;
    let part: String = text
        .chars()
        .skip(start as usize)
        .take(count as usize)
        .collect();
    Ok(part.into())
}

pub(in crate::cel) fn replace<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let (text, old, new, most) = match args {
        [Value::Text(text), Value::Text(old), Value::Text(new)] => (text, old, new, -1),
        [
            Value::Text(text),
            Value::Text(old),
            Value::Text(new),
            Value::Int(most),
        ] => (text, old, new, *most),
        _ => return Err(Fault::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let matches = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(&**old).count()
    };
    // What it grows to is known before it is made.
    machine.allow_text(
        text.len()
            .saturating_add(matches.min(most).saturating_mul(new.len())),
    )?;
    Ok(text.replacen(&**old, new, most).into())
}

pub(in crate::cel) fn split<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, separator, most) = match args {
        [Value::Text(text), Value::Text(separator)] => (text, separator, -1),
        [Value::Text(text), Value::Text(separator), Value::Int(most)] => (text, separator, *most),
        _ => return Err(Fault::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let parts: Vec<Value<'a>> = if separator.is_empty() {
        let mut rest = &**text;
        let mut parts = Vec::new();
        while let Some(c) = rest.chars().next() {
            let end = if parts.len() + 1 == most {
                rest.len()
            } else {
                c.len_utf8()
            };
            parts.push(rest[..end].to_owned().into());
            rest = &rest[end..];
        }
        parts
    } else {
        text.splitn(most, &**separator)
            .map(|part| part.to_owned().into())
            .collect()
    };
    Ok(Value::list(parts))
}

pub(in crate::cel) fn join<'a>(machine: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, Text::Borrowed("")),
        [Value::List(list), Value::Text(separator)] => (list, separator.clone()),
        _ => return Err(Fault::no_such_overload()),
    };
    let mut joined = String::new();
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            joined.push_str(&separator);
        }
        match item? {
            Value::Text(text) => joined.push_str(&text),
            other => {
                let shown = super::convert::shown(&other);
                return Err(Fault::new(format!("join: invalid input: {shown}")));
            }
        }
        machine.allow_text(joined.len())?;
    }
    Ok(joined.into())
}

pub(in crate::cel) fn quote<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::Text(text)] = args else {
        return Err(Fault::no_such_overload());
    };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Ok(quoted.into())
}
