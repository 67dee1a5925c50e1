//! Sets of fields brought in line with a type: its own members, and pieces that were none before.

use super::element::PathElement;
use super::set::{At, FieldSet};
use super::type_ref::{Shaped, TypeRef};
use crate::schema::SchemaRef;

/// A set in which every object that has fields below it is a field too, if the type names it.
pub(super) fn with_named_fields(set: &FieldSet, schema: SchemaRef<'_>) -> FieldSet {
    named(set, Some(TypeRef::root(schema)))
}

fn named(set: &FieldSet, type_ref: Option<TypeRef<'_>>) -> FieldSet {
    let mut out = FieldSet::new();
    for (element, at) in set.steps() {
        let (below, is_declared) = match (element, type_ref) {
            (PathElement::Field(name), Some(type_ref)) => match type_ref.shaped(None) {
                Shaped::Map(map) => match map.member(name) {
                    Some(member) => (Some(member.type_ref), member.is_declared),
                    None => (None, false),
                },
                _ => (None, false),
            },
            (PathElement::Key(_), Some(type_ref)) => match type_ref.shaped(None) {
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
/// atomic now, the object replaces them. `None` if nothing changes.
pub(super) fn with_pieces(set: &FieldSet, schema: SchemaRef<'_>) -> Option<FieldSet> {
    let pieces = pieces(set, TypeRef::root(schema), false).below;
    (!pieces.is_empty()).then(|| set.clone().recursive_difference(&pieces).union(pieces))
}

/// The pieces at a place and below it.
#[derive(Default)]
struct Pieces {
    is_piece: bool,
    below: FieldSet,
}

/// Finds the pieces that have fields below them.
///
/// `is_leaf` says that the set has the path itself and nothing below it.
fn pieces(set: &FieldSet, type_ref: TypeRef<'_>, is_leaf: bool) -> Pieces {
    let mut found = Pieces::default();
    match type_ref.shaped(None) {
        Shaped::Scalar(_) => {}
        Shaped::List(list) if list.is_atomic() => found.is_piece = !is_leaf,
        Shaped::List(list) => {
            for (element, at) in set.steps() {
                found.take(element, at, list.items);
            }
        }
        Shaped::Map(map) if map.is_deduced() => {}
        Shaped::Map(map) if map.is_atomic => found.is_piece = !is_leaf && !set.is_empty(),
        Shaped::Map(map) => {
            for (element, at) in set.steps() {
                if let PathElement::Field(name) = element
                    && let Some(member) = map.member(name)
                {
                    found.take(element, at, member.type_ref);
                }
            }
        }
    }
    found
}

impl Pieces {
    /// Takes in what is found one step down.
    fn take(&mut self, element: &PathElement, at: At<'_>, type_ref: TypeRef<'_>) {
        let is_leaf = at.is_member && at.below.is_empty();
        let found = pieces(at.below, type_ref, is_leaf);
        if found.is_piece || !found.below.is_empty() {
            self.below
                .join(element.clone(), found.is_piece, found.below);
        }
    }
}
