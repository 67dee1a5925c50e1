//! Who may do what.
//!
//! Administrators and the cluster's own components may do everything; everybody
//! who is authenticated may read health, version and discovery, an anonymous
//! caller only health and version. Rules of the RBAC kinds are judged in this
//! place, before path, method and body of a request are looked at.

use sendo_apimachinery::{GroupResource, Status, go_quote};

use crate::path::{ResourcePath, Target, Verb};
use crate::request::Request;
use crate::user::{AUTHENTICATED, MASTERS, User};

/// Users that are parts of the cluster itself.
const COMPONENTS: [&str; 4] = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:kube-proxy",
];
/// The group of node agents.
const NODES: &str = "system:nodes";

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// Something with a resource.
    Resource {
        verb: String,
        group: String,
        resource: String,
    },
    /// Something with a path that names no resource.
    Path { verb: String, path: String },
}

/// Lets a request pass, or tells why not.
pub(crate) fn authorise(request: &Request) -> Result<(), Status> {
    let attributes = match &request.target {
        Target::Resource(path) => Attributes::Resource {
            verb: request.verb.as_str().to_owned(),
            group: path.group.clone(),
            resource: path.resource.clone(),
        },
        Target::Other => Attributes::Path {
            verb: request.method.as_str().to_ascii_lowercase(),
            path: request.path.clone(),
        },
    };
    if is_allowed(&request.user, &attributes) {
        return Ok(());
    }
    match (&request.target, &attributes) {
        (Target::Resource(path), _) => Err(refuse_resource(request, path)),
        (Target::Other, _) => {
            let cause = format_args!(
                "User {} cannot {} path {}",
                go_quote(&request.user.name),
                request.method.as_str().to_ascii_lowercase(),
                go_quote(&request.path)
            );
            Err(Status::forbidden(&GroupResource::default(), "", cause))
        }
    }
}

/// Whether a user may do something.
pub(crate) fn is_allowed(user: &User, attributes: &Attributes) -> bool {
    if may_do_everything(user) {
        return true;
    }
    match attributes {
        Attributes::Resource {
            verb,
            group,
            resource,
        } => user.is_in(AUTHENTICATED) && verb == "create" && is_about_oneself(group, resource),
        Attributes::Path { verb, path } => is_readable(user, verb, path),
    }
}

/// Whether somebody is an administrator, or a part of the cluster.
pub(crate) fn may_do_everything(user: &User) -> bool {
    user.is_in(MASTERS) || user.is_in(NODES) || COMPONENTS.contains(&user.name.as_str())
}

/// Questions that everybody may ask of themselves.
fn is_about_oneself(group: &str, resource: &str) -> bool {
    let reviews: &[&str] = match group {
        "authentication.k8s.io" => &["selfsubjectreviews"],
        "authorization.k8s.io" => &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        _ => return false,
    };
    reviews.contains(&resource)
}

/// What everybody who is authenticated may read; a star stands for all below.
pub(crate) const READABLE: [&str; 11] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
/// What of it everybody else may read too.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

fn is_readable(user: &User, verb: &str, path: &str) -> bool {
    let covers = |own: &&str| {
        own.strip_suffix('*')
            .map_or(path == *own, |root| path.starts_with(root))
    };
    let known = user.is_in(AUTHENTICATED);
    let paths: &[&str] = if known { &READABLE } else { &PUBLIC };
    matches!(verb, "get" | "head") && paths.iter().any(covers)
}

fn refuse_resource(request: &Request, path: &ResourcePath) -> Status {
    let resource = GroupResource::new(&path.group, &path.resource);
    let full = match &path.subresource {
        Some(subresource) => format!("{}/{subresource}", path.resource),
        None => path.resource.clone(),
    };
    let place = match &path.namespace {
        Some(namespace) => format!("in the namespace {}", go_quote(namespace)),
        None => "at the cluster scope".to_owned(),
    };
    let cause = format_args!(
        "User {} cannot {} resource {} in API group {} {place}",
        go_quote(&request.user.name),
        request.verb.as_str(),
        go_quote(&full),
        go_quote(&path.group),
    );
    Status::forbidden(&resource, &name(request, path), cause)
}

/// The name a request is about; one that a field selector pins a collection to counts.
fn name(request: &Request, path: &ResourcePath) -> String {
    if let Some(name) = &path.name {
        return name.clone();
    }
    let of_collection = matches!(
        request.verb,
        Verb::List | Verb::Watch | Verb::DeleteCollection
    );
    let selector = request.query.text("fieldSelector");
    let pinned = selector.split(',').find_map(|term| {
        let value = term.strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value))
    });
    pinned
        .filter(|_| of_collection)
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, uri: &str, user: User) -> Result<(), String> {
        let (head, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap()
            .into_parts();
        let mut request = Request::new(&head);
        request.user = user;
        authorise(&request).map_err(|status| status.message)
    }

    #[test]
    fn administrators_and_components_may_do_everything() {
        assert_eq!(ask("DELETE", "/api/v1/nodes", User::admin()), Ok(()));
        assert_eq!(
            ask(
                "GET",
                "/metrics",
                User::new("system:kube-scheduler", [""; 0])
            ),
            Ok(())
        );
    }

    #[test]
    fn discovery_needs_a_name_and_health_does_not() {
        let ann = || User::new("ann", [""; 0]);
        assert_eq!(ask("GET", "/apis/apps/v1", ann()), Ok(()));
        assert_eq!(ask("GET", "/healthz", User::anonymous()), Ok(()));
        assert_eq!(
            ask("GET", "/apis", User::anonymous()).unwrap_err(),
            "forbidden: User \"system:anonymous\" cannot get path \"/apis\""
        );
        assert_eq!(
            ask("POST", "/healthz", ann()).unwrap_err(),
            "forbidden: User \"ann\" cannot post path \"/healthz\""
        );
    }

    #[test]
    fn a_refusal_names_user_verb_resource_and_place() {
        let ann = || User::new("ann", [""; 0]);
        assert_eq!(
            ask(
                "PUT",
                "/apis/apps/v1/namespaces/n/deployments/a/scale",
                ann()
            )
            .unwrap_err(),
            "deployments.apps \"a\" is forbidden: User \"ann\" cannot update resource \"deployments/scale\" in API group \"apps\" in the namespace \"n\""
        );
        assert_eq!(
            ask("GET", "/api/v1/nodes?watch=1", ann()).unwrap_err(),
            "nodes is forbidden: User \"ann\" cannot watch resource \"nodes\" in API group \"\" at the cluster scope"
        );
        assert_eq!(
            ask(
                "GET",
                "/api/v1/namespaces/n/configmaps?fieldSelector=metadata.name%3Db",
                ann()
            )
            .unwrap_err(),
            "configmaps \"b\" is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"n\""
        );
    }
}
