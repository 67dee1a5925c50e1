//! Parses the path of a request, by the rules of Kubernetes.

use http::Method;
use sendo_apimachinery::FieldSelector;

use crate::request::query::{self, Query};

/// The verb of a request, for which a permission is given.
///
/// An unknown method has the empty verb, as Kubernetes words it when it refuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// Of the old `/proxy/` paths, at which nothing is served any more.
    Proxy,
    Unknown,
}

impl Verb {
    /// Whether nothing is changed by it.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The verb in a rule's words.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Proxy => "proxy",
            Verb::Unknown => "",
        }
    }
}

/// What a request's path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A resource of the API, served or not.
    Resource(ResourcePath),
    /// Any other path: discovery, health, version.
    Other,
}

/// A word before the resource that says what is to be done, whatever the method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// `/watch/`
    Watch,
    /// `/proxy/`
    Proxy,
}

/// A path below `/api/v1` or `/apis/<group>/<version>`, taken apart.
///
/// That such a resource exists is not checked here: authorisation comes before that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// The group, empty for the core one.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The namespace. For the resource `namespaces` itself, its own name.
    pub(crate) namespace: Option<String>,
    /// The plural name.
    pub(crate) resource: String,
    /// The object's name.
    pub(crate) name: Option<String>,
    /// The subresource.
    pub(crate) subresource: Option<String>,
    /// Whether this is one of the old paths that begin with a verb.
    pub(crate) prefix: Option<Prefix>,
    /// Segments after the subresource, which only proxies have.
    pub(crate) rest: Vec<String>,
}

/// The subresources of a namespace: all else after its name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl Target {
    /// Takes a decoded path apart. Slashes at its end say nothing.
    pub(crate) fn parse(path: &str) -> Target {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.trim_end_matches('/');
        let mut parts = path.split('/');
        let group = match parts.next() {
            Some("api") => Some(""),
            Some("apis") => parts.next().filter(|group| !group.is_empty()),
            _ => None,
        };
        let (Some(group), Some(version)) = (group, parts.next()) else {
            return Target::Other;
        };
        let mut parts: Vec<&str> = parts.collect();
        let prefix = match parts.as_slice() {
            ["watch", _, ..] => Some(Prefix::Watch),
            ["proxy", _, ..] => Some(Prefix::Proxy),
            _ => None,
        };
        if prefix.is_some() {
            parts.remove(0);
        }
        if parts.is_empty() {
            return Target::Other;
        }

        let mut found = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            prefix,
            ..ResourcePath::default()
        };
        if parts[0] == "namespaces" && parts.len() > 1 {
            found.namespace = Some(parts[1].to_owned());
            if parts.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&parts[2]) {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter().map(str::to_owned);
        found.resource = parts.next().unwrap_or_default();
        found.name = parts.next();
        if prefix != Some(Prefix::Proxy) {
            found.subresource = parts.next();
        }
        found.rest = parts.collect();
        Target::Resource(found)
    }
}

impl ResourcePath {
    /// The verb of `method` on this path; `query` distinguishes a watch from a list.
    ///
    /// The rule is that of `RequestInfoFactory.NewRequestInfo` in k8s.io/apiserver
    /// (pkg/endpoints/request/requestinfo.go).
    pub(crate) fn verb(&self, method: &Method, query: &Query) -> Verb {
        let collection = self.name.as_deref().unwrap_or_default().is_empty();
        match method.as_str() {
            _ if self.prefix == Some(Prefix::Watch) => Verb::Watch,
            _ if self.prefix == Some(Prefix::Proxy) => Verb::Proxy,
            "GET" | "HEAD" if !collection => Verb::Get,
            "GET" | "HEAD" if query.flag("watch") => Verb::Watch,
            "GET" | "HEAD" => Verb::List,
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" if collection => Verb::DeleteCollection,
            "DELETE" => Verb::Delete,
            _ => Verb::Unknown,
        }
    }

    /// The field selector of a request on a collection. One that cannot be read is none, and
    /// neither is that of an old path: those do not take selectors all alike.
    pub(crate) fn fields(&self, verb: Verb, query: &Query) -> FieldSelector {
        let selects = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let selector = query.text("fieldSelector");
        match selects && self.prefix.is_none() && !selector.is_empty() {
            true => FieldSelector::parse(selector).unwrap_or_default(),
            false => FieldSelector::default(),
        }
    }
}

/// The path with its escapes resolved. `None` if an escape is broken.
pub(crate) fn decode(path: &str) -> Option<String> {
    query::unescape(path, query::Plus::Itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> ResourcePath {
        match Target::parse(path) {
            Target::Resource(found) => found,
            Target::Other => panic!("{path} names no resource"),
        }
    }

    #[test]
    fn core_and_grouped_paths_come_apart_alike() {
        let pod = resource("/api/v1/namespaces/a/pods/b/log");
        assert_eq!(
            (
                pod.group.as_str(),
                pod.version.as_str(),
                pod.resource.as_str()
            ),
            ("", "v1", "pods")
        );
        assert_eq!(pod.namespace.as_deref(), Some("a"));
        assert_eq!(pod.name.as_deref(), Some("b"));
        assert_eq!(pod.subresource.as_deref(), Some("log"));

        let deployments = resource("/apis/apps/v1/deployments");
        assert_eq!(
            (deployments.group.as_str(), deployments.namespace),
            ("apps", None)
        );
        assert_eq!(deployments.name, None);
    }

    #[test]
    fn a_namespace_is_in_itself() {
        let namespace = resource("/api/v1/namespaces/a");
        assert_eq!(namespace.resource, "namespaces");
        assert_eq!(namespace.namespace.as_deref(), Some("a"));
        assert_eq!(namespace.name.as_deref(), Some("a"));
        let finalize = resource("/api/v1/namespaces/a/finalize");
        assert_eq!(finalize.subresource.as_deref(), Some("finalize"));
        assert_eq!(resource("/api/v1/namespaces/a/pods").resource, "pods");
    }

    #[test]
    fn paths_above_a_resource_are_other() {
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1/",
            "/healthz",
        ] {
            assert_eq!(Target::parse(path), Target::Other, "{path}");
        }
    }

    #[test]
    fn the_old_watch_paths_watch() {
        let path = resource("/api/v1/watch/namespaces/a/pods/b");
        assert_eq!(path.prefix, Some(Prefix::Watch));
        assert_eq!(path.name.as_deref(), Some("b"));
        for method in [Method::GET, Method::POST, Method::DELETE] {
            assert_eq!(path.verb(&method, &Query::default()), Verb::Watch);
        }
    }

    #[test]
    fn the_old_proxy_paths_have_a_verb_of_their_own() {
        let path = resource("/api/v1/proxy/namespaces/a/pods/b/c/d");
        assert_eq!((path.name.as_deref(), path.subresource), (Some("b"), None));
        assert_eq!(path.rest, ["c", "d"]);
        let path = resource("/api/v1/proxy/nodes/b");
        assert_eq!(path.verb(&Method::GET, &Query::default()), Verb::Proxy);
    }

    #[test]
    fn verbs_follow_method_name_and_watch() {
        let one = resource("/api/v1/nodes/a");
        let all = resource("/api/v1/nodes");
        let watching = Query::parse("watch=true");
        let plain = Query::default();
        assert_eq!(one.verb(&Method::GET, &plain), Verb::Get);
        assert_eq!(all.verb(&Method::GET, &plain), Verb::List);
        assert_eq!(all.verb(&Method::GET, &watching), Verb::Watch);
        assert_eq!(all.verb(&Method::DELETE, &plain), Verb::DeleteCollection);
        assert_eq!(one.verb(&Method::DELETE, &plain), Verb::Delete);
        assert_eq!(one.verb(&Method::OPTIONS, &plain), Verb::Unknown);
    }

    #[test]
    fn slashes_at_the_end_are_forgiven_and_at_the_beginning_are_not() {
        let node = resource("/api/v1/nodes/a");
        assert_eq!(resource("/api/v1/nodes/a/"), node);
        assert_eq!(resource("/api/v1/nodes/a//"), node);
        assert_ne!(
            Target::parse("//api/v1/nodes/a"),
            Target::parse("/api/v1/nodes/a")
        );
    }
}
