//! Who is asking: the first step of the pipeline.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sendo_apimachinery::{GroupResource, Status};

use crate::query::{self, Plus};
use crate::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};

/// Bearer tokens the server knows, and whose they are.
pub type Tokens = BTreeMap<String, User>;

/// Finds the user of a request.
///
/// `known` is who the connection belongs to: its client certificate, or the
/// in-process caller. Without one, a bearer token must be valid; without that
/// too, the request is anonymous. Impersonation headers then change who it is.
pub(crate) fn authenticate(
    known: Option<&User>,
    headers: &HeaderMap,
    tokens: &Tokens,
) -> Result<User, Status> {
    let user = match known {
        Some(user) => user.clone(),
        None => match bearer(headers) {
            Some(token) => tokens
                .get(token)
                .cloned()
                .ok_or_else(Status::unauthorized)?,
            None => User::anonymous(),
        },
    };
    impersonate(user, headers)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

const IMPERSONATE_USER: &str = "impersonate-user";
const IMPERSONATE_GROUP: &str = "impersonate-group";
const IMPERSONATE_UID: &str = "impersonate-uid";
const IMPERSONATE_EXTRA: &str = "impersonate-extra-";

fn impersonate(real: User, headers: &HeaderMap) -> Result<User, Status> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let name = text(IMPERSONATE_USER);
    let groups: Vec<&str> = headers
        .get_all(IMPERSONATE_GROUP)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let extra = headers
        .keys()
        .any(|key| key.as_str().starts_with(IMPERSONATE_EXTRA));
    if name.is_empty() {
        if groups.is_empty() && !extra && text(IMPERSONATE_UID).is_empty() {
            return Ok(real);
        }
        return Err(Status::bad_request(format!(
            "requested {} without impersonating a user",
            requested(&groups, text(IMPERSONATE_UID), headers)
        )));
    }
    if !real.is_in(MASTERS) {
        let resource = impersonated(name);
        let cause = format_args!(
            "User \"{}\" cannot impersonate resource \"{}\" in API group \"\" at the cluster scope",
            real.name, resource.resource
        );
        return Err(Status::forbidden(&resource, name, cause));
    }
    let mut user = User {
        name: name.to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        uid: text(IMPERSONATE_UID).to_owned(),
        extra: extras(headers),
    };
    if let Some((namespace, _)) = service_account(name).filter(|_| user.groups.is_empty()) {
        user.groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
    }
    let group = if name == User::anonymous().name {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    if !user.is_in(group) {
        user.groups.push(group.to_owned());
    }
    Ok(user)
}

fn extras(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in headers {
        if let (Some(name), Ok(value)) =
            (key.as_str().strip_prefix(IMPERSONATE_EXTRA), value.to_str())
        {
            let name = query::unescape(name, Plus::Itself).unwrap_or_else(|| name.to_owned());
            extra.entry(name).or_default().push(value.to_owned());
        }
    }
    extra
}

fn requested(groups: &[&str], uid: &str, headers: &HeaderMap) -> String {
    if !groups.is_empty() {
        return format!("groups [{}]", groups.join(" "));
    }
    if !uid.is_empty() {
        return format!("uid {uid}");
    }
    let keys: Vec<&str> = headers
        .keys()
        .filter_map(|key| key.as_str().strip_prefix(IMPERSONATE_EXTRA))
        .collect();
    format!("user-extra {}", keys.join(","))
}

fn impersonated(name: &str) -> GroupResource {
    let resource = if service_account(name).is_some() {
        "serviceaccounts"
    } else {
        "users"
    };
    GroupResource::new("", resource)
}

/// The namespace and name in `system:serviceaccount:<namespace>:<name>`.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
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

    fn tokens() -> Tokens {
        Tokens::from([("secret".to_owned(), User::new("ann", ["dev"]))])
    }

    #[test]
    fn no_credentials_are_anonymous_and_wrong_ones_refused() {
        let found = authenticate(None, &HeaderMap::new(), &tokens()).unwrap();
        assert_eq!(found, User::anonymous());
        let wrong = headers(&[("authorization", "Bearer nonsense")]);
        assert_eq!(authenticate(None, &wrong, &tokens()).unwrap_err().code, 401);
        let right = headers(&[("authorization", "bearer secret")]);
        assert_eq!(authenticate(None, &right, &tokens()).unwrap().name, "ann");
    }

    #[test]
    fn only_an_administrator_may_be_somebody_else() {
        let headers = headers(&[("impersonate-user", "bob"), ("impersonate-group", "ops")]);
        let found = authenticate(Some(&User::admin()), &headers, &tokens()).unwrap();
        assert_eq!(found.name, "bob");
        assert_eq!(found.groups, ["ops", "system:authenticated"]);
        let refused =
            authenticate(Some(&User::new("ann", ["dev"])), &headers, &tokens()).unwrap_err();
        assert_eq!(
            refused.message,
            "users \"bob\" is forbidden: User \"ann\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
    }

    #[test]
    fn an_impersonated_service_account_is_in_its_groups() {
        let headers = headers(&[("impersonate-user", "system:serviceaccount:ns:a")]);
        let found = authenticate(Some(&User::admin()), &headers, &tokens()).unwrap();
        assert_eq!(
            found.groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated"
            ]
        );
    }
}
