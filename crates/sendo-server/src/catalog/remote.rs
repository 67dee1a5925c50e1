//! Versions of groups that other API servers serve, and how all versions rank in discovery.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper/helpers.go`: `SortedByGroupAndVersion`
//! - `staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/handler.go`: `calculateAPIGroupsLocked`

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::version_priority::rank;
use super::{Catalog, Group, Resource};

/// The port of a Service that names none.
const PORT: u16 = 443;

/// Where an API server is, as an APIService says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    /// Namespace and name of its Service.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// The certificates that vouch for its own, in PEM.
    pub(crate) ca_bundle: Vec<u8>,
    /// Whether any certificate will do (`insecureSkipTLSVerify`).
    pub(crate) is_insecure: bool,
}

impl Backend {
    /// What an APIService says; `None` if this server serves its version itself.
    pub(crate) fn from_api_service(api_service: &Value) -> Option<Backend> {
        let spec = &api_service["spec"];
        let service = spec.get("service").filter(|service| service.is_object())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bundle = spec["caBundle"].as_str().unwrap_or_default();
        let port = service["port"].as_u64();
        Some(Backend {
            namespace: text(&service["namespace"]),
            name: text(&service["name"]),
            port: port
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or(PORT),
            ca_bundle: STANDARD.decode(bundle).unwrap_or_default(),
            is_insecure: spec["insecureSkipTLSVerify"] == true,
        })
    }

    /// The name that its certificate must be for.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// A version of a group that another API server serves.
#[derive(Clone, Debug)]
pub(crate) struct RemoteVersion {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) backend: Arc<Backend>,
    /// Whether requests are forwarded: what the condition `Available` says.
    pub(crate) is_available: bool,
    /// What the server says about the version.
    pub(crate) documents: Documents,
}

impl RemoteVersion {
    /// The name of its APIService.
    pub(crate) fn api_service(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    /// The path of its discovery document.
    pub(crate) fn discovery_path(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }

    /// The path below which its server answers.
    pub(crate) fn root(&self) -> String {
        match self.group.as_str() {
            "" => "/api".to_owned(),
            _ => self.discovery_path(),
        }
    }
}

/// What the server of a version says about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents {
    /// The resources, as aggregated discovery lists them; `None` if they are not known.
    pub(crate) resources: Option<Arc<Value>>,
    /// Whether the server could be asked the last time.
    pub(crate) is_fresh: bool,
    /// The paths of its OpenAPI documents of version 3, each with the URL to get it at.
    pub(crate) openapi_urls: BTreeMap<String, String>,
    /// The OpenAPI document of the version.
    pub(crate) openapi: Option<Arc<Value>>,
}

/// How a version ranks in discovery, as its APIService says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    /// `groupPriorityMinimum`
    pub(crate) group: u64,
    /// `versionPriority`
    pub(crate) version: u64,
}

/// What versions of custom resources have, until their APIService is there.
const CUSTOM: Priority = Priority {
    group: 1000,
    version: 100,
};

/// The group of APIServices comes first, and has none of its own.
const FIRST: &str = crate::kinds::api_service::GROUP;

/// Priorities by group and version.
pub(crate) type Priorities = BTreeMap<String, BTreeMap<String, Priority>>;

/// A version, wherever it is served.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServedVersion<'a> {
    /// By this server: its name and its resources.
    Here(&'a str, &'a [Arc<Resource>]),
    /// By another one.
    Elsewhere(&'a RemoteVersion),
}

impl<'a> ServedVersion<'a> {
    pub(crate) fn name(self) -> &'a str {
        match self {
            ServedVersion::Here(version, _) => version,
            ServedVersion::Elsewhere(remote) => &remote.version,
        }
    }
}

impl Catalog {
    /// Replaces what APIServices say: the versions that other servers serve, and the
    /// priorities of all. What a server has said about its version is kept.
    pub(crate) fn set_api_services(
        &mut self,
        mut remote: Vec<RemoteVersion>,
        priorities: Priorities,
    ) {
        for version in &mut remote {
            let known = self.remote_version(&version.group, &version.version);
            if let Some(known) = known.filter(|known| known.backend == version.backend) {
                version.documents = known.documents.clone();
            }
        }
        self.remote = remote.into_iter().map(Arc::new).collect();
        self.priorities = priorities;
    }

    /// Changes what is known of a version that another server serves.
    pub(crate) fn change_remote(
        &mut self,
        api_service: &str,
        change: impl FnOnce(&mut RemoteVersion),
    ) {
        let mut remote = self.remote.iter_mut();
        if let Some(found) = remote.find(|remote| remote.api_service() == api_service) {
            change(Arc::make_mut(found));
        }
    }

    /// The versions that other servers serve.
    pub(crate) fn remote(&self) -> &[Arc<RemoteVersion>] {
        &self.remote
    }

    /// A version that another server serves.
    pub(crate) fn remote_version(&self, group: &str, version: &str) -> Option<&Arc<RemoteVersion>> {
        let mut remote = self.remote.iter();
        remote.find(|own| own.group == group && own.version == version)
    }

    /// The version whose server answers a path.
    pub(crate) fn remote_at(&self, path: &str) -> Option<&Arc<RemoteVersion>> {
        let is_below = |root: &str| {
            let rest = path.strip_prefix(root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.remote.iter().find(|remote| is_below(&remote.root()))
    }

    /// The names of all groups but the core one, in the order of discovery.
    pub(crate) fn group_names(&self) -> Vec<&str> {
        let own = self.groups.iter().map(|group| group.name.as_str());
        let mut names: Vec<&str> = own.filter(|name| !name.is_empty()).collect();
        for remote in &self.remote {
            if !remote.group.is_empty() && !names.contains(&remote.group.as_str()) {
                names.push(&remote.group);
            }
        }
        names.sort_by_key(|name| (*name != FIRST, Reverse(self.group_priority(name)), *name));
        names
    }

    /// The versions of a group, wherever they are served, the preferred one first.
    pub(crate) fn versions(&self, group: &str) -> Vec<ServedVersion<'_>> {
        let own = self.group(group).into_iter().flat_map(Group::entries);
        let own = own
            .filter(|(version, _)| self.remote_version(group, version).is_none())
            .map(|(version, resources)| ServedVersion::Here(version, resources));
        let remote = self.remote.iter().filter(|remote| remote.group == group);
        let remote = remote.map(|remote| ServedVersion::Elsewhere(remote));
        let mut versions: Vec<_> = own.chain(remote).collect();
        versions.sort_by_key(|version| {
            let name = version.name();
            (Reverse(self.priority(group, name).version), rank(name))
        });
        versions
    }

    fn priority(&self, group: &str, version: &str) -> Priority {
        let known = self.priorities.get(group);
        let known = known.and_then(|versions| versions.get(version));
        known.copied().unwrap_or(CUSTOM)
    }

    /// The highest priority that a version of the group gives it.
    fn group_priority(&self, group: &str) -> u64 {
        let known = self.priorities.get(group).into_iter().flatten();
        let highest = known.map(|(_, priority)| priority.group).max();
        highest.unwrap_or(CUSTOM.group)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remote(group: &str, version: &str) -> RemoteVersion {
        let api_service = json!({"spec": {"service": {"namespace": "n", "name": "s"}}});
        RemoteVersion {
            group: group.to_owned(),
            version: version.to_owned(),
            backend: Arc::new(Backend::from_api_service(&api_service).unwrap()),
            is_available: true,
            documents: Documents::default(),
        }
    }

    fn priorities(list: &[(&str, &str, u64, u64)]) -> Priorities {
        let mut priorities = Priorities::new();
        for (group, version, group_priority, version_priority) in list {
            let versions = priorities.entry((*group).to_owned()).or_default();
            let priority = Priority {
                group: *group_priority,
                version: *version_priority,
            };
            versions.insert((*version).to_owned(), priority);
        }
        priorities
    }

    #[test]
    fn groups_and_versions_are_listed_by_the_priorities_of_their_api_services() {
        let mut catalog = Catalog::builtin();
        catalog.set_api_services(
            vec![
                remote("b.example", "v1"),
                remote("a.example", "v1"),
                remote("first.example", "v1"),
                remote("apps", "v2"),
                remote("apps", "v3"),
                remote("apps", "v1beta1"),
            ],
            priorities(&[
                ("apps", "v1", 17800, 15),
                ("batch", "v1", 17400, 15),
                ("apps", "v2", 100, 15),
                ("apps", "v3", 100, 15),
                ("apps", "v1beta1", 100, 16),
                ("a.example", "v1", 100, 15),
                ("b.example", "v1", 100, 15),
                ("first.example", "v1", 17500, 15),
            ]),
        );
        let names = catalog.group_names();
        assert_eq!(
            names[..4],
            ["apiregistration.k8s.io", "apps", "first.example", "batch"]
        );
        assert_eq!(names[names.len() - 2..], ["a.example", "b.example"]);
        let versions = catalog.versions("apps").into_iter();
        let versions: Vec<&str> = versions.map(ServedVersion::name).collect();
        assert_eq!(versions, ["v1beta1", "v3", "v2", "v1"]);
    }

    #[test]
    fn a_path_belongs_to_the_version_it_is_below() {
        let mut catalog = Catalog::builtin();
        catalog.set_api_services(vec![remote("a.example", "v1")], Priorities::new());
        let found = |path: &str| catalog.remote_at(path).is_some();
        assert!(found("/apis/a.example/v1") && found("/apis/a.example/v1/things/b"));
        assert!(!found("/apis/a.example/v1beta1") && !found("/apis/a.example"));
    }
}
