//! Sets of fields brought in line with a type: its own members, and pieces that were none before.

use super::element::PathElement;
use super::place::{Place, Shaped};
use super::set::FieldSet;
use crate::schema::SchemaRef;

/// A set in which every object that has fields below it is a field too, if the type names it.
pub(super) fn with_named_fields(set: &FieldSet, schema: SchemaRef<'_>) -> FieldSet {
    named(set, Some(Place::root(schema)))
}

fn named(set: &FieldSet, place: Option<Place<'_>>) -> FieldSet {
    let mut out = FieldSet::new();
    for (element, at) in set.steps() {
        let (below, is_declared) = match (element, place) {
            (PathElement::Field(name), Some(place)) => match place.shaped(None) {
                Shaped::Map(map) => match map.member(name) {
                    Some(member) => (Some(member.place), member.is_declared),
                    None => (None, false),
                },
                _ => (None, false),
            },
            (PathElement::Key(_), Some(place)) => match place.shaped(None) {
                Shaped::List(list) => (Some(list.items), false),
                _ => (None, false),
            },
            _ => (None, false),
        };
        let is_member = at.is_member || (is_declared && !at.below.is_empty());
        out.set(element.clone(), is_member, named(at.below, below));
    }
    out
}

/// The set after a change of the type: where fields lie below something that is
/// one piece now, that piece stands for them. `None` if nothing changes.
pub(super) fn with_pieces(set: &FieldSet, schema: SchemaRef<'_>) -> Option<FieldSet> {
    let mut pieces = FieldSet::new();
    find_pieces(
        set,
        Place::root(schema),
        false,
        &mut Vec::new(),
        &mut pieces,
    );
    (!pieces.is_empty()).then(|| set.recursive_difference(&pieces).union(&pieces))
}

/// Finds the pieces that have fields below them.
///
/// `is_leaf` tells that the set has the place itself and nothing below it.
fn find_pieces(
    set: &FieldSet,
    place: Place<'_>,
    is_leaf: bool,
    path: &mut Vec<PathElement>,
    pieces: &mut FieldSet,
) {
    match place.shaped(None) {
        Shaped::Scalar(_) => {}
        Shaped::List(list) if list.is_atomic() => {
            if !is_leaf {
                pieces.insert(path);
            }
        }
        Shaped::List(list) => {
            for (element, at) in set.steps() {
                path.push(element.clone());
                let is_leaf = at.is_member && at.below.is_empty();
                find_pieces(at.below, list.items, is_leaf, path, pieces);
                path.pop();
            }
        }
        Shaped::Map(map) if map.is_deduced() => {}
        Shaped::Map(map) if map.is_atomic => {
            if !is_leaf && !set.is_empty() {
                pieces.insert(path);
            }
        }
        Shaped::Map(map) => {
            for (element, at) in set.steps() {
                let PathElement::Field(name) = element else {
                    continue;
                };
                let Some(member) = map.member(name) else {
                    continue;
                };
                path.push(element.clone());
                let is_leaf = at.is_member && at.below.is_empty();
                find_pieces(at.below, member.place, is_leaf, path, pieces);
                path.pop();
            }
        }
    }
}
