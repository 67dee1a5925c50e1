//! CEL functions of lists, and the comprehensions' accumulators.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::operators;
use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::{Key, List, Map, Value};

fn list<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>> {
    match args.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Fault::no_such_overload()),
    }
}

fn compare<'a>(one: &Value<'a>, other: &Value<'a>) -> Result<Ordering> {
    one.order(other).ok_or_else(Fault::no_such_overload)
}

pub(in crate::cel) fn is_sorted<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut before: Option<Value<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        if let Some(before) = &before
            && compare(before, &item)?.is_gt()
        {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

pub(in crate::cel) fn sum<'a>(machine: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut total: Option<Value<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        total = Some(match total {
            Some(total) => operators::add(machine, &[total, item])?,
            None => item,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(args: &[Value<'a>], name: &str, wanted: Ordering) -> Result<Value<'a>> {
    let mut best: Option<Value<'a>> = None;
    for item in list(args)?.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if compare(&item, &best)? != wanted => best,
            _ => item,
        });
    }
    best.ok_or_else(|| Fault::new(format!("{name} called on empty list")))
}

pub(in crate::cel) fn min<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(args, "min", Ordering::Less)
}

pub(in crate::cel) fn max<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    extreme(args, "max", Ordering::Greater)
}

pub(super) fn index_of<'a>(machine: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    for (i, item) in list(args)?.iter().enumerate() {
        if machine.equal(&item?, &args[1])? {
            return Ok(Value::Int(i as i64));
        }
    }
    Ok(Value::Int(-1))
}

pub(super) fn last_index_of<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let items = list(args)?.values()?;
    let found = machine.compare(|comparison| {
        items
            .iter()
            .rposition(|item| comparison.equal(item, &args[1]))
    })?;
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

pub(in crate::cel) fn first<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let found = list(args)?.get(0).transpose()?;
    Ok(found.map_or(Value::Optional(None), Value::some))
}

pub(in crate::cel) fn last<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let list = list(args)?;
    let found = match list.len().checked_sub(1) {
        Some(last) => list.get(last).transpose()?,
        None => None,
    };
    Ok(found.map_or(Value::Optional(None), Value::some))
}

pub(in crate::cel) fn slice<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(Fault::no_such_overload());
    };
    let refused = |why: String| Err(Fault::new(format!("cannot slice({start}, {end}), {why}")));
    if *start < 0 || *end < 0 {
        return refused("negative indexes not supported".to_owned());
    }
    if start > end {
        return refused("start index must be less than or equal to end index".to_owned());
    }
    if *end > list.len() as i64 {
        return refused(format!("list is length {}", list.len()));
    }
    let (start, count) = (*start as usize, (end - start) as usize);
    let items: Result<Vec<_>> = list.iter().skip(start).take(count).collect();
    Ok(Value::list(items?))
}

pub(in crate::cel) fn flatten<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let depth = match args.get(1) {
        None => 1,
        Some(Value::Int(depth)) if *depth >= 0 => *depth,
        Some(Value::Int(_)) => return Err(Fault::new("level must be non-negative")),
        Some(_) => return Err(Fault::no_such_overload()),
    };
    // Values are not nested deeper than the expressions and objects they come from.
    let depth = depth.min(256);
    let mut flat = Vec::new();
    flatten_into(machine, list(args)?, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    machine: &mut Machine<'a>,
    list: &List<'a>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
) -> Result<()> {
    machine.spend_parts(list.len())?;
    machine.allow_items(flat.len() + list.len())?;
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(machine, &inner, depth - 1, flat)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

pub(in crate::cel) fn sort<'a>(machine: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    sort_by_keys(machine, &[args[0].clone(), args[0].clone()])
}

pub(in crate::cel) fn sort_by_keys<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let [Value::List(items), Value::List(keys)] = args else {
        return Err(Fault::no_such_overload());
    };
    let (items, keys) = (items.values()?, keys.values()?);
    if items.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else {
        return Ok(Value::list(items));
    };
    if first.order(first).is_none() {
        return Err(Fault::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.kind() != first.kind()) {
        return Err(Fault::new("list elements must have the same type"));
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(one, _), (other, _)| one.order(other).unwrap_or(Ordering::Equal));
    Ok(Value::list(
        pairs.into_iter().map(|(_, item)| item).collect(),
    ))
}

pub(in crate::cel) fn range<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let [Value::Int(count)] = args else {
        return Err(Fault::no_such_overload());
    };
    machine.allow_items(usize::try_from(*count).unwrap_or(0))?;
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}

pub(in crate::cel) fn reverse<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut items = list(args)?.values()?;
    items.reverse();
    Ok(Value::list(items))
}

pub(in crate::cel) fn distinct<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let items = list(args)?.values()?;
    // The price is paid after a call; here it must be known before.
    machine.afford((items.len() as u64).saturating_mul(items.len() as u64))?;
    let mut seen: Vec<Value<'a>> = Vec::new();
    for item in items {
        let known = machine
            .compare(|comparison| seen.iter().any(|other| comparison.equal(other, &item)))?;
        if !known {
            seen.push(item);
        }
    }
    Ok(Value::list(seen))
}

/// A map with an entry, or with all of another map, put into it.
pub(in crate::cel) fn map_insert<'a>(
    machine: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let Some(Value::Map(map)) = args.first() else {
        return Err(Fault::no_such_overload());
    };
    machine.spend_parts(map.len())?;
    let mut map = map.clone();
    match &args[1..] {
        [entries] => insert(&mut map, None, entries.clone())?,
        [key, value] => insert(&mut map, Some(key.clone()), value.clone())?,
        _ => return Err(Fault::no_such_overload()),
    }
    Ok(Value::Map(map))
}

/// Puts an entry into a map, or without a key all entries of another; none may be there yet.
pub(in crate::cel) fn insert<'a>(
    map: &mut Map<'a>,
    key: Option<Value<'a>>,
    value: Value<'a>,
) -> Result<()> {
    let new = match (key, value) {
        (Some(key), value) => {
            let key = Key::from_value(&key).ok_or_else(Fault::no_such_overload)?;
            BTreeMap::from([(key, value)])
        }
        (None, Value::Map(other)) => gathered(&other)?,
        _ => return Err(Fault::no_such_overload()),
    };
    if let Map::Json(..) | Map::Untyped(_) = map {
        *map = Map::Entries(Arc::new(gathered(map)?));
    }
    let Map::Entries(entries) = map else {
        return Err(Fault::no_such_overload());
    };
    let entries = Arc::make_mut(entries);
    for (key, value) in new {
        if entries.contains_key(&key) {
            let shown = match &key {
                Key::Text(text) => text.to_string(),
                Key::Number(number) => number.to_string(),
                Key::Bool(value) => value.to_string(),
            };
            return Err(Fault::new(format!(
                "insert failed: key {shown} already exists"
            )));
        }
        entries.insert(key, value);
    }
    Ok(())
}

fn gathered<'a>(map: &Map<'a>) -> Result<BTreeMap<Key, Value<'a>>> {
    let mut entries = BTreeMap::new();
    for entry in map.entries() {
        let (key, value) = entry?;
        entries.insert(
            Key::from_value(&key).ok_or_else(Fault::no_such_overload)?,
            value,
        );
    }
    Ok(entries)
}
