//! The fields that a value has.

use serde_json::Value;

use super::element::PathElement;
use super::set::FieldSet;
use super::type_ref::{ListOf, MapOf, Shaped, TypeRef, items, members};
use crate::schema::SchemaRef;

/// All fields that an applied value sets.
///
/// An object counts by its members, unless it is one piece or empty; an item of
/// a set or keyed list, and an entry of a map, count by themselves too.
pub(super) fn fields_of(value: &Value, schema: SchemaRef<'_>) -> FieldSet {
    collect(value, TypeRef::root(schema)).below
}

/// What a value adds to a set: itself as one piece, or what is below it.
#[derive(Default)]
struct Collected {
    is_piece: bool,
    below: FieldSet,
}

fn collect(value: &Value, type_ref: TypeRef<'_>) -> Collected {
    let below = match type_ref.shaped(Some(value)) {
        Shaped::List(list) if !list.is_atomic() => of_items(value, &list),
        Shaped::Map(map) if !map.is_atomic => of_members(value, &map),
        _ => {
            return Collected {
                is_piece: true,
                below: FieldSet::new(),
            };
        }
    };
    Collected {
        is_piece: false,
        below,
    }
}

fn of_items(value: &Value, list: &ListOf<'_>) -> FieldSet {
    let items = items(Some(value)).unwrap_or_default().iter();
    let mut elements: Vec<(PathElement, &Value)> = items
        .filter_map(|item| Some((list.element(item).ok()?, item)))
        .collect();
    elements.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut set = FieldSet::new();
    let mut rest = elements.into_iter().peekable();
    while let Some((element, item)) = rest.next() {
        let mut found = collect(item, list.items);
        // The members of an item that is there twice cannot be assigned to one of the two.
        while rest.next_if(|(next, _)| *next == element).is_some() {
            found = Collected::default();
        }
        set.join(element, true, found.below);
    }
    set
}

fn of_members(value: &Value, map: &MapOf<'_>) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, member) in members(Some(value)).into_iter().flatten() {
        let known = map.member_or_deduced(name);
        let found = collect(member, known.type_ref);
        let is_empty = member.is_null() || member.as_object().is_some_and(|m| m.is_empty());
        let is_member = found.is_piece || is_empty || !known.is_declared;
        set.join(PathElement::field(name), is_member, found.below);
    }
    set
}
