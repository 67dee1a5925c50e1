//! Which part of an object was which before it changed.

use serde_json::Value;

use crate::structural::{Additional, Structural};

/// A value with what it was before, where that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'o> {
    pub(super) new: &'o Value,
    pub(super) old: &'o Value,
    schema: &'o Structural,
}

impl<'o> Pair<'o> {
    pub(super) fn new(new: &'o Value, old: &'o Value, schema: &'o Structural) -> Self {
        Pair { new, old, schema }
    }

    /// The pair of a member that was there before and has a schema.
    pub(super) fn member(&self, name: &str) -> Option<Pair<'o>> {
        let schema = match (
            self.schema.properties.get(name),
            &self.schema.additional_properties,
        ) {
            (Some(property), _) => property,
            (None, Some(Additional::Schema(values))) => values,
            _ => return None,
        };
        Some(Pair {
            new: self.new.get(name)?,
            old: self.old.get(name)?,
            schema,
        })
    }

    /// The pair of an item: known only by the keys of a list of type `map`.
    pub(super) fn item(&self, index: usize) -> Option<Pair<'o>> {
        let new = self.new.get(index)?;
        let old = item_by_keys(self.schema, self.old.as_array()?, new, index)?;
        Some(Pair {
            new,
            old,
            schema: self.schema.items.as_deref()?,
        })
    }

    /// Whether nothing changed, as far as changes can be detected.
    pub(super) fn is_unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Null, Value::Null) => true,
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if self.schema.list_type.as_deref() != Some("map") {
                    return new == old;
                }
                (0..new.len()).all(|i| self.item(i).is_some_and(|pair| pair.is_unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|name| self.member(name).is_some_and(|pair| pair.is_unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// The item of a list of type `map` that has the keys of another, most often at its place.
pub(super) fn item_by_keys<'o>(
    schema: &Structural,
    items: &'o [Value],
    of: &Value,
    place: usize,
) -> Option<&'o Value> {
    if schema.list_type.as_deref() != Some("map") || schema.list_map_keys.is_empty() {
        return None;
    }
    let wanted = of.as_object()?;
    let same = |item: &&Value| {
        let keys = &schema.list_map_keys;
        item.is_object() && keys.iter().all(|key| item.get(key) == wanted.get(key))
    };
    let near = items.get(place).filter(same);
    near.or_else(|| items.iter().find(same))
}
