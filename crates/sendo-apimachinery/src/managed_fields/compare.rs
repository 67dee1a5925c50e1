//! What differs between two values of one type.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::{PathElement, equals};
use super::place::{ListOf, MapOf, Place, Shaped, items, members};
use super::set::FieldSet;
use crate::schema::SchemaRef;

/// The fields in which a new value differs from an old one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Fields that are there now and were not so before.
    pub(super) fn touched(&self) -> FieldSet {
        self.modified.union(&self.added)
    }

    /// Without the given fields and what lies below them.
    pub(super) fn without(self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self;
        }
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }
}

/// Compares two values.
pub(super) fn compare(
    old: &Value,
    new: &Value,
    schema: SchemaRef<'_>,
) -> Result<Comparison, String> {
    let mut walk = Walk {
        path: Vec::new(),
        comparison: Comparison::default(),
    };
    walk.values(Place::root(schema), Some(old), Some(new))?;
    Ok(walk.comparison)
}

struct Walk {
    path: Vec<PathElement>,
    comparison: Comparison,
}

impl Walk {
    fn values(
        &mut self,
        place: Place<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), String> {
        let (old_shape, new_shape) = (place.shaped(old), place.shaped(new));
        let is_piece = if new.is_none() {
            self.shaped(&old_shape, old, new)?
        } else {
            if old.is_some() && !old_shape.is_like(&new_shape) {
                self.shaped(&old_shape, old, new)?;
            }
            self.shaped(&new_shape, old, new)?
        };
        if !is_piece {
            match (old, new) {
                (None, _) => self.comparison.added.insert(&self.path),
                (_, None) => self.comparison.removed.insert(&self.path),
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares values that are taken apart as given. Returns whether they were compared as one piece.
    fn shaped(
        &mut self,
        shape: &Shaped<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<bool, String> {
        match shape {
            Shaped::Scalar(_) => {
                self.piece(old, new);
                Ok(true)
            }
            Shaped::List(list) => {
                let (old_items, new_items) = (items(old), items(new));
                let is_empty = |items: Option<&[Value]>| items.is_none_or(<[Value]>::is_empty);
                if list.is_atomic() || (is_empty(old_items) && is_empty(new_items)) {
                    self.piece(old, new);
                    return Ok(true);
                }
                self.items(
                    list,
                    old_items.unwrap_or_default(),
                    new_items.unwrap_or_default(),
                )?;
                Ok(false)
            }
            Shaped::Map(map) => {
                let (old_members, new_members) = (members(old), members(new));
                let is_empty =
                    |m: Option<&serde_json::Map<String, Value>>| m.is_none_or(|m| m.is_empty());
                if map.is_atomic || (is_empty(old_members) && is_empty(new_members)) {
                    self.piece(old, new);
                    return Ok(true);
                }
                self.members(map, old_members, new_members)?;
                Ok(false)
            }
        }
    }

    fn piece(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.comparison.added.insert(&self.path),
            (_, None) => self.comparison.removed.insert(&self.path),
            (Some(old), Some(new)) if !equals(old, new) => {
                self.comparison.modified.insert(&self.path);
            }
            _ => {}
        }
    }

    fn members(
        &mut self,
        map: &MapOf<'_>,
        old: Option<&serde_json::Map<String, Value>>,
        new: Option<&serde_json::Map<String, Value>>,
    ) -> Result<(), String> {
        let mut names: Vec<&String> = old.into_iter().chain(new).flat_map(|m| m.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let place = map.member_or_deduced(name).place;
            self.path.push(PathElement::field(name));
            self.values(
                place,
                old.and_then(|m| m.get(name)),
                new.and_then(|m| m.get(name)),
            )?;
            self.path.pop();
        }
        Ok(())
    }

    fn items(&mut self, list: &ListOf<'_>, old: &[Value], new: &[Value]) -> Result<(), String> {
        let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (i, item) in old.iter().enumerate() {
            let element = list
                .element(item)
                .map_err(|e| format!("element {i}: {e}"))?;
            pairs.entry(element).or_default().0.push(item);
        }
        for (i, item) in new.iter().enumerate() {
            let element = list
                .element(item)
                .map_err(|e| format!("element {i}: {e}"))?;
            pairs.entry(element).or_default().1.push(item);
        }
        for (element, (old, new)) in pairs {
            self.path.push(element);
            self.same_items(list, &old, &new)?;
            self.path.pop();
        }
        Ok(())
    }

    /// Compares the items of one key; several of them are one piece together.
    fn same_items(
        &mut self,
        list: &ListOf<'_>,
        old: &[&Value],
        new: &[&Value],
    ) -> Result<(), String> {
        match (old, new) {
            ([], [item]) => self.values(list.items, None, Some(item)),
            ([item], []) => self.values(list.items, Some(item), None),
            ([old], [new]) => self.values(list.items, Some(old), Some(new)),
            (old, [_, _, ..]) if old.len() >= 2 => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| equals(a, b));
                if !same {
                    self.comparison.modified.insert(&self.path);
                }
                Ok(())
            }
            ([_, _, ..], new) => {
                if let Some(item) = new.first() {
                    self.values(list.items, None, Some(item))?;
                }
                self.comparison.removed.insert(&self.path);
                Ok(())
            }
            (old, _) => {
                if let Some(item) = old.first() {
                    self.values(list.items, Some(item), None)?;
                }
                self.comparison.added.insert(&self.path);
                Ok(())
            }
        }
    }
}
