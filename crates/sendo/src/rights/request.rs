//! The attributes by which a request is authorized, read from its method and path.
//!
//! Rules of Kubernetes: apiserver v0.36, `pkg/endpoints/request/requestinfo.go`.

use std::borrow::Cow;
use std::fmt;

use http::Method;

use super::Verb;

/// What a request does, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// What it does.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The resource, without its subresource. Empty if the path names none, as discovery.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: Option<&'a str>,
    /// The namespace, if the path has one.
    pub namespace: Option<&'a str>,
    /// The object's name, if the path has one, or if a list or watch selects it.
    pub name: Option<Cow<'a, str>>,
    /// Whether a watch begins with all objects. API servers without that feature are
    /// sent a list instead.
    pub lists_first: bool,
    /// The path.
    pub path: &'a str,
}

impl<'a> Attributes<'a> {
    /// Reads a request line. `None` for a method that no client of the API uses.
    pub fn new(method: &Method, path: &'a str, query: &'a str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next().unwrap_or_default() {
            "api" => Some(""),
            "apis" => parts.next(),
            _ => None,
        };
        let version = parts.next();
        let mut parts = parts.filter(|part| !part.is_empty());
        let (Some(group), Some(_), Some(first)) = (group, version, parts.next()) else {
            return Some(Attributes {
                verb: verb_of_path(method)?,
                group: "",
                resource: "",
                subresource: None,
                namespace: None,
                name: None,
                lists_first: false,
                path,
            });
        };
        let (mut resource, mut namespace) = (first, None);
        let mut name = parts.next();
        let mut subresource = parts.next();
        // A namespace has subresources of its own; all else is in it.
        if let ("namespaces", Some(within), Some(next)) = (first, name, subresource)
            && !["status", "finalize"].contains(&next)
        {
            (resource, namespace) = (next, Some(within));
            (name, subresource) = (parts.next(), parts.next());
        } else if first == "namespaces" {
            namespace = name;
        }
        let watches = has(query, "watch=true") || has(query, "watch=1");
        let verb = match *method {
            Method::GET | Method::HEAD if name.is_some() => Verb::Get,
            Method::GET | Method::HEAD if watches => Verb::Watch,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if name.is_some() => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        };
        let selects = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        Some(Attributes {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name: match name {
                Some(name) => Some(name.into()),
                None if selects => selected_name(query).map(Cow::from),
                None => None,
            },
            lists_first: verb == Verb::Watch && has(query, "sendInitialEvents=true"),
            path,
        })
    }

    /// The resource with its subresource, as in a role: `pods/status`.
    pub fn resource(&self) -> Cow<'a, str> {
        match self.subresource {
            Some(sub) => format!("{}/{sub}", self.resource).into(),
            None => self.resource.into(),
        }
    }
}

/// `patch deployments/status.apps in a`, as `kubectl auth can-i` names a resource.
impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.resource.is_empty() {
            return write!(f, "{} {}", self.verb, self.path);
        }
        let resource = qualified(&self.resource(), self.group);
        write!(f, "{} {resource}", self.verb)?;
        match self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// A resource with its group: `deployments/status.apps`.
pub(super) fn qualified(resource: &str, group: &str) -> String {
    match group {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    }
}

/// The verb of a request to a path that is no resource.
fn verb_of_path(method: &Method) -> Option<Verb> {
    Some(match *method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    })
}

fn has(query: &str, wanted: &str) -> bool {
    query.split('&').any(|part| part == wanted)
}

/// The name that a field selector asks for, if it asks for nothing else.
fn selected_name(query: &str) -> Option<&str> {
    let mut parts = query.split('&');
    let fields = parts.find_map(|part| part.strip_prefix("fieldSelector="))?;
    let name = fields.strip_prefix("metadata.name");
    let name = name.and_then(|rest| rest.strip_prefix("%3D").or(rest.strip_prefix('=')))?;
    // Nothing in a name needs escaping, so what is escaped is another requirement.
    (!name.contains(['%', ',', '='])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_verb_on_a_resource() {
        for (method, path, line) in [
            (Method::GET, "/api/v1/pods", "list pods"),
            (Method::GET, "/api/v1/pods?watch=true", "watch pods"),
            (Method::GET, "/api/v1/namespaces/a", "get namespaces in a"),
            (Method::GET, "/api/v1/namespaces", "list namespaces"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "update namespaces/finalize in a",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods",
                "create pods in a",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                "deletecollection pods in a",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/d/status?x=1",
                "patch deployments/status.apps in a",
            ),
            (Method::GET, "/apis/apps/v1", "get /apis/apps/v1"),
            (Method::GET, "/version", "get /version"),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let attributes = Attributes::new(&method, path, query).unwrap();
            assert_eq!(attributes.to_string(), line);
        }
        assert_eq!(Attributes::new(&Method::TRACE, "/version", ""), None);
    }

    #[test]
    fn a_list_of_one_name_is_about_that_name() {
        let name = |query| {
            let attributes = Attributes::new(&Method::GET, "/api/v1/secrets", query).unwrap();
            attributes.name.map(Cow::into_owned)
        };
        assert_eq!(
            name("limit=1&fieldSelector=metadata.name%3Dx"),
            Some("x".to_owned())
        );
        for wider in [
            "",
            "fieldSelector=metadata.namespace%3Dx",
            "fieldSelector=metadata.name%3Dx%2Ctype%3Dy",
            "fieldSelector=metadata.name%21%3Dx",
        ] {
            assert_eq!(name(wider), None, "{wider}");
        }
    }
}
