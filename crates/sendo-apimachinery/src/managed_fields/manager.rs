//! The field manager: tracks the fields of updates, creations and applies.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::apply::{self, Conflict};
use super::creation;
use super::entries::{Entries, Entry, ManagerId, Operation, is_reset};
use super::set::{FieldPath, FieldSet};
use super::type_ref::TypeRef;
use super::validate::{self, Repeats};
use super::{compare, to_set};
use crate::schema::{SchemaRef, show_as_go};
use crate::status::Cause;
use crate::{GroupVersion, GroupVersionKind, Meta, MetaMut, Status, decode};

/// The most managers by update that an object keeps apart.
const MAX_UPDATERS: usize = 10;

/// Where client-side apply remembers what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The versions of a kind.
pub trait Versions {
    /// The kind's schema in a version. `None` if it is not served.
    fn schema(&self, api_version: &str) -> Option<SchemaRef<'_>>;

    /// Whether objects were read by their schemas, so that nothing in them is of another type.
    fn are_typed(&self) -> bool {
        false
    }

    /// An object in another version; its own is in its `apiVersion`.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

/// Why an object cannot be had in a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version is not served, or not any more: its managers are forgotten.
    #[error("the version is not served")]
    MissingVersion,
    /// The conversion failed: so does the write.
    #[error("{0}")]
    Failed(String),
}

/// Why an apply failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The request is refused.
    Refused(Box<Status>),
    /// Others own fields that would change.
    Conflicts(Vec<(ManagerId, FieldPath)>),
}

impl From<Status> for ApplyError {
    fn from(status: Status) -> Self {
        ApplyError::Refused(Box::new(status))
    }
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Refused(status) => *status,
            ApplyError::Conflicts(conflicts) => conflict_status(&conflicts),
        }
    }
}

fn conflict_status(conflicts: &[(ManagerId, FieldPath)]) -> Status {
    let message = match conflicts {
        [(manager, path)] => {
            format!("Apply failed with 1 conflict: conflict with {manager}: {path}")
        }
        several => {
            let mut lines = Vec::new();
            let mut last = None;
            for (manager, path) in several {
                if last != Some(manager) {
                    lines.push(format!("conflicts with {manager}:"));
                    last = Some(manager);
                }
                lines.push(format!("- {path}"));
            }
            format!(
                "Apply failed with {} conflicts: {}",
                several.len(),
                lines.join("\n")
            )
        }
    };
    let causes = conflicts.iter().map(|(manager, path)| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {manager}"),
        field: path.to_string(),
    });
    Status::apply_conflict(message, causes.collect())
}

/// Keeps `metadata.managedFields` of the objects of a kind, written in one
/// version and through one subresource.
///
/// Objects are in the form they have on the wire, with `apiVersion` and `kind`.
pub struct FieldManager<'v, V> {
    /// The versions of the kind.
    pub versions: &'v V,
    /// The kind, in the version of the request.
    pub kind: GroupVersionKind,
    /// The subresource of the request; empty for the object itself.
    pub subresource: &'v str,
    /// Fields that a write through here does not change, and so never owns, by version.
    pub reset_fields: &'v dyn Fn(&str) -> FieldSet,
}

impl<V: Versions> FieldManager<'_, V> {
    fn api_version(&self) -> String {
        self.kind.group_version().to_string()
    }

    fn schema(&self) -> Result<SchemaRef<'_>, Status> {
        self.versions
            .schema(&self.api_version())
            .ok_or_else(|| Status::unclassified(format!("no corresponding type for {}", self.kind)))
    }

    /// Tracks the fields of a write that is no apply: sets the `managedFields` of `new`.
    ///
    /// `live` is the object before the write; null if there was none. `now` is
    /// the time in RFC 3339, whole seconds. A list of managers in `new` is
    /// used if it is valid, unless the write is to a subresource.
    /// An object without managers gets none.
    pub fn update(&self, live: &Value, new: &mut Value, manager: &str, now: &str) {
        let is_creation = Meta::new(live).uid().is_empty();
        let entries = self.known_entries(live, new);
        MetaMut::new(new).remove("managedFields");
        let entries = if entries.is_empty() && !is_creation {
            entries
        } else {
            // If the fields cannot be compared, the object is written without managers.
            self.track_changes(live, new, entries, manager, now)
                .unwrap_or_default()
        };
        set_entries(new, &entries);
    }

    /// Tracks the fields of a creation: returns the text of the `managedFields` that a new object has
    /// after [`update`](Self::update), where it named no managers itself.
    ///
    /// `None` if no field has a manager. The object is not changed, so that the list is not converted
    /// to JSON values before it is stored.
    pub fn creation(&self, new: &Value, manager: &str, now: &str) -> Option<String> {
        match self.walk_new(new) {
            Some(fields) if fields.is_empty() => None,
            Some(fields) => Some(Entry::list_of_one(
                &ManagerId::new(manager, Operation::Update, "", self.subresource),
                &self.api_version(),
                now,
                &fields,
            )),
            None => {
                let entries =
                    self.track_changes(&Value::Null, new, Entries::default(), manager, now);
                Some(entries.ok()?.encode()?.to_string())
            }
        }
    }

    /// The `fieldsV1` of a new object; `None` if there is more to it than a walk finds.
    fn walk_new(&self, new: &Value) -> Option<String> {
        let schema = self.schema().ok()?;
        if !self.versions.are_typed() {
            validate::check(new, schema, Repeats::Allowed).ok()?;
        }
        let without = creation::Without {
            branches: Some(&(self.reset_fields)(&self.api_version())),
            fields: Some(&NEVER_OWNED),
        };
        let nothing = self.as_typed(&Value::Null);
        creation::fields_of(TypeRef::root(schema), &nothing, new, without)
    }

    /// The managers before a write: those that the new object names, or else the live one's.
    fn known_entries(&self, live: &Value, new: &Value) -> Entries {
        let live = || Entries::decode(Meta::new(live).get("managedFields")).unwrap_or_default();
        if !self.subresource.is_empty() {
            return live();
        }
        let given = Meta::new(new).get("managedFields");
        if is_reset(given) {
            return Entries::default();
        }
        match Entries::decode(given) {
            Ok(entries) if !entries.is_empty() => entries,
            _ => live(),
        }
    }

    fn track_changes(
        &self,
        live: &Value,
        new: &Value,
        entries: Entries,
        manager: &str,
        now: &str,
    ) -> Result<Entries, String> {
        let api_version = self.api_version();
        let schema = self.schema().map_err(|status| status.message)?;
        let live = self.as_typed(live);
        if !self.versions.are_typed() {
            validate::check(new, schema, Repeats::Allowed)?;
            validate::check(&live, schema, Repeats::Allowed)?;
        }
        let mut entries = apply::reconciled(self, &live, entries)?;
        let change =
            compare::compare(&live, new, schema)?.without(&(self.reset_fields)(&api_version));
        let force = apply::Force::Yes;
        apply::settle(self, &live, new, &change, &mut entries, None, force)?;
        let fields = change.into_touched().difference(&NEVER_OWNED);
        if !fields.is_empty() {
            let id = ManagerId::new(manager, Operation::Update, &api_version, self.subresource);
            let before = entries.by_manager.remove(&id).map(|entry| entry.fields);
            let entry = Entry {
                api_version,
                fields: before.unwrap_or_default().union(fields),
                time: Some(now.to_owned()),
            };
            entries.by_manager.insert(id, entry);
        }
        cap_updaters(&mut entries);
        Ok(entries)
    }

    /// Applies a configuration to a live object. Returns the object that results,
    /// with its managers, before defaults.
    ///
    /// `live` is null where there is none. `config` is what the client sent.
    /// Without `force` fields of others that would change are conflicts.
    ///
    /// An object or list that loses all it holds is left as null: built-in types
    /// take that for absent, the schema of a custom resource may refuse it.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<Value, ApplyError> {
        let named = named_kind(config);
        if named != self.kind {
            return Err(Status::bad_request(format!("invalid object type: {named}")).into());
        }
        let entries = Entries::decode(Meta::new(live).get("managedFields"))
            .map_err(|e| Status::unclassified(format!("failed to decode managed fields: {e}")))?;
        if Meta::new(config)
            .get("managedFields")
            .is_some_and(|fields| !fields.is_null())
        {
            return Err(Status::bad_request("metadata.managedFields must be nil").into());
        }
        let force = if force {
            apply::Force::Yes
        } else {
            apply::Force::No
        };
        let mut result = self.apply_once(live, config, entries.clone(), manager, force, now);
        if manager == "kubectl"
            && let Err(ApplyError::Conflicts(conflicts)) = result
        {
            result = self.after_client_side_apply(live, config, entries, conflicts, now);
        }
        let mut object = result?;
        if manager == "kubectl"
            && Meta::new(&object)
                .annotation(LAST_APPLIED)
                .is_some_and(|a| !a.is_empty())
        {
            MetaMut::new(&mut object).set_annotation(LAST_APPLIED, &last_applied_text(config));
        }
        Ok(object)
    }

    fn apply_once(
        &self,
        live: &Value,
        config: &Value,
        entries: Entries,
        manager: &str,
        force: apply::Force,
        now: &str,
    ) -> Result<Value, ApplyError> {
        let schema = self.schema()?;
        let api_version = self.api_version();
        let typed = |what: &str, object: &Value, error: String| {
            let meta = Meta::new(object);
            Status::unclassified(format!(
                "failed to create typed {what} object ({}/{}; {}): {error}",
                meta.namespace(),
                meta.name(),
                self.kind
            ))
        };
        validate::check(config, schema, Repeats::Refused).map_err(|e| typed("patch", config, e))?;
        let live = self.as_typed(live);
        validate::check(&live, schema, Repeats::Allowed).map_err(|e| typed("live", &live, e))?;
        let live = without_managers(&live);

        let entries = if entries.is_empty() {
            let nothing = self.as_typed(&Value::Null);
            self.track_changes(&nothing, &live, entries, "before-first-apply", now)
                .map_err(Status::unclassified)?
        } else {
            entries
        };
        let id = ManagerId::new(manager, Operation::Apply, &api_version, self.subresource);
        let mut entries = apply::reconciled(self, &live, entries).map_err(Status::unclassified)?;
        let merged = super::merge::merge(&live, config, schema)
            .map_err(|e| Status::unclassified(format!("failed to merge config: {e}")))?;
        let reset = (self.reset_fields)(&api_version);
        let fields = to_set::fields_of(config, schema).recursive_difference(&reset);
        let last = entries.by_manager.remove(&id);
        let time = last.as_ref().and_then(|entry| entry.time.clone());
        let entry = Entry {
            api_version: api_version.clone(),
            fields,
            time,
        };
        entries.by_manager.insert(id.clone(), entry);
        let object = apply::pruned(self, merged, &entries, &id, last.as_ref())
            .map_err(Status::unclassified)?;
        let change = compare::compare(&live, &object, schema)
            .map_err(|e| Status::unclassified(format!("failed to compare objects: {e}")))?
            .without(&reset);
        let conflicts = apply::settle(
            self,
            &live,
            &object,
            &change,
            &mut entries,
            Some(&id),
            force,
        )
        .map_err(Status::unclassified)?;
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        let is_changed = !super::element::equals(&live, &object);
        if let Some(entry) = entries.by_manager.get_mut(&id) {
            entry.fields.subtract(&NEVER_OWNED);
            if is_changed {
                entry.time = Some(now.to_owned());
            }
        }
        entries.drop_empty();
        let mut object = if is_changed { object } else { live };
        set_entries(&mut object, &entries);
        Ok(object)
    }

    /// Conflicts of `kubectl` with what its client-side apply set, and nobody
    /// changed since, are none.
    fn after_client_side_apply(
        &self,
        live: &Value,
        config: &Value,
        entries: Entries,
        conflicts: Vec<Conflict>,
        now: &str,
    ) -> Result<Value, ApplyError> {
        let Some(allowed) = self.set_by_client_side_apply(live) else {
            return Err(ApplyError::Conflicts(conflicts));
        };
        let rest: Vec<Conflict> = conflicts
            .into_iter()
            .filter(|(_, path)| !allowed.contains(&path.0))
            .collect();
        if !rest.is_empty() {
            return Err(ApplyError::Conflicts(rest));
        }
        self.apply_once(live, config, entries, "kubectl", apply::Force::Yes, now)
    }

    fn set_by_client_side_apply(&self, live: &Value) -> Option<FieldSet> {
        let text = Meta::new(live)
            .annotation(LAST_APPLIED)
            .filter(|text| !text.is_empty())?;
        let last = decode::untyped(text.as_bytes(), decode::Format::Json)
            .ok()?
            .value;
        if last.get("apiVersion").and_then(Value::as_str) != Some(&self.api_version()) {
            return None;
        }
        let schema = self.schema().ok()?;
        validate::check(&last, schema, Repeats::Refused).ok()?;
        let change = compare::compare(&last, live, schema).ok()?;
        let fields = to_set::fields_of(&last, schema);
        Some(
            fields
                .difference(&change.removed)
                .difference(&change.into_touched()),
        )
    }

    /// An object that is not there is one of the kind with nothing in it.
    fn as_typed<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        if !object.is_null() {
            return Cow::Borrowed(object);
        }
        let mut empty = json!({"apiVersion": self.api_version(), "kind": self.kind.kind});
        if let Ok(schema) = self.schema() {
            show_as_go(schema, &mut empty);
        }
        Cow::Owned(empty)
    }
}

/// The manager of a request that names none: the user agent up to its first
/// slash, without what cannot be printed, cut at what a name may have.
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in name.chars().filter(|c| crate::go_text::is_printable(*c)) {
        if manager.len() + c.len_utf8() > 128 {
            break;
        }
        manager.push(c);
    }
    manager
}

/// The fields of every object that no manager has.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let paths = [vec!["apiVersion"], vec!["kind"], vec!["metadata"]]
        .into_iter()
        .chain(metadata.into_iter().map(|name| vec!["metadata", name]));
    paths.map(FieldPath::of_fields).collect()
});

/// Joins the oldest updaters of a version until there are few enough.
fn cap_updaters(entries: &mut Entries) {
    let updater = |id: &&ManagerId| id.operation == Operation::Update;
    let mut updaters: Vec<ManagerId> = entries.by_manager.keys().filter(updater).cloned().collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATERS {
        return;
    }
    updaters.sort_by_key(|id| (entries.by_manager[id].seconds(), id.clone()));
    // The first of a version is renamed only when a second is found to join it.
    let mut first_of: std::collections::BTreeMap<String, ManagerId> = Default::default();
    for id in updaters {
        if count <= MAX_UPDATERS {
            break;
        }
        let api_version = entries.by_manager[&id].api_version.clone();
        let bucket = ManagerId::new("ancient-changes", Operation::Update, &api_version, "");
        let Some(first) = first_of.get(&api_version).cloned() else {
            first_of.insert(api_version, id);
            continue;
        };
        if first != bucket
            && let Some(entry) = entries.by_manager.remove(&first)
        {
            match entries.by_manager.get_mut(&bucket) {
                Some(joined) => joined.take(entry.fields),
                None => {
                    entries.by_manager.insert(bucket.clone(), entry);
                }
            }
            first_of.insert(api_version, bucket.clone());
        }
        if id == bucket {
            continue;
        }
        if let Some(entry) = entries.by_manager.remove(&id)
            && let Some(joined) = entries.by_manager.get_mut(&bucket)
        {
            joined.take(entry.fields);
            joined.time = entry.time;
            count -= 1;
        }
    }
}

fn set_entries(object: &mut Value, entries: &Entries) {
    let mut meta = MetaMut::new(object);
    match entries.encode() {
        Some(list) => meta.set("managedFields", list),
        None => {
            meta.remove("managedFields");
        }
    }
}

/// A copy of an object without its `metadata.managedFields`.
pub fn without_managers(object: &Value) -> Value {
    let Value::Object(members) = object else {
        return object.clone();
    };
    let plain = members.iter().map(|(name, member)| {
        let member = match member {
            Value::Object(metadata) if name == "metadata" => {
                let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
                kept.map(|(name, member)| (name.clone(), member.clone()))
                    .collect()
            }
            other => other.clone(),
        };
        (name.clone(), member)
    });
    plain.collect()
}

/// The kind that an object names; parts may be empty.
fn named_kind(object: &Value) -> GroupVersionKind {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    match GroupVersion::parse(text("apiVersion")) {
        Some(version) => version.with_kind(text("kind")),
        None => GroupVersionKind::new("", "", ""),
    }
}

/// What is remembered of a configuration: all but what was remembered before.
fn last_applied_text(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = config
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
    crate::go_json(&config) + "\n"
}
