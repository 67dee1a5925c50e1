//! Who a request comes from.

use std::collections::BTreeMap;

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
    /// What tells the user apart from others of the name, over time; mostly empty.
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
