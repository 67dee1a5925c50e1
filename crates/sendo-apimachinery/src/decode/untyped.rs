//! Values without a schema: kept as they are.

use serde_json::{Map, Value};

use super::document::{Cursor, MAX_DEPTH, ValueView, number};
use super::problems::Problems;

/// A value that was read, and the members that were there twice.
pub(super) struct Untyped {
    pub(super) value: Value,
    pub(super) problems: Problems,
}

/// Takes a value over. Fails if it nests too deeply, or a number is too large.
pub(super) fn read(source: Cursor<'_>) -> Result<Untyped, String> {
    let mut problems = Problems::default();
    let value = take(source, &mut problems, 0)?;
    Ok(Untyped { value, problems })
}

/// Takes over a value some way down, where the path of `problems` says.
pub(super) fn take(
    source: Cursor<'_>,
    problems: &mut Problems,
    depth: usize,
) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".to_owned());
    }
    Ok(match source.look() {
        ValueView::Null => Value::Null,
        ValueView::Bool(value) => value.into(),
        ValueView::Text(text) => text.into(),
        ValueView::Number(text) => Value::Number(number(text).ok_or_else(|| {
            format!("json: cannot unmarshal number {text} into Go value of type float64")
        })?),
        ValueView::List(items) => {
            let mut list = Vec::new();
            for (i, item) in items.enumerate() {
                let outer = problems.enter_item(i);
                list.push(take(item, problems, depth + 1)?);
                problems.leave(outer);
            }
            Value::Array(list)
        }
        ValueView::Map(members) => {
            let mut map = Map::new();
            for (name, member) in members {
                if map.contains_key(name) {
                    problems.duplicate(name);
                }
                let outer = problems.enter(name);
                let value = take(member, problems, depth + 1)?;
                problems.leave(outer);
                map.insert(name.to_owned(), value);
            }
            Value::Object(map)
        }
    })
}
