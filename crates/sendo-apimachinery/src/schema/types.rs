//! The registry of named types.

use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use super::{Schema, SchemaRef, Shape, text};

/// The group version of kinds that every group version has.
const EVERY_VERSION: &str = "*";

/// The built-in types by name and by kind.
///
/// Creating one only finds where each type begins; a type is read when it is
/// first requested and kept from then on.
pub struct Types {
    /// Sorted by package, then name, as the text is.
    entries: Vec<Entry>,
    /// The kinds among them, sorted by version and kind.
    kinds: Vec<Kind>,
    digest: OnceLock<Vec<u8>>,
}

/// A named type of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u16);

struct Entry {
    package: &'static str,
    name: &'static str,
    /// The type's own line and the lines of its fields.
    text: &'static str,
    read: OnceLock<Box<Read>>,
}

/// A type that was requested.
struct Read {
    schema: Schema,
    /// Refers to this very type, for walks that start here.
    reference: Schema,
}

struct Kind {
    api_version: &'static str,
    kind: &'static str,
    id: TypeId,
}

impl Types {
    /// All types of a default Kubernetes 1.36 server.
    pub fn builtin() -> Self {
        let mut entries = Vec::with_capacity(600);
        let mut kinds = Vec::with_capacity(200);
        let mut package = "";
        for (place, block) in text::TYPES.split("\ntype ").enumerate() {
            // What comes before the first type is only a heading.
            if place > 0 {
                let id = TypeId(entries.len() as u16);
                let (name, attributes) = text::heading(block);
                if let Some(api_version) = text::attribute(attributes, "kind") {
                    kinds.push(Kind {
                        api_version,
                        kind: name,
                        id,
                    });
                }
                entries.push(Entry {
                    package,
                    name,
                    text: block,
                    read: OnceLock::new(),
                });
            }
            package = text::next_package(block).unwrap_or(package);
        }
        kinds.sort_by_key(|kind| (kind.api_version, kind.kind));
        Self {
            entries,
            kinds,
            digest: OnceLock::new(),
        }
    }

    /// The schema of a kind: `types.kind("apps/v1", "Deployment")`.
    ///
    /// `DeleteOptions` and `WatchEvent` are kinds of every group version, custom
    /// ones included.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<SchemaRef<'_>> {
        let find = |api_version| {
            let key = (api_version, kind);
            self.kinds
                .binary_search_by(|own| (own.api_version, own.kind).cmp(&key))
                .ok()
        };
        let place = find(api_version).or_else(|| find(EVERY_VERSION))?;
        Some(self.get(self.kinds[place].id))
    }

    /// A type by its full name, as `io.k8s.api.core.v1.PodSpec`.
    pub fn named(&self, full_name: &str) -> Option<SchemaRef<'_>> {
        self.id(full_name).map(|id| self.get(id))
    }

    /// The handle of a type, for schemas that refer to it.
    pub fn id(&self, full_name: &str) -> Option<TypeId> {
        let (package, name) = full_name.rsplit_once('.')?;
        self.find(package, name)
    }

    /// The type behind a handle.
    pub fn get(&self, id: TypeId) -> SchemaRef<'_> {
        SchemaRef::new(self, &self.read(id).reference)
    }

    /// A schema made at run time, with this registry for its references.
    pub fn view<'a>(&'a self, schema: &'a Schema) -> SchemaRef<'a> {
        SchemaRef::new(self, schema)
    }

    /// The full name of a type, as `io.k8s.api.core.v1.PodSpec`.
    pub fn name(&self, id: TypeId) -> String {
        let entry = self.entry(id);
        format!("{}.{}", entry.package, entry.name)
    }

    /// The last word of a type's name, as `PodSpec`.
    pub fn short_name(&self, id: TypeId) -> &'static str {
        self.entry(id).name
    }

    /// All types, sorted by package and name.
    pub fn ids(&self) -> impl Iterator<Item = TypeId> + use<> {
        (0..self.entries.len() as u16).map(TypeId)
    }

    /// All types that are kinds: `apiVersion`, kind, type; sorted. The version of
    /// those that every group repeats is `*`.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, TypeId)> {
        self.kinds
            .iter()
            .map(|kind| (kind.api_version, kind.kind, kind.id))
    }

    /// A digest of the facts that this registry reads, for hashes of whatever
    /// depends on them.
    pub(crate) fn digest(&self) -> &[u8] {
        self.digest
            .get_or_init(|| Sha256::digest(text::TYPES).to_vec())
    }

    /// The schema of a type.
    pub(super) fn schema(&self, id: TypeId) -> &Schema {
        &self.read(id).schema
    }

    /// A type, read on first use.
    fn read(&self, id: TypeId) -> &Read {
        let entry = self.entry(id);
        entry.read.get_or_init(|| {
            let resolve = |name: &str| match name.rsplit_once('.') {
                Some((package, name)) => self.find(package, name),
                None => self.find(entry.package, name),
            };
            Box::new(Read {
                schema: text::read_type(entry.text, &resolve),
                reference: Schema::new(Shape::Reference(id)),
            })
        })
    }

    fn find(&self, package: &str, name: &str) -> Option<TypeId> {
        let key = (package, name);
        let place = self
            .entries
            .binary_search_by(|own| (own.package, own.name).cmp(&key));
        place.ok().map(|place| TypeId(place as u16))
    }

    fn entry(&self, id: TypeId) -> &Entry {
        &self.entries[usize::from(id.0)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::Resources;
    use crate::schema::{Empty, Field, ListType, Raw};

    #[test]
    fn every_type_can_be_read_and_names_itself() {
        let types = Types::builtin();
        for id in types.ids() {
            assert!(types.get(id).object().is_some());
            assert_eq!(types.id(&types.name(id)), Some(id));
        }
        assert!(types.ids().count() > 500);
    }

    #[test]
    fn every_resource_and_list_has_a_type() {
        let types = Types::builtin();
        for resource in Resources::builtin().iter() {
            let (api_version, kind) = (resource.api_version(), &resource.kind);
            assert!(
                types.kind(&api_version, kind).is_some(),
                "{api_version} {kind}"
            );
            if resource.has_verb("list") {
                let list = types.kind(&api_version, &format!("{kind}List")).unwrap();
                let items = list.field("items").unwrap().items().unwrap();
                assert_eq!(
                    items.type_id(),
                    types.kind(&api_version, kind).unwrap().type_id()
                );
            }
        }
    }

    #[test]
    fn what_a_place_says_is_kept_apart_from_what_its_type_says() {
        let types = Types::builtin();
        let deployment = types.kind("apps/v1", "Deployment").unwrap();
        let strategy = deployment.field("spec").unwrap().field("strategy").unwrap();
        assert!(strategy.patch().retain_keys);
        assert!(strategy.field("type").is_some());
        assert!(
            deployment
                .field("spec")
                .unwrap()
                .field("selector")
                .unwrap()
                .is_atomic()
        );
        assert!(
            !deployment
                .field("metadata")
                .unwrap()
                .field("labels")
                .unwrap()
                .is_atomic()
        );
    }

    #[test]
    fn a_field_knows_defaults_choices_and_what_go_shows_when_empty() {
        let types = Types::builtin();
        let port = types.named("io.k8s.api.core.v1.ContainerPort").unwrap();
        let field = |name| port.object().unwrap().field(name).unwrap();
        assert_eq!(field("protocol").schema.default, Some(json!("TCP")));
        assert_eq!(field("protocol").schema.allowed, ["SCTP", "TCP", "UDP"]);
        assert_eq!(field("protocol").empty, Empty::Omitted);
        assert_eq!(field("containerPort").empty, Empty::Shown);
        assert!(field("containerPort").required);
    }

    #[test]
    fn fields_of_inlined_messages_have_a_path_of_numbers() {
        let types = Types::builtin();
        let volume = types.named("io.k8s.api.core.v1.Volume").unwrap();
        let field = |name| &volume.object().unwrap().field(name).unwrap().number[..];
        assert_eq!(field("name"), [1]);
        assert_eq!(field("hostPath"), [2, 1]);
        let pod = types.kind("v1", "Pod").unwrap();
        assert!(
            pod.object()
                .unwrap()
                .field("kind")
                .unwrap()
                .number
                .is_empty()
        );
    }

    #[test]
    fn every_group_version_has_the_kinds_that_requests_and_watches_need() {
        let types = Types::builtin();
        for api_version in ["v1", "apps/v1", "example.com/v1alpha1"] {
            assert!(types.kind(api_version, "DeleteOptions").is_some());
        }
        assert!(types.kind("v1", "Status").is_some());
        assert!(types.kind("apps/v1", "Status").is_none());
    }

    #[test]
    fn a_schema_made_at_run_time_refers_to_built_in_types() {
        let types = Types::builtin();
        let meta = types
            .id("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .unwrap();
        let widget = Schema::object(vec![
            Field::new("metadata", Schema::new(Shape::Reference(meta))),
            Field::new("spec", Schema::map(Schema::new(Shape::Raw(Raw::Json)))),
        ]);
        let widget = types.view(&widget);
        let owners = widget
            .field("metadata")
            .unwrap()
            .field("ownerReferences")
            .unwrap();
        assert_eq!(owners.list_type(), Some(&ListType::Map(vec!["uid".into()])));
        assert!(widget.field("spec").unwrap().key("anything").is_some());
        assert!(widget.field("status").is_none());
    }
}
