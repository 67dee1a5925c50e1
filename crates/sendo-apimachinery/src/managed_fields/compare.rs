//! What differs between two values of one type.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{PathElement, equals};
use super::set::FieldSet;
use super::type_ref::{ListOf, MapOf, Shaped, TypeRef, items, members};
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
    pub(super) fn into_touched(self) -> FieldSet {
        self.modified.union(self.added)
    }

    /// The given fields that are there now and were not so before.
    pub(super) fn touched_of(&self, fields: &FieldSet) -> FieldSet {
        let modified = fields.intersection(&self.modified);
        modified.union(fields.intersection(&self.added))
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

    /// Takes in what is found one step down.
    fn take(&mut self, found: Difference, element: impl Fn() -> PathElement) {
        let below = found.below;
        let sets = [
            (&mut self.removed, found.is_removed, below.removed),
            (&mut self.modified, found.is_modified, below.modified),
            (&mut self.added, found.is_added, below.added),
        ];
        for (set, is_member, below) in sets {
            if is_member || !below.is_empty() {
                set.join(element(), is_member, below);
            }
        }
    }
}

/// Compares two values.
pub(super) fn compare(
    old: &Value,
    new: &Value,
    schema: SchemaRef<'_>,
) -> Result<Comparison, String> {
    Ok(values(TypeRef::root(schema), Some(old), Some(new))?.below)
}

/// How values at one place differ: in themselves, and below.
#[derive(Default)]
struct Difference {
    is_removed: bool,
    is_modified: bool,
    is_added: bool,
    below: Comparison,
}

fn values(
    type_ref: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<Difference, String> {
    let mut found = Difference::default();
    if old.is_some() && old == new {
        return Ok(found);
    }
    let (old_shape, new_shape) = (type_ref.shaped(old), type_ref.shaped(new));
    let is_piece = if new.is_none() {
        found.shaped(&old_shape, old, new)?
    } else {
        if old.is_some() && !old_shape.is_like(&new_shape) {
            found.shaped(&old_shape, old, new)?;
        }
        found.shaped(&new_shape, old, new)?
    };
    if !is_piece {
        found.is_added |= old.is_none();
        found.is_removed |= old.is_some() && new.is_none();
    }
    Ok(found)
}

impl Difference {
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
                let is_empty = |m: Option<&Map<String, Value>>| m.is_none_or(Map::is_empty);
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
            (None, _) => self.is_added = true,
            (_, None) => self.is_removed = true,
            (Some(old), Some(new)) => self.is_modified |= !equals(old, new),
        }
    }

    fn members(
        &mut self,
        map: &MapOf<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
    ) -> Result<(), String> {
        for (name, value) in old.into_iter().flatten() {
            let now = new.and_then(|members| members.get(name));
            self.member(map, name, Some(value), now)?;
        }
        for (name, value) in new.into_iter().flatten() {
            if old.is_none_or(|members| !members.contains_key(name)) {
                self.member(map, name, None, Some(value))?;
            }
        }
        Ok(())
    }

    fn member(
        &mut self,
        map: &MapOf<'_>,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), String> {
        let found = values(map.member_or_deduced(name).type_ref, old, new)?;
        self.below.take(found, || PathElement::field(name));
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
            let found = same_items(list, &old, &new)?;
            self.below.take(found, || element.clone());
        }
        Ok(())
    }
}

/// Compares the items of one key; several of them are one piece together.
fn same_items(list: &ListOf<'_>, old: &[&Value], new: &[&Value]) -> Result<Difference, String> {
    match (old, new) {
        ([], [item]) => values(list.items, None, Some(item)),
        ([item], []) => values(list.items, Some(item), None),
        ([old], [new]) => values(list.items, Some(old), Some(new)),
        (old, [_, _, ..]) if old.len() >= 2 => {
            let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| equals(a, b));
            Ok(Difference {
                is_modified: !same,
                ..Difference::default()
            })
        }
        ([_, _, ..], new) => {
            let first = new.first().map(|item| values(list.items, None, Some(item)));
            Ok(Difference {
                is_removed: true,
                ..first.transpose()?.unwrap_or_default()
            })
        }
        (old, _) => {
            let first = old.first().map(|item| values(list.items, Some(item), None));
            Ok(Difference {
                is_added: true,
                ..first.transpose()?.unwrap_or_default()
            })
        }
    }
}
