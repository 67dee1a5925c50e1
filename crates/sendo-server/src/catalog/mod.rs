//! The resources that are served: built-in and custom ones, as data.

pub(crate) mod custom;
pub(crate) mod keys;
pub(crate) mod remote;
pub(crate) mod storage;
pub(crate) mod stored_form;
pub(crate) mod version_priority;

use std::sync::Arc;

use bytes::Bytes;
use sendo_apimachinery::resources::{Resource as Facts, Resources, Scope};
use sendo_apimachinery::schema::{Types, show_as_stored};
use sendo_apimachinery::{GroupKind, GroupResource};
use sendo_store::Revision;
use serde_json::Value;

use self::custom::Custom;
use self::remote::{Priorities, RemoteVersion};
use self::stored_form::TypeMeta;
use self::version_priority::rank;
use crate::catalog::keys::Keys;
use crate::kinds::{self, Rules};

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
    /// What a definition says of it; none for built-in kinds.
    pub(crate) custom: Option<Box<Custom>>,
}

impl Resource {
    /// The resource of a built-in kind.
    pub(crate) fn builtin(facts: &Facts) -> Self {
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
            custom: None,
            facts: facts.clone(),
        }
    }

    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.facts.group, &self.facts.plural)
    }

    /// The kind as refusals name it: in the group in which it is stored.
    pub(crate) fn group_kind(&self) -> GroupKind {
        let storage = self.facts.storage.as_ref();
        let group = storage.map_or(&self.facts.group, |storage| &storage.group);
        GroupKind::new(group, &self.facts.kind)
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.facts.scope == Scope::Namespaced
    }

    /// Whether this is the core group's resource of that plural name.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.facts.group.is_empty() && self.facts.plural == plural
    }

    /// Whether this is the resource of definitions of custom ones.
    pub(crate) fn is_definition(&self) -> bool {
        self.facts.group == custom::GROUP && self.facts.plural == custom::PLURAL
    }

    /// Whether it is served in the version it is stored in, so that no reader has to decode.
    pub(crate) fn is_stored_version(&self) -> bool {
        self.types == self.stored
    }

    /// Whether what was stored at `at` is what the wire shows, but for kind and versions.
    pub(crate) fn shows_stored(&self, stored: &[u8], at: Revision) -> bool {
        self.is_stored_version()
            && !self
                .custom
                .as_ref()
                .is_some_and(|custom| custom.must_refresh(stored, at))
    }

    /// The object that stored bytes hold, in the version that the engine works with: that of the
    /// request for custom resources, else the one that is stored.
    ///
    /// What a webhook has to convert must have been brought into the version before
    /// ([`crate::state::Server::in_version`]).
    pub(crate) fn decode(&self, stored: &[u8], at: Revision) -> Value {
        let mut object = stored_form::decode(stored, at, &self.stored);
        if let Some(custom) = self
            .custom
            .as_ref()
            .filter(|custom| custom.must_refresh(stored, at))
        {
            custom.refresh(&mut object, stored);
        }
        object
    }

    /// The warning that every answer about it carries.
    pub(crate) fn deprecation(&self) -> Option<&str> {
        let custom = self
            .custom
            .as_ref()
            .and_then(|custom| custom.deprecation.as_deref());
        self.rules.deprecation.or(custom)
    }
}

/// Whether a built-in resource is served: those that are stored, and of the
/// others the ones that something stands behind.
fn is_served(facts: &Facts) -> bool {
    facts.storage.is_some()
        || is_review(&facts.group, &facts.kind)
        || facts.group.is_empty()
            && ["bindings", "componentstatuses"].contains(&facts.plural.as_str())
}

/// The kinds of reviews that are answered.
fn is_review(group: &str, kind: &str) -> bool {
    let kinds: &[&str] = match group {
        "authentication.k8s.io" => &["SelfSubjectReview", "TokenReview"],
        "authorization.k8s.io" => &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
        _ => return false,
    };
    kinds.contains(&kind)
}

/// The bytes to store for an object in its storage version, as Go would show it.
/// Its list of managers may be given as text.
pub(crate) fn encode(
    types: &Types,
    resource: &Resource,
    object: &mut Value,
    managers: Option<&str>,
) -> Bytes {
    let version = match &resource.custom {
        Some(custom) => {
            custom.prepare_storage(object);
            Some(custom.versions.storage().api_version.as_str())
        }
        None => {
            show(types, resource, object);
            None
        }
    };
    stored_form::encode_managed(object, managers, version)
}

/// Gives an object in its storage version the form that Go would show, if it is of a built-in kind.
pub(crate) fn show(types: &Types, resource: &Resource, object: &mut Value) {
    let stored = &resource.stored;
    if resource.custom.is_none()
        && let Some(schema) = types.kind(&stored.api_version, &stored.kind)
    {
        show_as_stored(schema, object);
    }
}

/// A group of resources.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The preferred version first.
    versions: Vec<(String, Vec<Arc<Resource>>)>,
}

impl Group {
    /// The versions, the preferred one first.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &str> {
        self.versions.iter().map(|(version, _)| version.as_str())
    }

    /// The versions, each with its resources.
    fn entries(&self) -> impl Iterator<Item = (&str, &[Arc<Resource>])> {
        let versions = self.versions.iter();
        versions.map(|(version, resources)| (version.as_str(), resources.as_slice()))
    }

    /// The resources of a version, in the order in which discovery lists them.
    pub(crate) fn resources(&self, version: &str) -> Option<&[Arc<Resource>]> {
        let found = self.versions.iter().find(|(own, _)| own == version);
        found.map(|(_, resources)| resources.as_slice())
    }

    /// Whether custom resource definitions brought it.
    pub(crate) fn is_custom(&self) -> bool {
        let mut resources = self.versions.iter().flat_map(|(_, resources)| resources);
        resources.all(|resource| resource.typed_items)
    }
}

/// Everything that is served at a moment. A request sees one catalog throughout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// Built-in groups in their order, then those of custom resources by name.
    groups: Vec<Group>,
    /// Versions that other servers serve.
    remote: Vec<Arc<RemoteVersion>>,
    /// How versions rank in discovery.
    priorities: Priorities,
}

impl Catalog {
    /// The built-in resources of a default server.
    #[cfg(test)]
    pub(crate) fn builtin() -> Self {
        Catalog::from_resources(&Resources::builtin())
    }

    /// The built-in resources of a server, of those that there are facts about.
    pub(crate) fn from_resources(resources: &Resources) -> Self {
        let mut catalog = Catalog::default();
        for facts in resources.iter().filter(|facts| is_served(facts)) {
            catalog.insert(Resource::builtin(facts));
        }
        catalog
    }

    /// Adds a resource behind those there are.
    pub(crate) fn insert(&mut self, resource: Resource) {
        let (group, version) = (resource.facts.group.clone(), resource.facts.version.clone());
        let at = self
            .groups
            .iter()
            .position(|own| own.name == group)
            .unwrap_or_else(|| {
                self.groups.push(Group {
                    name: group,
                    versions: Vec::new(),
                });
                self.groups.len() - 1
            });
        let versions = &mut self.groups[at].versions;
        let resource = Arc::new(resource);
        match versions.iter_mut().find(|(own, _)| *own == version) {
            Some((_, resources)) => resources.push(resource),
            None => versions.push((version, vec![resource])),
        }
    }

    /// Puts the resources of a definition in place of those it had.
    pub(crate) fn put_definition(&mut self, definition: &str, resources: Vec<Resource>) {
        self.remove_definition(definition);
        for resource in resources {
            self.insert(resource);
        }
        let built_in = self
            .groups
            .iter()
            .take_while(|group| !group.is_custom())
            .count();
        self.groups[built_in..].sort_by(|a, b| a.name.cmp(&b.name));
        for group in self.groups.iter_mut().filter(|group| group.is_custom()) {
            group.versions.sort_by_key(|(version, _)| rank(version));
            for (_, resources) in &mut group.versions {
                resources.sort_by(|a, b| a.facts.plural.cmp(&b.facts.plural));
            }
        }
    }

    /// Takes the resources of a definition away, and groups that have none left.
    pub(crate) fn remove_definition(&mut self, definition: &str) {
        let is_other = |resource: &Arc<Resource>| {
            resource
                .custom
                .as_ref()
                .is_none_or(|custom| custom.definition != definition)
        };
        for group in &mut self.groups {
            for (_, resources) in &mut group.versions {
                resources.retain(is_other);
            }
            group
                .versions
                .retain(|(_, resources)| !resources.is_empty());
        }
        self.groups.retain(|group| !group.versions.is_empty());
    }

    /// A resource by group, version and plural name.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let resources = self.group(group)?.resources(version)?;
        resources.iter().find(|own| own.facts.plural == plural)
    }

    /// A group by name; the core group's is empty.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|own| own.name == name)
    }

    /// All groups, in the order in which discovery lists them.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }
}
