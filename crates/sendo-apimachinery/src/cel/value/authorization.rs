//! What expressions ask the authoriser, and what it answers.

use crate::cel::functions::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK};

/// A value of the authorisation library.
#[derive(Clone, Debug)]
pub enum Authorization {
    /// The authoriser, asked about the user of the request or about a service account.
    Authorizer(Option<Account>),
    /// A path that names no resource.
    Path(Option<Account>, String),
    /// An API group.
    Group(Option<Account>, String),
    /// A resource.
    Resource(Option<Account>, ResourceCheck),
    /// An answer.
    Decision(Decision),
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A question to the authoriser.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// Whose rights are asked about; `None` is the user of the request.
    pub account: Option<Account>,
    /// The verb; for paths the method in lower case.
    pub verb: String,
    /// What the verb applies to.
    pub target: CheckTarget,
}

/// What the verb of a [`Check`] applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckTarget {
    /// A path that names no resource.
    Path(String),
    /// A resource.
    Resource(ResourceCheck),
}

/// A resource that rights are asked for; what does not apply is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceCheck {
    /// Its API group.
    pub group: String,
    /// Its name in the plural.
    pub resource: String,
    /// The part of it.
    pub subresource: String,
    /// The namespace; empty for the cluster.
    pub namespace: String,
    /// The name of one object.
    pub name: String,
    /// The field selector of a collection.
    pub field_selector: String,
    /// The label selector of a collection.
    pub label_selector: String,
}

/// An answer of the authoriser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the check passes.
    pub allowed: bool,
    /// Why or why not, if there is more to say.
    pub reason: String,
    /// Why the authoriser could not answer.
    pub error: Option<String>,
}

impl Authorization {
    /// The name of its type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Authorization::Authorizer(_) => AUTHORIZER,
            Authorization::Path(..) => PATH_CHECK,
            Authorization::Group(..) => GROUP_CHECK,
            Authorization::Resource(..) => RESOURCE_CHECK,
            Authorization::Decision(_) => DECISION,
        }
    }
}
