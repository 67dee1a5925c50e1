//! The resources that are served: built-in and custom ones, as data.

use std::collections::BTreeMap;
use std::sync::Arc;

use sendo_apimachinery::resources::{Resource as Facts, Resources, Scope};
use sendo_apimachinery::{GroupKind, GroupResource};

use crate::keys::Keys;
use crate::kinds::{self, Rules};
use crate::wire::TypeMeta;

/// A resource in one version: all the engine needs to know to serve it.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Its names, verbs, subresources and columns.
    pub(crate) facts: Facts,
    /// The kind of a list of its objects.
    pub(crate) list_kind: String,
    /// Kind and version as this resource shows them.
    pub(crate) types: TypeMeta,
    /// Kind and version as they are stored.
    pub(crate) stored: TypeMeta,
    /// Where its objects are kept; the same for all its versions.
    pub(crate) keys: Keys,
    /// Whether items of a list name their kind, as those of custom resources do.
    pub(crate) typed_items: bool,
    /// What is particular to the kind.
    pub(crate) rules: &'static Rules,
}

impl Resource {
    fn builtin(facts: &Facts) -> Self {
        let types = TypeMeta::new(&facts.group, &facts.version, &facts.kind);
        let (stored, keys) = match &facts.storage {
            Some(storage) => (
                TypeMeta::new(&storage.group, &storage.version, &facts.kind),
                Keys::new(
                    &storage.group,
                    &facts.plural,
                    facts.scope == Scope::Namespaced,
                ),
            ),
            None => (
                types.clone(),
                Keys::new(
                    &facts.group,
                    &facts.plural,
                    facts.scope == Scope::Namespaced,
                ),
            ),
        };
        Resource {
            list_kind: format!("{}List", facts.kind),
            types,
            stored,
            keys,
            typed_items: false,
            rules: kinds::rules(&facts.group, &facts.kind),
            facts: facts.clone(),
        }
    }

    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.facts.group, &self.facts.plural)
    }

    pub(crate) fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.facts.group, &self.facts.kind)
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.facts.scope == Scope::Namespaced
    }

    /// Whether this is the core group's resource of that plural name.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.facts.group.is_empty() && self.facts.plural == plural
    }

    /// Whether it is served in the version it is stored in, so that no reader has to decode.
    pub(crate) fn is_stored_version(&self) -> bool {
        self.types == self.stored
    }
}

/// Everything that is served at a moment. A request sees one catalog throughout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    groups: BTreeMap<String, Versions>,
}

type Versions = BTreeMap<String, BTreeMap<String, Arc<Resource>>>;

impl Catalog {
    /// The built-in resources.
    pub(crate) fn builtin() -> Self {
        let mut catalog = Catalog::default();
        for facts in Resources::builtin().iter() {
            catalog.insert(Resource::builtin(facts));
        }
        catalog
    }

    /// Adds a resource, or puts it in place of its earlier self.
    pub(crate) fn insert(&mut self, resource: Resource) {
        let facts = &resource.facts;
        let versions = self.groups.entry(facts.group.clone()).or_default();
        let resources = versions.entry(facts.version.clone()).or_default();
        resources.insert(facts.plural.clone(), Arc::new(resource));
    }

    /// A resource by group, version and plural name.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.get(version)?.get(plural)
    }

    /// Whether anything of a group is served.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }
}
