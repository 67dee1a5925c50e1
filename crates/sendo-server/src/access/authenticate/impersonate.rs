//! Impersonation: the headers of a request name another user to act as.
//!
//! A user is allowed it in one of two ways. The verb `impersonate` on another user (and
//! its groups, uid and extras) allows every request as that user. A
//! constrained mode takes two grants: `impersonate:<mode>` on the user, and
//! `impersonate-on:<mode>:<verb>` on what is requested. The constrained
//! modes are tried first; if none allows it, the first refusal is returned.

use std::collections::BTreeMap;

use http::HeaderMap;
use sendo_apimachinery::{Status, go_quote, names};

use crate::access::Access;
use crate::access::authorise::{self, Attributes, Requested, ResourceAttributes};
use crate::request::Request;
use crate::request::query::{self, Plus};
use crate::request::user::{self, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The API group of what users are made of.
const AUTHENTICATION: &str = "authentication.k8s.io";
/// The extra that names the node of a service account's pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Another user that a request is made as.
#[derive(Debug)]
pub(crate) struct Impersonated {
    pub(crate) user: User,
    /// The verb of the constrained mode that allows it; none if it is allowed without
    /// constraint.
    pub(crate) constraint: Option<String>,
}

/// Whom a request is made as instead of `real`; `None` if its headers name nobody.
pub(crate) async fn impersonate(
    access: &Access,
    real: &User,
    request: &Request,
) -> Result<Option<Impersonated>, Status> {
    let Some(wanted) = wanted(&request.headers)? else {
        return Ok(None);
    };
    let mut first = None;
    for mode in MODES {
        if !mode.is_for(&wanted, real) {
            continue;
        }
        let impersonation = Impersonation { access, real, mode };
        match impersonation.check(&wanted, request).await {
            Ok(user) => {
                let constraint = mode.is_constrained().then(|| impersonation.verb());
                return Ok(Some(Impersonated { user, constraint }));
            }
            Err(status) => first = first.or(Some(status)),
        }
    }
    Err(first.unwrap_or_else(|| Status::internal_error("all impersonation modes failed")))
}

/// The user that the headers name; `None` without such headers.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let groups = headers.get_all(GROUP).iter();
    let wanted = User {
        name: text(USER),
        uid: text(UID),
        groups: groups
            .filter_map(|value| Some(value.to_str().ok()?.to_owned()))
            .collect(),
        extra: extras(headers),
    };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if only_named(&wanted) {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        in_go(&wanted)
    )))
}

fn extras(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in headers {
        if let (Some(name), Ok(value)) = (key.as_str().strip_prefix(EXTRA), value.to_str()) {
            let name = query::unescape(name, Plus::Itself).unwrap_or_else(|| name.to_owned());
            extra.entry(name).or_default().push(value.to_owned());
        }
    }
    extra
}

fn only_named(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// A user as Kubernetes' refusal shows it.
fn in_go(user: &User) -> String {
    let list = |words: &[String]| {
        let words: Vec<String> = words.iter().map(|word| go_quote(word)).collect();
        format!("[]string{{{}}}", words.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{}:{}", go_quote(key), list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        go_quote(&user.name),
        go_quote(&user.uid),
    )
}

/// A way to be allowed to impersonate a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

/// In the order they are tried.
const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

fn node_of(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

impl Mode {
    /// Its name in verbs.
    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    /// Whether one can be this user in this mode at all.
    fn is_for(self, wanted: &User, real: &User) -> bool {
        let node = node_of(&wanted.name);
        let account = user::split_service_account(&wanted.name);
        match self {
            Mode::AssociatedNode => {
                let own = real.extra.get(NODE_NAME).map(Vec::as_slice);
                only_named(wanted)
                    && user::split_service_account(&real.name).is_some()
                    && node.is_some_and(|node| own == Some(&[node.to_owned()]))
            }
            Mode::ArbitraryNode => only_named(wanted) && node.is_some(),
            Mode::ServiceAccount => only_named(wanted) && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    fn is_constrained(self) -> bool {
        self != Mode::Legacy
    }
}

/// One attempt in one mode.
struct Impersonation<'a> {
    access: &'a Access,
    real: &'a User,
    mode: Mode,
}

impl Impersonation<'_> {
    async fn check(&self, wanted: &User, request: &Request) -> Result<User, Status> {
        if self.mode.is_constrained() {
            let method = request.method.as_str().to_ascii_lowercase();
            let attributes = authorise::attributes(request, self.real, &method);
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), attributes.verb);
            let attributes = Attributes {
                verb: &verb,
                ..attributes
            };
            authorise::demand(self.access, &attributes).await?;
        }
        let mut user = wanted.clone();
        self.name(&mut user).await?;
        if !wanted.uid.is_empty() {
            self.demand(AUTHENTICATION, "uids", &wanted.uid).await?;
        }
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await?;
        let group = match user.name.as_str() {
            name if name == User::anonymous().name => UNAUTHENTICATED,
            _ if user.is_in(UNAUTHENTICATED) => return Ok(user),
            _ => AUTHENTICATED,
        };
        if !user.is_in(group) {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }

    /// The group of the kinds of users: legacy mode has them among the core ones.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() {
            AUTHENTICATION
        } else {
            ""
        }
    }

    async fn name(&self, user: &mut User) -> Result<(), Status> {
        if let Some((namespace, name)) = user::split_service_account(&user.name) {
            let subject = ResourceAttributes {
                group: self.group(),
                resource: "serviceaccounts",
                namespace,
                name,
                ..ResourceAttributes::default()
            };
            self.demand_subject(subject).await?;
            if user.groups.is_empty() {
                user.groups = user::service_account_groups(namespace);
            }
            return Ok(());
        }
        match node_of(&user.name).filter(|_| self.mode.is_constrained()) {
            Some(node) => {
                // Who may impersonate the node of its pod may impersonate each associated node.
                let name = match self.mode {
                    Mode::AssociatedNode => "*",
                    _ => node,
                };
                self.demand(AUTHENTICATION, "nodes", name).await?;
                user.groups = vec!["system:nodes".to_owned()];
                Ok(())
            }
            None => self.demand(self.group(), "users", &user.name).await,
        }
    }

    async fn groups(&self, groups: &[String]) -> Result<(), Status> {
        if self.mode.is_constrained() {
            for (forbidden, why) in [
                ("", "impersonating the empty string group is not allowed"),
                (
                    MASTERS,
                    "impersonating the system:masters group is not allowed",
                ),
            ] {
                if groups.iter().any(|group| group == forbidden) {
                    return Err(self.refuse("groups", forbidden, why));
                }
            }
        }
        for group in groups {
            self.demand(self.group(), "groups", group).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        for (key, values) in extra {
            if self.mode.is_constrained()
                && let Some(why) = fault(key, values)
            {
                return Err(self.refuse("userextras", "", &why));
            }
            for value in values {
                let subject = ResourceAttributes {
                    group: AUTHENTICATION,
                    resource: "userextras",
                    subresource: key,
                    name: value,
                    ..ResourceAttributes::default()
                };
                self.demand_subject(subject).await?;
            }
        }
        Ok(())
    }

    async fn demand(&self, group: &str, resource: &str, name: &str) -> Result<(), Status> {
        let subject = ResourceAttributes {
            group,
            resource,
            name,
            ..ResourceAttributes::default()
        };
        self.demand_subject(subject).await
    }

    async fn demand_subject(&self, subject: ResourceAttributes<'_>) -> Result<(), Status> {
        let verb = self.verb();
        let attributes = Attributes {
            user: self.real,
            verb: &verb,
            requested: Requested::Resource(subject),
        };
        authorise::demand(self.access, &attributes).await
    }

    fn verb(&self) -> String {
        match self.mode {
            Mode::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    fn refuse(&self, resource: &str, name: &str, why: &str) -> Status {
        let verb = self.verb();
        let subject = ResourceAttributes {
            group: AUTHENTICATION,
            resource,
            name,
            ..ResourceAttributes::default()
        };
        let attributes = Attributes {
            user: self.real,
            verb: &verb,
            requested: Requested::Resource(subject),
        };
        authorise::refusal(&attributes, why)
    }
}

/// What is wrong with an extra, where it must be well formed.
fn fault(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let (domain, path) = key.split_once('/').unwrap_or((key, ""));
    if path.is_empty() || !names::dns1123_subdomain(domain).is_empty() {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {}: must be a domain-prefixed path (such as \"acme.io/foo\")",
            go_quote(key)
        ));
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {}",
            go_quote(key)
        ));
    }
    if values.iter().any(String::is_empty) {
        return Some("impersonating the empty string value in extra is not allowed".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(key, value)| (key.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn parts_of_a_user_without_its_name_are_refused() {
        let refused = |pairs| wanted(&headers(pairs)).unwrap_err().message;
        assert_eq!(
            refused(&[("impersonate-group", "a"), ("impersonate-group", "b")]),
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\", \"b\"}, Extra:map[string][]string(nil)} without impersonating a user name"
        );
        assert_eq!(
            refused(&[("impersonate-uid", "u"), ("impersonate-extra-a%2fb", "x")]),
            "requested &user.DefaultInfo{Name:\"\", UID:\"u\", Groups:[]string(nil), Extra:map[string][]string{\"a/b\":[]string{\"x\"}}} without impersonating a user name"
        );
        assert_eq!(wanted(&headers(&[])).unwrap(), None);
    }

    #[test]
    fn each_kind_of_user_has_its_modes() {
        let modes = |name: &str| -> Vec<Mode> {
            let wanted = User {
                name: name.to_owned(),
                groups: Vec::new(),
                ..User::anonymous()
            };
            let real = User::admin();
            let modes = MODES.into_iter();
            modes.filter(|mode| mode.is_for(&wanted, &real)).collect()
        };
        assert_eq!(modes("ann"), [Mode::UserInfo, Mode::Legacy]);
        assert_eq!(modes("system:node:a"), [Mode::ArbitraryNode, Mode::Legacy]);
        assert_eq!(
            modes("system:serviceaccount:n:a"),
            [Mode::ServiceAccount, Mode::Legacy]
        );
    }
}
