//! The fields that a value has.

use serde_json::Value;

use super::element::PathElement;
use super::place::{ListOf, MapOf, Place, Shaped, items, members};
use super::set::FieldSet;
use crate::schema::SchemaRef;

/// All fields that an applied value sets.
///
/// An object counts by its members, unless it is one piece or empty; an item of
/// a set or keyed list, and an entry of a map, count by themselves too.
pub(super) fn fields_of(value: &Value, schema: SchemaRef<'_>) -> FieldSet {
    let mut set = FieldSet::new();
    collect(value, Place::root(schema), &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, place: Place<'_>, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    match place.shaped(Some(value)) {
        Shaped::Scalar(_) => set.insert(path),
        Shaped::List(list) if list.is_atomic() => set.insert(path),
        Shaped::List(list) => collect_items(value, &list, path, set),
        Shaped::Map(map) if map.is_atomic => set.insert(path),
        Shaped::Map(map) => collect_members(value, &map, path, set),
    }
}

fn collect_items(
    value: &Value,
    list: &ListOf<'_>,
    path: &mut Vec<PathElement>,
    set: &mut FieldSet,
) {
    let elements: Vec<(PathElement, &Value)> = items(Some(value))
        .unwrap_or_default()
        .iter()
        .filter_map(|item| Some((list.element(item).ok()?, item)))
        .collect();
    let mut times: std::collections::BTreeMap<&PathElement, usize> = Default::default();
    for (element, _) in &elements {
        *times.entry(element).or_default() += 1;
    }
    for (element, item) in &elements {
        path.push(element.clone());
        // Of an item that is there twice nobody can tell whose members are whose.
        if times[element] == 1 {
            collect(item, list.items, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

fn collect_members(
    value: &Value,
    map: &MapOf<'_>,
    path: &mut Vec<PathElement>,
    set: &mut FieldSet,
) {
    for (name, member) in members(Some(value)).into_iter().flatten() {
        let known = map.member_or_deduced(name);
        path.push(PathElement::field(name));
        collect(member, known.place, path, set);
        let is_empty = member.is_null() || member.as_object().is_some_and(|m| m.is_empty());
        if is_empty || !known.is_declared {
            set.insert(path);
        }
        path.pop();
    }
}
