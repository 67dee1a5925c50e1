//! Authorisation: the second step of the pipeline, before the path, method and body of a request
//! are validated.
//!
//! Three authorisers decide in turn, and one that allows a request is enough: the group
//! `system:masters` is allowed everything, a node is allowed what concerns it (`nodes`), and every
//! user is allowed what the roles bound to it allow ([`crate::access::rbac`]).

pub(crate) mod nodes;

use sendo_apimachinery::{FieldSelector, GroupResource, Status, go_quote, names, status};

use crate::access::Access;
use crate::access::rbac::{Grant, PolicyDecision, RoleRef};
use crate::request::Request;
use crate::request::path::{Target, Verb};
use crate::request::user::{MASTERS, User};

/// What an authoriser decides about: a user, a verb and its object.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    /// The user.
    pub(crate) user: &'a User,
    /// The verb of a rule; for paths the method in lower case.
    pub(crate) verb: &'a str,
    /// What the verb applies to.
    pub(crate) requested: Requested<'a>,
}

/// What a verb applies to.
#[derive(Clone, Debug)]
pub(crate) enum Requested<'a> {
    /// A resource.
    Resource(ResourceAttributes<'a>),
    /// A path that names no resource.
    NonResource(&'a str),
}

/// A resource of the API, served or not; what does not apply is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceAttributes<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// What a collection is narrowed to.
    pub(crate) fields: FieldSelector,
}

/// The result of [`decide`].
#[derive(Debug)]
pub(crate) enum Decision {
    /// The request is allowed; by a grant, unless the user is in `system:masters` or is a node.
    Allowed(Option<Grant>),
    /// The request is not allowed, and why, if there is more to say.
    Refused(String),
}

impl Decision {
    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed(_))
    }

    /// The reason that an access review shows.
    pub(crate) fn reason(&self) -> String {
        match self {
            Decision::Allowed(Some(grant)) => format!("RBAC: allowed by {grant}"),
            Decision::Allowed(None) => String::new(),
            Decision::Refused(why) => why.clone(),
        }
    }
}

/// The permission to do what a request is for, and nothing else.
///
/// Only [`authorise`] gives one. What is done with a resource follows from the verb in it
/// ([`crate::route::Action`]), so that nothing else can be done than what was allowed.
#[derive(Debug)]
pub(crate) struct Permit {
    verb: Verb,
}

impl Permit {
    /// The verb that is allowed. [`Verb::Unknown`] for paths that name no resource, too.
    pub(crate) fn verb(&self) -> Verb {
        self.verb
    }
}

/// Allows a request, or refuses it with the reason.
pub(crate) async fn authorise(access: &Access, request: &Request) -> Result<Permit, Status> {
    if !request.user.is_in(MASTERS) {
        let method = request.method.as_str().to_ascii_lowercase();
        let attributes = attributes(request, &request.user, &method);
        let decision = decide(access, &attributes).await?;
        note(request, &decision);
        if let Decision::Refused(why) = decision {
            return Err(refusal(&attributes, &why));
        }
    } else {
        note(request, &Decision::Allowed(None));
    }
    Ok(Permit { verb: request.verb })
}

/// Notes a decision for the audit event of the request (`WithAuthorization`).
fn note(request: &Request, decision: &Decision) {
    if request.is_audited {
        let word = match decision.is_allowed() {
            true => "allow",
            false => "forbid",
        };
        request.annotate("authorization.k8s.io/decision", word);
        request.annotate("authorization.k8s.io/reason", decision.reason());
    }
}

/// The attributes of a request that `user` makes. `method` is its method in lower case.
pub(crate) fn attributes<'a>(
    request: &'a Request,
    user: &'a User,
    method: &'a str,
) -> Attributes<'a> {
    let Target::Resource(path) = &request.target else {
        return Attributes {
            user,
            verb: method,
            requested: Requested::NonResource(&request.path),
        };
    };
    let name = match path.name.as_deref() {
        Some(name) if !name.is_empty() => name,
        // A collection that is pinned to a name and read is about that object.
        _ if request.verb.reads() => pinned_name(&request.fields),
        _ => "",
    };
    Attributes {
        user,
        verb: request.verb.as_str(),
        requested: Requested::Resource(ResourceAttributes {
            group: &path.group,
            resource: &path.resource,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            namespace: path.namespace.as_deref().unwrap_or_default(),
            name,
            fields: request.fields.clone(),
        }),
    }
}

/// The one name that a selector leaves; empty if it leaves several.
fn pinned_name(fields: &FieldSelector) -> &str {
    let pinned = fields.exact("metadata.name");
    let is_name = |name: &&str| names::path_segment(name).is_empty();
    pinned.filter(is_name).unwrap_or_default()
}

/// Refuses with 403 what is not allowed.
pub(crate) async fn demand(access: &Access, attributes: &Attributes<'_>) -> Result<(), Status> {
    match decide(access, attributes).await? {
        Decision::Allowed(_) => Ok(()),
        Decision::Refused(why) => Err(refusal(attributes, &why)),
    }
}

/// Whether something is allowed, and why or why not.
pub(crate) async fn decide(
    access: &Access,
    attributes: &Attributes<'_>,
) -> Result<Decision, Status> {
    if attributes.user.is_in(MASTERS) {
        return Ok(Decision::Allowed(None));
    }
    let mut reasons = Vec::new();
    match nodes::decide(access, attributes).await? {
        nodes::Decision::Allowed => return Ok(Decision::Allowed(None)),
        nodes::Decision::Refused(why) => reasons.push(why),
        nodes::Decision::NoNode => {}
    }
    match access.policy.read(|policy| policy.find(attributes)).await? {
        PolicyDecision::Grant(grant) => return Ok(Decision::Allowed(Some(grant))),
        PolicyDecision::NoRule(absent) if !absent.is_empty() => {
            reasons.push(format!("RBAC: {}", absent_roles(&absent)));
        }
        PolicyDecision::NoRule(_) => {}
    }
    reasons.retain(|reason| !reason.is_empty());
    Ok(Decision::Refused(reasons.join("\n")))
}

/// The sentence about roles that are bound and do not exist.
pub(crate) fn absent_roles(absent: &[RoleRef]) -> String {
    status::aggregate(absent.iter().map(|role| {
        let resource =
            GroupResource::new(crate::access::rbac::GROUP, role.kind.to_ascii_lowercase());
        Status::not_found(&resource, &role.name).message
    }))
}

/// 403 for what is not allowed.
pub(crate) fn refusal(attributes: &Attributes<'_>, why: &str) -> Status {
    let user = go_quote(&attributes.user.name);
    let why = match why {
        "" => String::new(),
        why => format!(": {why}"),
    };
    match &attributes.requested {
        Requested::NonResource(path) => {
            let cause = format_args!(
                "User {user} cannot {} path {}{why}",
                attributes.verb,
                go_quote(path)
            );
            Status::forbidden(&GroupResource::default(), "", cause)
        }
        Requested::Resource(subject) => {
            let full = match subject.subresource {
                "" => subject.resource.to_owned(),
                subresource => format!("{}/{subresource}", subject.resource),
            };
            let place = match subject.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", go_quote(namespace)),
            };
            let cause = format_args!(
                "User {user} cannot {} resource {} in API group {} {place}{why}",
                attributes.verb,
                go_quote(&full),
                go_quote(subject.group),
            );
            let resource = GroupResource::new(subject.group, subject.resource);
            Status::forbidden(&resource, subject.name, cause)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: &str, uri: &str) -> String {
        let (head, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .unwrap()
            .into_parts();
        let request = Request::new(&head);
        let user = User::new("ann", [""; 0]);
        let method = method.to_ascii_lowercase();
        refusal(&attributes(&request, &user, &method), "").message
    }

    #[test]
    fn a_refusal_names_user_verb_resource_and_place() {
        assert_eq!(
            refused("PUT", "/apis/apps/v1/namespaces/n/deployments/a/scale"),
            "deployments.apps \"a\" is forbidden: User \"ann\" cannot update resource \"deployments/scale\" in API group \"apps\" in the namespace \"n\""
        );
        assert_eq!(
            refused("GET", "/api/v1/nodes?watch=1"),
            "nodes is forbidden: User \"ann\" cannot watch resource \"nodes\" in API group \"\" at the cluster scope"
        );
        assert_eq!(
            refused("POST", "/healthz"),
            "forbidden: User \"ann\" cannot post path \"/healthz\""
        );
    }

    #[test]
    fn a_collection_pinned_to_a_name_is_about_that_object() {
        assert_eq!(
            refused(
                "GET",
                "/api/v1/namespaces/n/configmaps?fieldSelector=metadata.name%3Db"
            ),
            "configmaps \"b\" is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"n\""
        );
    }
}
