//! The metadata every object carries: reading, writing, and what it may hold.

mod owner;
mod validate;

use serde_json::{Map, Value};

pub use owner::OwnerReference;
pub use validate::{
    FinalizerNames, MetaRules, Scope, validate_annotations, validate_create,
    validate_field_manager, validate_immutable, validate_labels, validate_update,
};

/// The members of metadata in the order of their declaration in Go, but for its
/// managers, which come last.
pub const MEMBERS: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// A view of an object's metadata.
///
/// Absent members read as empty or zero, as in Kubernetes' own types; so does a
/// member of the wrong type, which decoding refuses before anybody looks.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a> {
    members: Option<&'a Map<String, Value>>,
}

impl<'a> Meta<'a> {
    /// The metadata of an object.
    pub fn new(object: &'a Value) -> Self {
        Meta {
            members: object.get("metadata").and_then(Value::as_object),
        }
    }

    /// Any member.
    pub fn get(&self, member: &str) -> Option<&'a Value> {
        self.members?.get(member)
    }

    fn text(&self, member: &str) -> &'a str {
        self.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    fn integer(&self, member: &str) -> Option<i64> {
        self.get(member).and_then(Value::as_i64)
    }

    fn map(&self, member: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let entries = self.get(member).and_then(Value::as_object);
        entries
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
    }

    /// `name`.
    pub fn name(&self) -> &'a str {
        self.text("name")
    }

    /// `generateName`.
    pub fn generate_name(&self) -> &'a str {
        self.text("generateName")
    }

    /// `namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &'a str {
        self.text("namespace")
    }

    /// `uid`.
    pub fn uid(&self) -> &'a str {
        self.text("uid")
    }

    /// `resourceVersion`.
    pub fn resource_version(&self) -> &'a str {
        self.text("resourceVersion")
    }

    /// `generation`; 0 if absent.
    pub fn generation(&self) -> i64 {
        self.integer("generation").unwrap_or_default()
    }

    /// `creationTimestamp`, as text.
    pub fn creation_timestamp(&self) -> Option<&'a str> {
        self.get("creationTimestamp")?.as_str()
    }

    /// `deletionTimestamp`, as text: `Some` for an object on its way out.
    pub fn deletion_timestamp(&self) -> Option<&'a str> {
        self.get("deletionTimestamp")?.as_str()
    }

    /// `deletionGracePeriodSeconds`.
    pub fn deletion_grace_period_seconds(&self) -> Option<i64> {
        self.integer("deletionGracePeriodSeconds")
    }

    /// `labels`, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.map("labels")
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.get("labels")?.get(key)?.as_str()
    }

    /// `annotations`, by key.
    pub fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.map("annotations")
    }

    /// The value of one annotation.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.get("annotations")?.get(key)?.as_str()
    }

    /// `finalizers`, in order.
    pub fn finalizers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list("finalizers").filter_map(Value::as_str)
    }

    /// `ownerReferences`, in order.
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'a>> + use<'a> {
        self.list("ownerReferences").map(OwnerReference::from_value)
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<OwnerReference<'a>> {
        self.owner_references()
            .find(|owner| owner.controller == Some(true))
    }

    fn list(&self, member: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.get(member)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    }
}

/// Metadata to write to. Empty values remove their member, as Go's `omitempty` does.
#[derive(Debug)]
pub struct MetaMut<'a> {
    members: &'a mut Map<String, Value>,
}

impl<'a> MetaMut<'a> {
    /// The metadata of an object, made if it is not there.
    ///
    /// A value that is no object is replaced, and so is an
    /// `object` that is none itself.
    pub fn new(object: &'a mut Value) -> Self {
        let members = members_of(object).entry("metadata").or_insert(Value::Null);
        MetaMut {
            members: members_of(members),
        }
    }

    /// The view for reading.
    pub fn view(&self) -> Meta<'_> {
        Meta {
            members: Some(self.members),
        }
    }

    /// Sets a member.
    pub fn set(&mut self, member: &str, value: impl Into<Value>) {
        self.members.insert(member.to_owned(), value.into());
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, member: &str) -> Option<Value> {
        self.members.remove(member)
    }

    fn set_text(&mut self, member: &str, text: &str) {
        if text.is_empty() {
            self.remove(member);
        } else {
            self.set(member, text);
        }
    }

    /// Sets `name`.
    pub fn set_name(&mut self, name: &str) {
        self.set_text("name", name);
    }

    /// Sets `namespace`.
    pub fn set_namespace(&mut self, namespace: &str) {
        self.set_text("namespace", namespace);
    }

    /// Sets `uid`.
    pub fn set_uid(&mut self, uid: &str) {
        self.set_text("uid", uid);
    }

    /// Sets `resourceVersion`.
    pub fn set_resource_version(&mut self, version: &str) {
        self.set_text("resourceVersion", version);
    }

    /// Sets `generation`; 0 removes it.
    pub fn set_generation(&mut self, generation: i64) {
        if generation == 0 {
            self.remove("generation");
        } else {
            self.set("generation", generation);
        }
    }

    /// Sets `creationTimestamp`, given as text.
    pub fn set_creation_timestamp(&mut self, time: &str) {
        self.set_text("creationTimestamp", time);
    }

    /// Sets `deletionTimestamp`, given as text.
    pub fn set_deletion_timestamp(&mut self, time: &str) {
        self.set_text("deletionTimestamp", time);
    }

    /// Sets one label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        let labels = self.members.entry("labels").or_insert(Value::Null);
        members_of(labels).insert(key.to_owned(), value.into());
    }

    /// Sets one annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        let annotations = self.members.entry("annotations").or_insert(Value::Null);
        members_of(annotations).insert(key.to_owned(), value.into());
    }

    /// Sets `finalizers`; none removes the member.
    pub fn set_finalizers<S: Into<String>>(&mut self, finalizers: impl IntoIterator<Item = S>) {
        let finalizers: Vec<String> = finalizers.into_iter().map(Into::into).collect();
        if finalizers.is_empty() {
            self.remove("finalizers");
        } else {
            self.set("finalizers", finalizers);
        }
    }
}

fn members_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made an object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_metadata_reads_as_empty() {
        let nothing = json!({});
        let meta = Meta::new(&nothing);
        assert_eq!(
            (meta.name(), meta.generation(), meta.deletion_timestamp()),
            ("", 0, None)
        );
        assert_eq!(meta.labels().count() + meta.finalizers().count(), 0);
    }

    #[test]
    fn metadata_is_read_member_by_member() {
        let object = json!({"metadata": {
            "name": "a", "namespace": "n", "labels": {"k": "v"}, "finalizers": ["x/y"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
                {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true},
            ],
        }});
        let meta = Meta::new(&object);
        assert_eq!(
            (meta.name(), meta.namespace(), meta.label("k")),
            ("a", "n", Some("v"))
        );
        assert_eq!(meta.finalizers().collect::<Vec<_>>(), ["x/y"]);
        assert_eq!(meta.controller().unwrap().uid, "2");
    }

    #[test]
    fn writing_makes_what_is_missing_and_drops_what_is_empty() {
        let mut object = json!({"metadata": null});
        let mut meta = MetaMut::new(&mut object);
        meta.set_name("a");
        meta.set_label("k", "v");
        meta.set_generation(2);
        meta.set_finalizers(["x/y"]);
        assert_eq!(
            object,
            json!({"metadata": {"name": "a", "labels": {"k": "v"}, "generation": 2, "finalizers": ["x/y"]}})
        );
        let mut meta = MetaMut::new(&mut object);
        meta.set_generation(0);
        meta.set_finalizers([""; 0]);
        meta.set_name("");
        assert_eq!(object, json!({"metadata": {"labels": {"k": "v"}}}));
    }
}
