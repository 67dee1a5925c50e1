//! The resources a server serves: names, scope, verbs, subresources, columns.
//!
//! [`Resources::builtin`] knows those of a default Kubernetes 1.36 server. A
//! [`Resource`] is a plain value, so that one made for a custom resource is
//! served and published in the same way.

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

mod text;

/// A resource in one version of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version, as `v1`.
    pub version: String,
    /// The name in paths, as `deployments`.
    pub plural: String,
    /// The name `kubectl` also accepts, as `deployment`.
    pub singular: String,
    /// The kind of its objects, as `Deployment`.
    pub kind: String,
    /// Whether objects lie in a namespace.
    pub scope: Scope,
    /// What can be done with it, in the order discovery shows.
    pub verbs: Vec<String>,
    /// Abbreviations, as `deploy`.
    pub short_names: Vec<String>,
    /// Names of sets it belongs to, as `all`.
    pub categories: Vec<String>,
    /// What lies below an object's path, sorted by name.
    pub subresources: Vec<Subresource>,
    /// How its objects are kept; none if they are not, as those of a review.
    pub storage: Option<Storage>,
    /// Whether deleting answers with the object rather than with a `Status`.
    pub returns_deleted: bool,
    /// The feature that a server needs to serve it; none that a default server serves.
    pub feature: Option<String>,
    /// The columns of a table of its objects; never empty.
    pub columns: Vec<Column>,
}

/// Whether a resource's objects lie in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One set of objects for the whole cluster.
    Cluster,
    /// A set of objects in each namespace.
    Namespaced,
}

/// A path below an object: `status`, `scale`, `log`, …
#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// The last part of the path, as `status`.
    pub name: String,
    /// The kind that is sent and answered, as `Scale`.
    pub kind: String,
    /// The group of that kind.
    pub group: String,
    /// The version of that kind.
    pub version: String,
    /// What can be done with it, in the order discovery shows.
    pub verbs: Vec<String>,
    /// Whether it answers with plain text, as a log does.
    pub plain_text: bool,
    /// Query parameters that it alone has.
    pub query: Vec<QueryParameter>,
}

/// A query parameter of a subresource.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryParameter {
    /// Its name, as `follow`.
    pub name: String,
    /// Its OpenAPI type, as `boolean`.
    pub kind: String,
}

/// How a resource's objects are kept.
///
/// Resources with an equal storage show the same objects: the versions of a
/// resource, and the events of both groups that serve them.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// The group in which objects are kept; mostly the resource's own.
    pub group: String,
    /// The version in which objects are kept.
    pub version: String,
    /// What discovery shows as `storageVersionHash`.
    pub hash: String,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of its cells.
    pub kind: String,
    /// The OpenAPI format of its cells; `name` marks the object's name.
    pub format: String,
    /// 0 is always shown, more only in a wide table.
    pub priority: i32,
}

impl Resource {
    /// `v1` for the core group, otherwise `group/version`.
    pub fn api_version(&self) -> String {
        join(&self.group, &self.version)
    }

    /// Whether discovery lists the verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|own| own.name == name)
    }

    /// The path of a list of its objects with `{namespace}` where one goes, as
    /// `/apis/apps/v1/namespaces/{namespace}/deployments`.
    pub fn path(&self) -> String {
        let root = if self.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let namespace = match self.scope {
            Scope::Cluster => "",
            Scope::Namespaced => "namespaces/{namespace}/",
        };
        format!("{root}/{}/{namespace}{}", self.api_version(), self.plural)
    }
}

impl Subresource {
    /// `v1` for the core group, otherwise `group/version`.
    pub fn api_version(&self) -> String {
        join(&self.group, &self.version)
    }
}

/// The columns of resources that define none: name and age.
pub fn default_columns() -> Vec<Column> {
    let column = |name: &str, kind: &str, format: &str| Column {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        priority: 0,
    };
    vec![
        column("Name", "string", "name"),
        column("Created At", "date", ""),
    ]
}

/// What discovery shows as `storageVersionHash` of objects kept in this version.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// A set of resources, in the order in which discovery lists groups and versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    all: Vec<Resource>,
}

impl Resources {
    /// All resources of a default Kubernetes 1.36 server: those in stable
    /// versions. Reading them takes some hundred microseconds; a server does it
    /// once and keeps the value.
    pub fn builtin() -> Self {
        Self::with_features(&[])
    }

    /// The same, and those that only a server with one of these features serves.
    pub fn with_features(features: &[&str]) -> Self {
        let mut all = text::read();
        all.retain(|resource| {
            let feature = resource.feature.as_deref();
            feature.is_none_or(|feature| features.contains(&feature))
        });
        Self { all }
    }

    /// All resources, the core group's first.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.all.iter()
    }

    /// A resource by what a request's path says.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.group_version(group, version)
            .find(|resource| resource.plural == plural)
    }

    /// The resource of a kind; what only a subresource accepts has none.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Resource> {
        self.group_version(group, version)
            .find(|resource| resource.kind == kind)
    }

    /// The resources of one group version.
    pub fn group_version<'s>(
        &'s self,
        group: &str,
        version: &str,
    ) -> impl Iterator<Item = &'s Resource> {
        self.all
            .iter()
            .filter(move |resource| resource.group == group && resource.version == version)
    }

    /// Every group with its versions, the preferred one first.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for resource in &self.all {
            let (group, version) = (resource.group.as_str(), resource.version.as_str());
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, versions)) if versions.contains(&version) => {}
                Some((_, versions)) => versions.push(version),
                None => groups.push((group, vec![version])),
            }
        }
        groups
    }

    /// All versions of a resource, the preferred one first.
    pub fn versions<'s>(&'s self, group: &str, plural: &str) -> impl Iterator<Item = &'s Resource> {
        self.all
            .iter()
            .filter(move |resource| resource.group == group && resource.plural == plural)
    }
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_path_and_by_kind() {
        let resources = Resources::builtin();
        let deployments = resources.get("apps", "v1", "deployments").unwrap();
        assert_eq!(deployments.kind, "Deployment");
        assert_eq!(deployments.scope, Scope::Namespaced);
        assert_eq!(deployments.short_names, ["deploy"]);
        assert_eq!(deployments.categories, ["all"]);
        assert_eq!(
            deployments.path(),
            "/apis/apps/v1/namespaces/{namespace}/deployments"
        );
        assert_eq!(
            resources.by_kind("apps", "v1", "Deployment"),
            Some(deployments)
        );
        assert_eq!(
            resources.get("", "v1", "nodes").unwrap().path(),
            "/api/v1/nodes"
        );
        assert!(resources.get("apps", "v1beta1", "deployments").is_none());
    }

    #[test]
    fn only_stable_versions_are_served() {
        let resources = Resources::builtin();
        assert_eq!(resources.iter().count(), 68);
        for resource in resources.iter() {
            let number = resource.version.strip_prefix('v').unwrap();
            assert!(number.parse::<u32>().is_ok(), "{}", resource.version);
        }
    }

    #[test]
    fn a_subresource_may_have_a_kind_of_another_group() {
        let resources = Resources::builtin();
        let pods = resources.get("", "v1", "pods").unwrap();
        let eviction = pods.subresource("eviction").unwrap();
        assert_eq!(
            (eviction.api_version().as_str(), &*eviction.kind),
            ("policy/v1", "Eviction")
        );
        let status = pods.subresource("status").unwrap();
        assert_eq!(
            (status.api_version().as_str(), &*status.kind),
            ("v1", "Pod")
        );
        assert_eq!(status.verbs, ["get", "patch", "update"]);
    }

    #[test]
    fn some_resources_answer_in_their_own_way() {
        let resources = Resources::builtin();
        let pods = resources.get("", "v1", "pods").unwrap();
        assert!(pods.returns_deleted);
        assert!(
            !resources
                .get("", "v1", "configmaps")
                .unwrap()
                .returns_deleted
        );
        let log = pods.subresource("log").unwrap();
        assert!(log.plain_text);
        let follow = log
            .query
            .iter()
            .find(|parameter| parameter.name == "follow");
        assert_eq!(follow.unwrap().kind, "boolean");
    }

    #[test]
    fn resources_that_show_the_same_objects_share_their_storage() {
        let resources = Resources::builtin();
        let storage = |group, version, plural| {
            let storage = resources
                .get(group, version, plural)
                .unwrap()
                .storage
                .clone();
            storage.map(|storage| (storage.group, storage.version))
        };
        let (core, v2) = (
            ("".into(), "v1".into()),
            ("autoscaling".into(), "v2".into()),
        );
        assert_eq!(storage("events.k8s.io", "v1", "events"), Some(core));
        assert_eq!(
            storage("autoscaling", "v1", "horizontalpodautoscalers"),
            Some(v2)
        );
        assert_eq!(
            storage("authorization.k8s.io", "v1", "subjectaccessreviews"),
            None
        );
    }

    #[test]
    fn groups_come_in_the_order_of_discovery_and_versions_by_preference() {
        let resources = Resources::builtin();
        let groups = resources.groups();
        let names: Vec<_> = groups.iter().map(|(group, _)| *group).take(4).collect();
        assert_eq!(
            names,
            ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]
        );
        assert!(groups.contains(&("autoscaling", vec!["v2", "v1"])));
    }

    #[test]
    fn columns_are_those_of_the_printer_or_the_default_ones() {
        let resources = Resources::builtin();
        let headings = |plural| {
            let resource = resources.get("", "v1", plural).unwrap();
            resource
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(headings("limitranges"), ["Name", "Created At"]);
        assert_eq!(headings("configmaps"), ["Name", "Data", "Age"]);
        assert_eq!(
            resources.get("", "v1", "pods").unwrap().columns[5].priority,
            1
        );
    }

    #[test]
    fn the_storage_hash_is_the_one_that_discovery_publishes() {
        for resource in Resources::builtin()
            .iter()
            .filter(|resource| resource.group == "apps")
        {
            let hash = storage_version_hash("apps", "v1", &resource.kind);
            assert_eq!(resource.storage.as_ref().unwrap().hash, hash);
        }
    }
}
