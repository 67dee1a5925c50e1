//! The role and the role binding in a tenant's namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::client::{self, set_controller};
use sendo::{Context, Result};

use crate::api::{Admin, AdminKind, Tenant};

/// The name of the role and of its binding in each namespace.
const NAME: &str = "tenant-admin";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Ensures the role and its binding in a namespace. Writes only what differs.
///
/// A namespace that is being deleted gets none.
pub(crate) async fn grant(
    tenant: &Tenant,
    namespace: &str,
    subjects: &[Subject],
    cx: &Context,
) -> Result<()> {
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let role = Role {
        metadata: metadata.clone(),
        rules: None,
    };
    let granted = cx.create_or_update(role, |role| -> Result<(), client::Error> {
        role.rules = Some(rules());
        Ok(set_controller(tenant, role)?)
    });
    ignore_if_terminating(granted.await)?;
    let binding = RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "Role".to_owned(),
            name: NAME.to_owned(),
        },
        subjects: None,
    };
    let bound = cx.create_or_update(binding, |binding| -> Result<(), client::Error> {
        binding.subjects = Some(subjects.to_vec()).filter(|some| !some.is_empty());
        Ok(set_controller(tenant, binding)?)
    });
    ignore_if_terminating(bound.await)
}

fn ignore_if_terminating<T>(written: Result<T, client::Error>) -> Result<()> {
    match written {
        Err(error) if !error.is_namespace_terminating() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The admins and the members of the team, each once.
pub(crate) fn subjects(admins: &[Admin], members: &BTreeSet<String>) -> Vec<Subject> {
    let named = admins.iter().map(|admin| match admin.kind {
        AdminKind::User => ("User", admin.name.as_str()),
        AdminKind::Group => ("Group", admin.name.as_str()),
    });
    let members = members.iter().map(|member| ("User", member.as_str()));
    let all: BTreeSet<_> = named.chain(members).collect();
    let subject = |(kind, name): (&str, &str)| Subject {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    all.into_iter().map(subject).collect()
}

/// Rights to all workloads in a namespace, but neither to its quota nor to its roles.
fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resources: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|name| (*name).to_owned()).collect()),
        verbs: vec!["*".to_owned()],
        ..PolicyRule::default()
    };
    vec![
        rule(
            "",
            &[
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "pods",
                "pods/log",
                "secrets",
                "serviceaccounts",
                "services",
            ],
        ),
        rule("apps", &["*"]),
        rule("batch", &["*"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_is_named_once() {
        let ann = Admin {
            kind: AdminKind::User,
            name: "ann".to_owned(),
        };
        let members = ["ann", "bob"].map(str::to_owned).into();
        let subjects = subjects(&[ann.clone(), ann], &members);
        let names: Vec<_> = subjects.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["ann", "bob"]);
    }
}
