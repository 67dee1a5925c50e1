//! What a program may ask of the API server: rights, declared before it runs.
//!
//! A [`Manager`](crate::Manager) knows the rights that it needs. Reads follow from
//! what its controllers watch and read, events and leases from what is switched
//! on, and writes are declared: owning a kind implies what owning needs, and
//! [`writes`](crate::Manager::writes) and [`needs`](crate::Manager::needs) say the
//! rest. A request that nothing declares is refused before it is sent, with an
//! error that names the line to add. The role that is printed from the same
//! declarations is therefore never short of a right.
//!
//! ```
//! use k8s_openapi::api::core::v1::{Pod, Secret};
//! use sendo::Manager;
//! use sendo::rights::{Right, Verb};
//!
//! let manager = Manager::new("program")
//!     .writes::<Secret>(Verb::Create | Verb::Patch)
//!     .needs(Right::of::<Pod>(Verb::Create).subresource("eviction"))
//!     .needs(Right::of::<Secret>(Verb::Get).in_namespace("settings").named("token"));
//! # drop(manager);
//! ```
//!
//! A program for kinds that are known only at run time declares more than it can
//! name: [`Right::everything`], or a resource `*`.

mod declared;
mod request;
mod verb;

use std::collections::BTreeSet;
use std::fmt;

pub use declared::{DeclaredRights, UndeclaredRequest};
pub use request::Attributes;
pub use verb::{Verb, Verbs};

use crate::object::{Kind, Typed};

/// Some verbs on one resource, on all of its objects unless it is narrowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core group, `*` for every group.
    pub(crate) group: String,
    /// As in RBAC: `pods`, `pods/eviction`, `*`. Empty for a path.
    pub(crate) resource: String,
    pub(crate) verbs: Verbs,
    pub(crate) scope: Scope,
    /// Only in these namespaces, each by a Role; in all if there are none.
    pub(crate) namespaces: BTreeSet<String>,
    /// Only these objects; all if there are none.
    pub(crate) names: BTreeSet<String>,
    /// A path that is no resource, such as `/metrics`.
    pub(crate) path: Option<String>,
}

/// Where the objects of a resource live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
    /// A program that is confined to some namespaces has the right everywhere all the same.
    Unknown,
}

impl Right {
    /// Verbs on the objects of a kind.
    pub fn of<K: Typed>(verbs: impl Into<Verbs>) -> Self {
        Right::of_kind(&Kind::of::<K>(), verbs).in_scope(K::is_namespaced())
    }

    /// Verbs on the objects of a kind that is known at run time.
    pub fn of_kind(kind: &Kind, verbs: impl Into<Verbs>) -> Self {
        Right::resource(&kind.group, &kind.plural, verbs)
    }

    /// Verbs on a resource by its name in paths, such as `pods` or `pods/eviction`
    /// of the group `""`. `*` means every group and every resource.
    pub fn resource(group: &str, resource: &str, verbs: impl Into<Verbs>) -> Self {
        Right {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verbs: verbs.into(),
            scope: Scope::Unknown,
            namespaces: BTreeSet::new(),
            names: BTreeSet::new(),
            path: None,
        }
    }

    /// Every verb on every resource. For programs that cannot name what they work
    /// on: nothing they send is refused, and their role is that of an administrator.
    pub fn everything() -> Self {
        Right::resource("*", "*", Verbs::ALL)
    }

    /// A path of the API server that is no resource, such as `/metrics`; `*` at its
    /// end stands for any rest. Discovery, health and version need no right.
    pub fn path(path: &str, verbs: impl Into<Verbs>) -> Self {
        Right {
            path: Some(path.to_owned()),
            ..Right::resource("", "", verbs)
        }
    }

    /// The same verbs on a subresource instead, such as `status` or `eviction`.
    pub fn subresource(mut self, name: &str) -> Self {
        self.resource = format!("{}/{name}", self.resource);
        self
    }

    /// Only the object of this name, or of one of several. Creations by POST and
    /// deletions of many have no name: RBAC cannot narrow `create` and
    /// `deletecollection`, and a `list` or `watch` only where it selects
    /// `metadata.name`.
    pub fn named(mut self, name: &str) -> Self {
        self.names.insert(name.to_owned());
        self
    }

    /// Only in this namespace, or in one of several: a Role there.
    pub fn in_namespace(mut self, name: &str) -> Self {
        self.namespaces.insert(name.to_owned());
        self
    }

    /// What may be done.
    pub fn verbs(&self) -> Verbs {
        self.verbs
    }

    /// Whether its objects live in namespaces.
    pub(crate) fn in_scope(mut self, namespaced: bool) -> Self {
        self.scope = match namespaced {
            true => Scope::Namespaced,
            false => Scope::Cluster,
        };
        self
    }

    /// The right of a program that works in these namespaces only: in these, unless
    /// it names its own or is about objects of no namespace.
    pub(crate) fn confined_to(mut self, namespaces: &BTreeSet<String>) -> Self {
        if self.scope == Scope::Namespaced && self.namespaces.is_empty() {
            self.namespaces = namespaces.clone();
        }
        self
    }

    /// Whether it is on this resource, or on one of several that this is one of.
    fn is_on(&self, group: &str, resource: &str) -> bool {
        let same_resource = match self.resource.strip_prefix('*') {
            None => self.resource == resource,
            Some("") => true,
            Some(sub) => resource.ends_with(sub) && resource.contains('/'),
        };
        self.path.is_none() && same_resource && ["*", group].contains(&&*self.group)
    }

    /// Whether it allows a request.
    fn permits(&self, request: &Attributes<'_>) -> bool {
        if let Some(path) = &self.path {
            return request.resource.is_empty()
                && self.verbs.contains(request.verb)
                && match path.strip_suffix('*') {
                    Some(start) => request.path.starts_with(start),
                    None => request.path == path,
                };
        }
        let in_namespace = |namespace: &str| self.namespaces.contains(namespace);
        let without_name =
            matches!(request.verb, Verb::Create | Verb::DeleteCollection) && request.name.is_none();
        self.is_on(request.group, &request.resource())
            && self.verbs.contains(request.verb)
            && (self.namespaces.is_empty() || request.namespace.is_some_and(in_namespace))
            && (self.names.is_empty()
                || without_name
                || (request.name.as_deref()).is_some_and(|name| self.names.contains(name)))
    }
}

/// `create,patch deployments.apps in a, b: web`, as an error or a log shows it.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        write!(f, "{} ", self.verbs.names().join(","))?;
        match &self.path {
            Some(path) => f.write_str(path)?,
            None => f.write_str(&request::qualified(&self.resource, &self.group))?,
        }
        if !self.namespaces.is_empty() {
            write!(f, " in {}", list(&self.namespaces))?;
        }
        if !self.names.is_empty() {
            write!(f, ": {}", list(&self.names))?;
        }
        Ok(())
    }
}
