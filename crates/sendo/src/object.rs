//! Kubernetes objects as the library sees them: kinds, keys, uids.

use std::any::TypeId;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Anything that can be watched, cached and written: every type of
/// `k8s-openapi`, every `#[derive(CustomResource)]`, [`kube::core::DynamicObject`],
/// a type of your own for such a kind (`#[derive(Resource)]`, see
/// [`KindOptions::only`](crate::cache::KindOptions::only)),
/// and [`kube::core::PartialObjectMeta`] of any of them, which fetches metadata only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of the API",
    label = "not a Kubernetes object",
    note = "use a type of `k8s-openapi`, or derive `CustomResource`, `Clone`, `Debug`, `Serialize`, `Deserialize` and `JsonSchema` for the spec of your own"
)]
pub trait Object:
    Resource + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

#[diagnostic::do_not_recommend]
impl<K> Object for K where
    K: Resource + Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// An [`Object`] whose kind is known from its Rust type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of the API that is known from its type",
    label = "not a Kubernetes object of one kind",
    note = "use a type of `k8s-openapi`, or derive `CustomResource` for the spec of your own"
)]
pub trait Typed: Object<DynamicType = (), Scope: 'static> {
    /// Whether objects of this type live in namespaces.
    fn is_namespaced() -> bool {
        TypeId::of::<Self::Scope>() != TypeId::of::<ClusterResourceScope>()
    }

    /// The kind of this type.
    fn kind() -> Kind {
        Kind {
            group: Self::group(&()).into_owned(),
            version: Self::version(&()).into_owned(),
            kind: <Self as Resource>::kind(&()).into_owned(),
            plural: Self::plural(&()).into_owned(),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<K: Object<DynamicType = (), Scope: 'static>> Typed for K {}

/// A kind of the API, with the name it has in paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The resource's name in paths, such as `deployments`.
    pub plural: String,
}

impl Kind {
    /// The kind of a Rust type.
    pub fn of<K: Typed>() -> Self {
        <K as Typed>::kind()
    }

    /// `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of the collection, in a namespace or across all of them.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let version = self.api_version();
        match namespace {
            Some(ns) => format!("/{root}/{version}/namespaces/{ns}/{}", self.plural),
            None => format!("/{root}/{version}/{}", self.plural),
        }
    }

    /// This kind as `kube` describes it.
    pub fn to_api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

impl From<&ApiResource> for Kind {
    fn from(resource: &ApiResource) -> Self {
        Kind {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
        }
    }
}

/// `deployments.apps/v1`, as people name a resource.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}/{}", self.plural, self.version)
        } else {
            write!(f, "{}.{}/{}", self.plural, self.group, self.version)
        }
    }
}

/// The name of an object within its kind. Cheap to clone, and small: a cache and
/// its queues hold a great many.
///
/// Written `namespace/name`, or `name` alone for cluster-scoped objects. Ordered
/// by namespace, then by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(
    /// Namespace, [`APART`] and name; or the name.
    Arc<str>,
);

/// Stands between namespace and name. Neither can contain it, and as it comes
/// before all else, texts are ordered as the pairs are.
const APART: char = '\0';

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push(APART);
        text.push_str(name);
        ObjectKey(text.into())
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        ObjectKey(name.into())
    }

    /// The key of `object`.
    pub fn from_object<K: Resource>(object: &K) -> Self {
        ObjectKey::from_metadata(object.meta())
    }

    pub(crate) fn from_metadata(metadata: &ObjectMeta) -> Self {
        let name = metadata.name.as_deref().unwrap_or_default();
        match &metadata.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        }
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once(APART).map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once(APART).map_or(&*self.0, |(_, name)| name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once(APART) {
            Some((namespace, name)) => write!(f, "{namespace}/{name}"),
            None => f.write_str(&self.0),
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `"namespace/name"`, or `"name"` for a cluster-scoped object.
impl From<&str> for ObjectKey {
    fn from(text: &str) -> Self {
        match text.split_once('/') {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(text),
        }
    }
}

impl From<String> for ObjectKey {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&ObjectKey> for ObjectKey {
    fn from(key: &ObjectKey) -> Self {
        key.clone()
    }
}

impl FromStr for ObjectKey {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.into())
    }
}

/// The identity of one object: another object of the same name has another uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The text of the uid.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Uid(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Accessors for the metadata of any object.
pub trait ObjectExt: Resource {
    /// The name; empty if the server has not given one yet.
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// The namespace, `None` for cluster-scoped objects.
    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref()
    }

    /// The key.
    fn key(&self) -> ObjectKey
    where
        Self: Sized,
    {
        ObjectKey::from_object(self)
    }

    /// The key of an object of that name in the same namespace.
    fn key_beside(&self, name: &str) -> ObjectKey {
        match &self.meta().namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        }
    }

    /// The uid; empty if the object has not been created yet.
    fn uid(&self) -> Uid {
        Uid::from(self.meta().uid.as_deref().unwrap_or_default())
    }

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str> {
        let labels = self.meta().labels.as_ref()?;
        labels.get(name).map(String::as_str)
    }

    /// The value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.meta().annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }

    /// Whether the object is being deleted; finalizers or a grace period still keep it.
    fn is_being_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// The version of the object, as the API server counts changes.
    fn version(&self) -> u64 {
        let version = self.meta().resource_version.as_deref();
        version.and_then(|v| v.parse().ok()).unwrap_or_default()
    }

    /// The uid of the object that controls this one, whatever its kind.
    fn controller(&self) -> Option<Uid> {
        let mut owners = self.meta().owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        Some(Uid::from(owner.uid.as_str()))
    }

    /// Whether `owner`, that very object, controls this one.
    fn is_controlled_by<K: Resource>(&self, owner: &K) -> bool {
        self.controller().is_some_and(|uid| uid == owner.uid())
    }

    /// The uid of the `K` that controls this object, if one does.
    fn controller_of<K: Typed>(&self) -> Option<Uid> {
        let kind = Kind::of::<K>();
        let mut owners = self.meta().owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        let group = owner.api_version.split_once('/').map_or("", |(g, _)| g);
        (owner.kind == kind.kind && group == kind.group).then(|| Uid::from(owner.uid.as_str()))
    }
}

impl<K: Resource> ObjectExt for K {}

/// The name of a type as a program that imports it writes it.
pub(crate) fn short_type_name<K>() -> String {
    let names = std::any::type_name::<K>().split_inclusive(['<', '>', ',', ' ']);
    let last = |path: &'static str| path.rsplit("::").next().unwrap_or(path);
    names.map(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn keys_read_as_they_are_written() {
        assert_eq!(ObjectKey::from("a/b"), ObjectKey::namespaced("a", "b"));
        assert_eq!(ObjectKey::from("b"), ObjectKey::cluster("b"));
        assert_eq!(ObjectKey::from("a/b").to_string(), "a/b");
        let (inside, outside) = (ObjectKey::from("a/b"), ObjectKey::cluster("b"));
        assert_eq!((inside.namespace(), inside.name()), (Some("a"), "b"));
        assert_eq!((outside.namespace(), outside.name()), (None, "b"));
    }

    #[test]
    fn keys_are_ordered_by_namespace_and_then_by_name() {
        // In a text with a slash, `a-b/…` would come before `a/…`.
        let sorted = ["a/a", "a/b", "a/b-c", "a-b/a", "b/a"].map(ObjectKey::from);
        assert!(sorted.is_sorted());
        assert!(ObjectKey::namespaced("a", "") < sorted[0]);
        assert!(ObjectKey::cluster("") < ObjectKey::namespaced("", ""));
    }

    #[test]
    fn a_key_beside_an_object_is_in_its_namespace() {
        let mut pod = Pod::default();
        assert_eq!(pod.key_beside("c"), "c".into());
        pod.metadata.namespace = Some("a".to_owned());
        assert_eq!(pod.key_beside("c"), "a/c".into());
    }

    #[test]
    fn a_kind_knows_its_paths() {
        assert_eq!(
            Kind::of::<Pod>().path(Some("x")),
            "/api/v1/namespaces/x/pods"
        );
        assert_eq!(
            Kind::of::<Deployment>().path(None),
            "/apis/apps/v1/deployments"
        );
        assert_eq!(Kind::of::<Deployment>().to_string(), "deployments.apps/v1");
    }

    #[test]
    fn a_controller_is_found_by_group_and_kind() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true},
        ]}}))
        .unwrap();
        assert_eq!(pod.controller_of::<ReplicaSet>(), Some(Uid::from("2")));
        assert_eq!(pod.controller_of::<Deployment>(), None);
        assert_eq!(pod.controller(), Some(Uid::from("2")));
        let mut owner = ReplicaSet::default();
        assert!(!pod.is_controlled_by(&owner));
        owner.metadata.uid = Some("2".to_owned());
        assert!(pod.is_controlled_by(&owner));
    }
}
