//! The steps that updates and applies share: settling what changed with the
//! other managers, and pruning what a manager stopped applying.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{self, Comparison};
use super::entries::{Entries, Entry, ManagerId};
use super::manager::{ConvertError, FieldManager, Versions};
use super::reconcile::{with_named_fields, with_pieces};
use super::remove::remove;
use super::set::{FieldPath, FieldSet};
use super::to_set::fields_of;
use super::validate::{self, Repeats};
use crate::schema::SchemaRef;

/// A field of another manager that would change.
pub(super) type Conflict = (ManagerId, FieldPath);

/// Whether fields are taken from other managers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    Yes,
    No,
}

/// Managers whose fields fit the schemas as they are now; those of versions that are gone go.
pub(super) fn reconciled<V: Versions>(
    manager: &FieldManager<'_, V>,
    live: &Value,
    entries: Entries,
) -> Result<Entries, String> {
    let mut reconciled = Entries::default();
    for (id, mut entry) in entries.by_manager {
        let Some((schema, _)) = in_version(manager, live, &entry.api_version)? else {
            continue;
        };
        if let Some(fields) = with_pieces(&entry.fields, schema) {
            entry.fields = fields;
        }
        reconciled.by_manager.insert(id, entry);
    }
    Ok(reconciled)
}

/// An object as a version shows it, with the schema of that version. `None` if it is not served.
///
/// A version whose schema does not know all of the object cannot show it.
fn in_version<'m, 'o, V: Versions>(
    manager: &'m FieldManager<'_, V>,
    object: &'o Value,
    api_version: &str,
) -> Result<Option<(SchemaRef<'m>, Cow<'o, Value>)>, String> {
    let schema = manager.versions.schema(api_version);
    if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
        return Ok(schema.map(|schema| (schema, Cow::Borrowed(object))));
    }
    let object = match manager.versions.convert(object, api_version) {
        Ok(object) => object,
        Err(ConvertError::MissingVersion) => return Ok(None),
        Err(ConvertError::Failed(error)) => return Err(error),
    };
    let Some(schema) = schema else {
        return Ok(None);
    };
    validate::check(&object, schema, Repeats::Allowed)?;
    Ok(Some((schema, Cow::Owned(object))))
}

/// Takes what changed from the other managers, or returns the conflicts.
///
/// `own` is the manager who writes, whose fields stay. `change` is the
/// difference in the version of the request.
pub(super) fn settle<V: Versions>(
    manager: &FieldManager<'_, V>,
    live: &Value,
    new: &Value,
    change: &Comparison,
    entries: &mut Entries,
    own: Option<&ManagerId>,
    force: Force,
) -> Result<Vec<Conflict>, String> {
    let request_version = manager.kind.group_version().to_string();
    let mut changes = BTreeMap::from([(request_version, Some(Cow::Borrowed(change)))]);
    let mut conflicts = Vec::new();
    let mut losses: Vec<(ManagerId, Option<FieldSet>)> = Vec::new();
    for (id, entry) in &entries.by_manager {
        if Some(id) == own {
            continue;
        }
        if !changes.contains_key(&entry.api_version) {
            let change = change_in(manager, live, new, &entry.api_version)?;
            changes.insert(entry.api_version.clone(), change.map(Cow::Owned));
        }
        let Some(change) = &changes[&entry.api_version] else {
            losses.push((id.clone(), None));
            continue;
        };
        let taken = change.touched_of(&entry.fields);
        if force == Force::No {
            conflicts.extend(taken.paths().into_iter().map(|path| (id.clone(), path)));
        }
        let lost = taken.union(entry.fields.intersection(&change.removed));
        if !lost.is_empty() {
            losses.push((id.clone(), Some(lost)));
        }
    }
    if !conflicts.is_empty() {
        return Ok(conflicts);
    }
    for (id, lost) in losses {
        match (entries.by_manager.get_mut(&id), lost) {
            (Some(entry), Some(lost)) => entry.fields.subtract(&lost),
            _ => {
                entries.by_manager.remove(&id);
            }
        }
    }
    entries.drop_empty();
    Ok(Vec::new())
}

/// The difference between two objects as a version shows it. `None` if it does not exist.
fn change_in<V: Versions>(
    manager: &FieldManager<'_, V>,
    live: &Value,
    new: &Value,
    api_version: &str,
) -> Result<Option<Comparison>, String> {
    let converted = |which: &str, object| {
        in_version(manager, object, api_version)
            .map_err(|error| format!("failed to convert {which} object: {error}"))
    };
    let (Some((schema, live)), Some((_, new))) = (converted("old", live)?, converted("new", new)?)
    else {
        return Ok(None);
    };
    let change = compare::compare(&live, &new, schema)
        .map_err(|error| format!("failed to compare objects: {error}"))?;
    Ok(Some(change.without(&(manager.reset_fields)(api_version))))
}

/// The merged object without what the manager applied last and does not any
/// more, unless another manager has it or it holds something else.
///
/// `last` is what the manager had before; `entries` has what it applies now.
pub(super) fn pruned<V: Versions>(
    manager: &FieldManager<'_, V>,
    merged: Value,
    entries: &Entries,
    own: &ManagerId,
    last: Option<&Entry>,
) -> Result<Value, String> {
    let applied = entries.by_manager.get(own);
    let api_version = &manager.kind.group_version().to_string();
    let Some(last) = last.filter(|last| !last.fields.is_empty()) else {
        return Ok(merged);
    };
    // What is still applied stays: mostly that is everything.
    let is_applied = |entry: &Entry| {
        entry.api_version == last.api_version && entry.fields.contains_all(&last.fields)
    };
    if applied.is_some_and(is_applied) {
        return Ok(merged);
    }
    let Some((schema, converted)) = in_version(manager, &merged, &last.api_version)? else {
        return Ok(merged);
    };
    let stale = with_named_fields(&last.fields, schema);
    let pruned = remove(&converted, &stale, schema);
    let pruned = with_owned_items(manager, &converted, pruned, entries, &last.api_version)?;
    let pruned = with_dangling_items(manager, &converted, &pruned, last)?;
    Ok(
        in_version(manager, &pruned, api_version)?
            .map_or(merged, |(_, pruned)| pruned.into_owned()),
    )
}

/// Puts back what any manager has.
fn with_owned_items<V: Versions>(
    manager: &FieldManager<'_, V>,
    merged: &Value,
    pruned: Value,
    entries: &Entries,
    pruned_version: &str,
) -> Result<Value, String> {
    let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for entry in entries.by_manager.values() {
        let at_version = owned.entry(&entry.api_version).or_default();
        *at_version = std::mem::take(at_version).union(entry.fields.clone());
    }
    let own = owned.remove_entry(pruned_version);
    let mut pruned = pruned;
    for (api_version, fields) in own.into_iter().chain(owned) {
        let (Some((schema, merged)), Some((_, at_version))) = (
            in_version(manager, merged, api_version)?,
            in_version(manager, &pruned, api_version)?,
        ) else {
            continue;
        };
        let had = with_named_fields(&fields_of(&merged, schema), schema);
        let has = with_named_fields(&fields_of(&at_version, schema), schema);
        let owned = with_named_fields(&fields, schema);
        pruned = remove(&merged, &had.difference(&has.union(owned)), schema);
    }
    Ok(pruned)
}

/// Puts back what went only because something around it went that the manager had.
fn with_dangling_items<V: Versions>(
    manager: &FieldManager<'_, V>,
    merged: &Value,
    pruned: &Value,
    last: &Entry,
) -> Result<Value, String> {
    let Some((schema, pruned)) = in_version(manager, pruned, &last.api_version)? else {
        return Ok(merged.clone());
    };
    let has = with_named_fields(&fields_of(&pruned, schema), schema);
    let had = with_named_fields(&fields_of(merged, schema), schema);
    let stale = with_named_fields(&last.fields, schema);
    Ok(remove(
        merged,
        &had.difference(&has).intersection(&stale),
        schema,
    ))
}
