//! Which requests a webhook is asked about.

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

use super::operations::{Operation, Operations};
use crate::object::Kind;

/// Requests that a webhook is asked about: those for these resources that do one of these
/// operations. `*` stands for every group, version or resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API groups; the core group is empty.
    pub groups: Vec<String>,
    /// The versions.
    pub versions: Vec<String>,
    /// The resources, as in paths; subresources as in `pods/exec`.
    pub resources: Vec<String>,
    /// The operations.
    pub operations: Operations,
}

impl Rule {
    /// Creations and updates of a resource, such as `Rule::new("apps", "v1", "deployments")`.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Rule {
            groups: vec![group.to_owned()],
            versions: vec![version.to_owned()],
            resources: vec![resource.to_owned()],
            operations: Operation::Create | Operation::Update,
        }
    }

    /// The rule of a kind.
    pub(super) fn from_kind(kind: &Kind) -> Self {
        Rule::new(&kind.group, &kind.version, &kind.plural)
    }

    /// The same for other operations.
    pub fn on(mut self, operations: impl Into<Operations>) -> Self {
        self.operations = operations.into();
        self
    }

    /// The rule as a configuration has it.
    pub(super) fn to_configured(&self) -> RuleWithOperations {
        let operations = self.operations.iter();
        RuleWithOperations {
            api_groups: Some(self.groups.clone()),
            api_versions: Some(self.versions.clone()),
            resources: Some(self.resources.clone()),
            operations: Some(operations.map(|one| one.as_str().to_owned()).collect()),
            scope: None,
        }
    }

    /// Whether it has a creation or an update of this resource in it.
    pub(super) fn writes(&self, group: &str, resource: &str) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|known| known == "*" || known == one);
        let writes = [Operation::Create, Operation::Update];
        let resources = |known: &String| known == "*" || known == "*/*" || known == resource;
        writes.iter().any(|one| self.operations.contains(*one))
            && has(&self.groups, group)
            && self.resources.iter().any(resources)
    }
}
