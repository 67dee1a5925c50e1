//! Compares the rights that manifests grant with the requests of a program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use parking_lot::Mutex;
use sendo::election::ElectionOptions;
use sendo::{Config, ObjectExt, Typed, rights};
use sendo_server::{Body, Caller, User};
use serde_json::Value;
use tower::Service;

use crate::cluster::TestCluster;

/// The rights that manifests grant to a ServiceAccount, and the requests of programs that run as that
/// account; see [`TestCluster::rights`].
#[derive(Clone)]
pub struct Rights {
    cluster: TestCluster,
    namespace: String,
    account: String,
    granted: Arc<[Right]>,
    requests: Requests,
}

/// The requests of each replica, counted.
type Requests = Arc<Mutex<BTreeMap<(String, Attributes), Counts>>>;

/// One verb on one resource, somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Right {
    /// Only in this namespace.
    namespace: Option<String>,
    group: String,
    /// With its subresource: `bars/status`.
    resource: String,
    verb: String,
    /// Only for these objects, unless there are none.
    names: Vec<String>,
}

/// The attributes by which a request is authorized.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attributes {
    verb: &'static str,
    group: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    /// Whether a watch begins with all objects: API servers without that feature are sent a list instead.
    lists_first: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    total: u64,
    refused: u64,
}

impl TestCluster {
    /// Creates the objects of some YAML documents: one ServiceAccount, roles, bindings and namespaces.
    ///
    /// # Panics
    /// If there is another kind among them, or not exactly one ServiceAccount.
    pub async fn rights(&self, yaml: &str) -> Rights {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .unwrap_or_else(|error| panic!("the manifests are no YAML: {error}"));
        let mut manifests = Manifests::default();
        for document in documents {
            manifests.create(self, document).await;
        }
        let [account] = &manifests.accounts[..] else {
            panic!(
                "the manifests have {} service accounts",
                manifests.accounts.len()
            );
        };
        Rights {
            cluster: self.clone(),
            namespace: account.namespace().unwrap_or_default().to_owned(),
            account: account.name().to_owned(),
            granted: manifests.granted_to(account).into(),
            requests: Arc::default(),
        }
    }
}

impl Rights {
    /// The config of a replica of a program that runs as the account. Replicas elect a leader by a lease
    /// with the name and namespace of the account.
    pub fn replica(&self, name: &str) -> Config {
        let user = User::service_account(&self.namespace, &self.account);
        let service = CountingService {
            inner: self.cluster.server().as_user(user),
            replica: name.to_owned(),
            granted: Arc::clone(&self.granted),
            requests: Arc::clone(&self.requests),
        };
        let client = kube::Client::new(service, &self.namespace);
        let election = ElectionOptions::new(&self.namespace, &self.account);
        Config {
            election: Some(election),
            ..self
                .cluster
                .config_with(client, self.cluster.world().child(name))
        }
    }

    /// The requests that were refused because a right is missing, a line each: `create pods`. An apply
    /// that creates an object and lacks only `create` is one of them.
    pub fn refused(&self) -> Vec<String> {
        let requests = self.requests.lock();
        let refused = requests.iter().filter(|(_, counts)| counts.refused > 0);
        refused
            .map(|((_, attributes), _)| attributes.to_string())
            .collect()
    }

    /// The rights that no request needed, a line each: `get pods`. An apply
    /// that creates needs `create` as well as `patch`.
    ///
    /// Rights that the server checks within another request, such as `bind` and `escalate`, are always
    /// among them.
    pub fn unused(&self) -> Vec<String> {
        let requests = self.requests.lock();
        let is_used = |right: &Right| {
            requests
                .keys()
                .any(|(_, attributes)| right.allows(attributes))
        };
        let unused = self.granted.iter().filter(|right| !is_used(right));
        unused.map(Right::to_string).collect()
    }

    /// The number of write requests of a replica, refused ones included, by verb and resource: `patch pods/status`.
    pub fn writes_of(&self, replica: &str) -> BTreeMap<String, u64> {
        let mut writes = BTreeMap::new();
        for ((name, attributes), counts) in self.requests.lock().iter() {
            let is_write = !["get", "list", "watch"].contains(&attributes.verb);
            if name == replica && is_write && counts.total > 0 {
                let line = line(attributes.verb, &attributes.resource, &attributes.group);
                *writes.entry(line).or_default() += counts.total;
            }
        }
        writes
    }

    /// How often a replica has renewed its lease. An idle program writes nothing else after the one
    /// Event that says that it became leader.
    ///
    /// # Panics
    /// If it has sent any other write, even one that changed nothing.
    pub fn renewals_of(&self, replica: &str) -> u64 {
        let mut writes = self.writes_of(replica);
        let renewals = writes.remove("update leases.coordination.k8s.io");
        if writes.get("create events") == Some(&1) {
            writes.remove("create events");
        }
        assert!(writes.is_empty(), "not only renewals: {writes:?}");
        renewals.unwrap_or_default()
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rights")
            .field("account", &format!("{}/{}", self.namespace, self.account))
            .finish_non_exhaustive()
    }
}

/// The objects of the manifests.
#[derive(Default)]
struct Manifests {
    accounts: Vec<ServiceAccount>,
    cluster_roles: Vec<ClusterRole>,
    roles: Vec<Role>,
    cluster_bindings: Vec<ClusterRoleBinding>,
    bindings: Vec<RoleBinding>,
}

impl Manifests {
    async fn create(&mut self, cluster: &TestCluster, document: Value) {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "Namespace" => drop(created::<Namespace>(cluster, document).await),
            "ServiceAccount" => self.accounts.push(created(cluster, document).await),
            "ClusterRole" => self.cluster_roles.push(created(cluster, document).await),
            "Role" => self.roles.push(created(cluster, document).await),
            "ClusterRoleBinding" => self.cluster_bindings.push(created(cluster, document).await),
            "RoleBinding" => self.bindings.push(created(cluster, document).await),
            other => panic!("a {other:?} is nothing that gives rights"),
        }
    }

    fn granted_to(&self, account: &ServiceAccount) -> Vec<Right> {
        let is_account = |subject: &k8s_openapi::api::rbac::v1::Subject| {
            subject.kind == "ServiceAccount"
                && subject.name == account.name()
                && subject.namespace.as_deref() == account.namespace()
        };
        let mut granted = Vec::new();
        for binding in &self.cluster_bindings {
            if binding.subjects.iter().flatten().any(is_account) {
                granted.extend(rights(
                    self.rules("ClusterRole", &binding.role_ref.name, None),
                    None,
                ));
            }
        }
        for binding in &self.bindings {
            if binding.subjects.iter().flatten().any(is_account) {
                let (role, namespace) = (&binding.role_ref, binding.namespace());
                granted.extend(rights(
                    self.rules(&role.kind, &role.name, namespace),
                    namespace,
                ));
            }
        }
        granted
    }

    fn rules(&self, kind: &str, name: &str, namespace: Option<&str>) -> &[PolicyRule] {
        let rules = match kind {
            "Role" => {
                let mut roles = self.roles.iter();
                let role = roles.find(|r| r.name() == name && r.namespace() == namespace);
                role.map(|role| &role.rules)
            }
            _ => {
                let role = self.cluster_roles.iter().find(|role| role.name() == name);
                role.map(|role| &role.rules)
            }
        };
        let rules = rules.unwrap_or_else(|| panic!("a binding names the {kind} {name}: not there"));
        rules.as_deref().unwrap_or_default()
    }
}

async fn created<K: Typed>(cluster: &TestCluster, document: Value) -> K {
    let object = serde_json::from_value(document);
    let object: K = object.unwrap_or_else(|error| panic!("a manifest is no object: {error}"));
    cluster.create(&object).await
}

/// Each verb of each rule on each of its resources.
fn rights<'a>(
    rules: &'a [PolicyRule],
    namespace: Option<&'a str>,
) -> impl Iterator<Item = Right> + 'a {
    rules.iter().flat_map(move |rule| {
        let groups = rule.api_groups.iter().flatten();
        groups.flat_map(move |group| {
            let resources = rule.resources.iter().flatten();
            resources.flat_map(move |resource| {
                rule.verbs.iter().map(move |verb| Right {
                    namespace: namespace.map(str::to_owned),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    names: rule.resource_names.clone().unwrap_or_default(),
                })
            })
        })
    })
}

impl Right {
    /// As RBAC has it, `*` included (pkg/apis/rbac/v1, `evaluation_helpers.go`).
    fn allows(&self, attributes: &Attributes) -> bool {
        let named = |name: &String| self.names.contains(name);
        let all_of_sub = |sub: &str| {
            attributes
                .resource
                .split_once('/')
                .is_some_and(|of| of.1 == sub)
        };
        let resource = match self.resource.strip_prefix('*') {
            Some("") => true,
            Some(sub) => sub.strip_prefix('/').is_some_and(all_of_sub),
            None => self.resource == attributes.resource,
        };
        (["*", attributes.verb].contains(&&*self.verb)
            || attributes.lists_first && self.verb == "list")
            && ["*", &attributes.group].contains(&&*self.group)
            && resource
            && (self.namespace.is_none() || self.namespace == attributes.namespace)
            && (self.names.is_empty() || attributes.name.as_ref().is_some_and(named))
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.verb, &self.resource, &self.group))?;
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(self.verb, &self.resource, &self.group))?;
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

fn line(verb: &str, resource: &str, group: &str) -> String {
    match group {
        "" => format!("{verb} {resource}"),
        group => format!("{verb} {resource}.{group}"),
    }
}

impl Attributes {
    /// The attributes of a request; `None` if its path names no resource, such as discovery.
    fn from_request<B>(request: &Request<B>) -> Option<Self> {
        let uri = request.uri();
        let query = uri.query().unwrap_or_default();
        let read = rights::Attributes::new(request.method(), uri.path(), query)?;
        (!read.resource.is_empty()).then(|| Attributes {
            verb: read.verb.name(),
            group: read.group.to_owned(),
            resource: read.resource().into_owned(),
            namespace: read.namespace.map(str::to_owned),
            name: read.name.map(Cow::into_owned),
            lists_first: read.lists_first,
        })
    }
}

/// Counts an answered request under the rights that it needed.
///
/// A patch or an update of an object that does not exist creates it: the API server then requires
/// the right to `create` as well, by the object's name
/// (apiserver `endpoints/handlers/patch.go` and `update.go`, `withAuthorization`).
fn count(
    counts: &mut BTreeMap<(String, Attributes), Counts>,
    replica: &str,
    attributes: Attributes,
    status: StatusCode,
    granted: &[Right],
) {
    let is_granted = |attributes: &Attributes| granted.iter().any(|right| right.allows(attributes));
    let creation = matches!(attributes.verb, "patch" | "update").then(|| Attributes {
        verb: "create",
        ..attributes.clone()
    });
    let is_refused = status == StatusCode::FORBIDDEN;
    let lacks_creation =
        |creation: &Attributes| is_refused && is_granted(&attributes) && !is_granted(creation);
    let creation =
        creation.filter(|creation| status == StatusCode::CREATED || lacks_creation(creation));
    let own_is_refused = is_refused && creation.is_none();
    let own = counts.entry((replica.to_owned(), attributes)).or_default();
    own.total += 1;
    own.refused += u64::from(own_is_refused);
    if let Some(creation) = creation {
        let creation = counts.entry((replica.to_owned(), creation)).or_default();
        creation.refused += u64::from(is_refused);
    }
}

/// Calls the server and counts the requests.
#[derive(Clone)]
struct CountingService {
    inner: Caller,
    replica: String,
    granted: Arc<[Right]>,
    requests: Requests,
}

impl Service<Request<kube::client::Body>> for CountingService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let attributes = Attributes::from_request(&request);
        let (replica, granted) = (self.replica.clone(), Arc::clone(&self.granted));
        let counts = Arc::clone(&self.requests);
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            if let Some(attributes) = attributes {
                let mut counts = counts.lock();
                count(
                    &mut counts,
                    &replica,
                    attributes,
                    response.status(),
                    &granted,
                );
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use sendo::cache::{Cache, CacheOptions};
    use sendo::client::{Client, ClientOptions};
    use serde_json::json;

    use super::*;
    use crate::run_with_seed;

    const MANIFESTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: program, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: program, namespace: default}
rules: [{apiGroups: [GROUP], resources: [RESOURCE], verbs: [VERBS]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: program, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: program}
subjects: [{kind: ServiceAccount, name: program, namespace: default}]
";

    /// Applies a ConfigMap that is not there with these rights: what was refused,
    /// what was not used, and what was written.
    fn apply_with(group: &str, resource: &str, verbs: &str) -> [Vec<String>; 3] {
        let manifests = MANIFESTS
            .replace("GROUP", group)
            .replace("RESOURCE", resource)
            .replace("VERBS", verbs);
        let seen = Mutex::new(Default::default());
        run_with_seed(1, |cluster| {
            let (manifests, seen) = (&manifests, &seen);
            async move {
                let rights = cluster.rights(manifests).await;
                let Config { client, world, .. } = rights.replica("a");
                let cache = Cache::new(client.clone(), world.clone(), CacheOptions::default());
                let options = ClientOptions {
                    name: "program".to_owned(),
                    ..ClientOptions::default()
                };
                let client = Client::new(client, cache, world, options);
                let map = json!({"metadata": {"name": "settings", "namespace": "default"}});
                let map: ConfigMap = serde_json::from_value(map).unwrap();
                let applied = client.apply(&map).await;
                assert_eq!(applied.is_ok(), rights.refused().is_empty(), "{applied:?}");
                let written = rights.writes_of("a");
                let written = written
                    .iter()
                    .map(|(what, times)| format!("{times} {what}"));
                *seen.lock() = [rights.refused(), rights.unused(), written.collect()];
            }
        });
        seen.into_inner()
    }

    #[test]
    fn an_apply_that_creates_needs_create_and_patch() {
        let nothing = Vec::<String>::new;
        let line = |line: &str| vec![line.to_owned()];
        let written = || line("1 patch configmaps");
        let apply_with = |verbs| apply_with("''", "configmaps", verbs);
        assert_eq!(
            apply_with("create, patch"),
            [nothing(), nothing(), written()]
        );
        let refused = line("create configmaps in default");
        assert_eq!(apply_with("patch"), [refused, nothing(), written()]);
        let refused = line("patch configmaps in default");
        let unused = line("create configmaps in default");
        assert_eq!(apply_with("create"), [refused, unused, written()]);
    }

    #[test]
    fn rights_to_everything_are_rights_to_each() {
        let written = vec!["1 patch configmaps".to_owned()];
        let used = [Vec::new(), Vec::new(), written];
        assert_eq!(apply_with("''", "configmaps", "'*'"), used);
        assert_eq!(apply_with("'*'", "'*'", "create, patch"), used);
    }
}
