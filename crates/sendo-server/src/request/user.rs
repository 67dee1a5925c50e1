//! The user of a request: name, groups, uid and extras.

use std::collections::BTreeMap;

use sendo_apimachinery::names;

/// The group every authenticated user is in.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// A user, as authentication found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name, for example `system:kube-scheduler`.
    pub name: String,
    /// The groups, those that authentication adds included.
    pub groups: Vec<String>,
    /// Distinguishes users of the same name over time; mostly empty.
    pub uid: String,
    /// What else authentication knows of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An authenticated user of that name and groups; `system:authenticated` is added.
    pub fn new(
        name: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User {
            name: name.into(),
            groups,
            uid: String::new(),
            extra: BTreeMap::new(),
        }
    }

    /// The administrator, who may do everything.
    pub fn admin() -> Self {
        User::new("kubernetes-admin", [MASTERS])
    }

    /// The service account of that namespace and name, in the groups it has.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        User::new(
            service_account(namespace, name),
            service_account_groups(namespace),
        )
    }

    /// Who comes without credentials.
    pub fn anonymous() -> Self {
        User {
            name: "system:anonymous".to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            uid: String::new(),
            extra: BTreeMap::new(),
        }
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// The groups of all service accounts, and of those of a namespace.
const ACCOUNTS: &str = "system:serviceaccounts";
const ACCOUNT: &str = "system:serviceaccount:";

/// The name of the user that a service account is.
pub(crate) fn service_account(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

/// The groups that a service account of a namespace is in, but for those of all users.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}")]
}

/// The namespace and name of the service account that a user name is of.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    let valid =
        names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_recognised_by_its_name() {
        let user = User::service_account("ns", "a.b");
        assert_eq!(split_service_account(&user.name), Some(("ns", "a.b")));
        assert!(user.is_in("system:serviceaccounts:ns"));
        for name in [
            "ann",
            "system:serviceaccount:ns",
            "system:serviceaccount:ns:a:b",
            "system:serviceaccount:Ns:a",
        ] {
            assert_eq!(split_service_account(name), None, "{name}");
        }
    }
}
