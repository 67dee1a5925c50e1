//! Lists as CEL values.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Comparison, Value};
use crate::cel::eval::Fault;
use crate::structural::Structural;

/// A list, with the schema it came from.
///
/// Lists that a schema calls sets or maps are equal whatever the order of their
/// items, and adding to them merges.
#[derive(Clone, Debug)]
pub struct List<'a> {
    items: Items<'a>,
    pub(super) schema: Option<&'a Structural>,
}

#[derive(Clone, Debug)]
enum Items<'a> {
    Json(&'a [Json], &'a Structural),
    Untyped(&'a [Json]),
    Values(Arc<Vec<Value<'a>>>),
}

/// How the items of a list are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Position,
    Value,
    Keys,
}

impl<'a> List<'a> {
    pub(crate) fn of_json(items: &'a [Json], schema: &'a Structural) -> Self {
        // Without a schema for its items a list has none to show.
        let items = match &schema.items {
            Some(of) => Items::Json(items, of),
            None => Items::Values(Arc::default()),
        };
        List {
            items,
            schema: Some(schema),
        }
    }

    /// Items without a schema.
    pub(super) fn untyped(items: &'a [Json]) -> Self {
        List {
            items: Items::Untyped(items),
            schema: None,
        }
    }

    pub(crate) fn of_values(items: Vec<Value<'a>>) -> Self {
        List {
            items: Items::Values(Arc::new(items)),
            schema: None,
        }
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) | Items::Untyped(items) => items.len(),
            Items::Values(items) => items.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An item; none behind the end.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, Fault>> {
        match &self.items {
            Items::Json(items, schema) => Some(Value::from_json(items.get(index)?, schema)),
            Items::Untyped(items) => Some(Ok(Value::untyped(items.get(index)?))),
            Items::Values(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Fault>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// All items, or what is wrong with the first that is no value.
    pub fn values(&self) -> Result<Vec<Value<'a>>, Fault> {
        self.iter().collect()
    }

    /// Puts an item behind the others, without a copy if nobody else holds the list.
    pub(in crate::cel) fn push(&mut self, item: Value<'a>) {
        if let Items::Json(..) | Items::Untyped(_) = self.items {
            let values = self.iter().filter_map(Result::ok).collect();
            self.items = Items::Values(Arc::new(values));
        }
        if let Items::Values(items) = &mut self.items {
            Arc::make_mut(items).push(item);
        }
    }

    pub(super) fn identity(&self) -> Identity {
        match self.schema.and_then(|schema| schema.list_type.as_deref()) {
            Some("set") => Identity::Value,
            Some("map") => Identity::Keys,
            _ => Identity::Position,
        }
    }

    /// The values of an item's keys.
    pub(super) fn keys_of(&self, item: &Value<'a>) -> Vec<Option<Value<'a>>> {
        let keys = self.schema.map(|schema| schema.list_map_keys.as_slice());
        let Value::Map(map) = item else {
            return Vec::new();
        };
        keys.unwrap_or_default()
            .iter()
            .map(|key| map.member(key).and_then(Result::ok))
            .collect()
    }

    /// This list with another behind it, merged as its schema says.
    pub(in crate::cel) fn joined(
        &self,
        other: &List<'a>,
        comparison: &mut Comparison,
    ) -> Result<List<'a>, Fault> {
        let mut items = self.values()?;
        match self.identity() {
            Identity::Position => items.extend(other.values()?),
            Identity::Value => {
                for item in other.values()? {
                    if !items.iter().any(|own| comparison.equal(own, &item)) {
                        items.push(item);
                    }
                }
            }
            Identity::Keys => {
                for item in other.values()? {
                    let keys = self.keys_of(&item);
                    let same =
                        |own: &&mut Value<'a>| comparison.same_keys(&self.keys_of(own), &keys);
                    match items.iter_mut().find(same) {
                        Some(own) => *own = item,
                        None => items.push(item),
                    }
                }
            }
        }
        Ok(List {
            items: Items::Values(Arc::new(items)),
            schema: self.schema,
        })
    }
}
