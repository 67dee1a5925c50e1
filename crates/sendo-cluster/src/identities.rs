//! The users as which the parts of a cluster run; none of them is an administrator.
//!
//! The scheduler, the controller manager and the nodes are the users that
//! Kubernetes gives these names and roles. A controller's writes are made by a
//! service account of its own, bound to a role of its own (`system:controller:…`),
//! while the cache that all controllers share reads as the controller manager.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use sendo_server::{ApiServer, User};
use sendo_workloads::storage_version_migration;

/// The namespace of the controllers' accounts.
pub(crate) const SYSTEM: &str = "kube-system";

/// The user of the controller manager.
pub(crate) fn controller_manager() -> User {
    User::new("system:kube-controller-manager", [""; 0])
}

/// The user of the scheduler.
pub(crate) fn scheduler() -> User {
    User::new("system:kube-scheduler", [""; 0])
}

/// The user of the agent of a node.
pub(crate) fn node(name: &str) -> User {
    User::new(format!("system:node:{name}"), ["system:nodes"])
}

/// The service account of a controller; `None` for one that uses the controller manager's user.
///
/// In Kubernetes most roles have the name of their controller, and some another one.
fn account(controller: &str) -> Option<&str> {
    Some(match controller {
        "serviceaccount-token-controller" => return None,
        "bootstrap-signer-controller" => "bootstrap-signer",
        "certificatesigningrequest-approving-controller"
        | "certificatesigningrequest-cleaner-controller"
        | "certificatesigningrequest-signing-controller" => "certificate-controller",
        "daemonset-controller" => "daemon-set-controller",
        "endpoints-controller" => "endpoint-controller",
        "endpointslice-mirroring-controller" => "endpointslicemirroring-controller",
        "garbage-collector-controller" => "generic-garbage-collector",
        "horizontal-pod-autoscaler-controller" => "horizontal-pod-autoscaler",
        "node-lifecycle-controller" | "taint-eviction-controller" => "node-controller",
        "persistentvolume-binder-controller" => "persistent-volume-binder",
        "persistentvolume-expander-controller" => "expand-controller",
        "persistentvolume-protection-controller" => "pv-protection-controller",
        "persistentvolumeclaim-protection-controller" => "pvc-protection-controller",
        "pod-garbage-collector-controller" => "pod-garbage-collector",
        "replicationcontroller-controller" => "replication-controller",
        "root-ca-certificate-publisher-controller" => "root-ca-cert-publisher",
        "service-cidr-controller" => "service-cidrs-controller",
        "serviceaccount-controller" => "service-account-controller",
        other => other,
    })
}

/// The client with which a controller writes.
pub(crate) fn client_for(server: &ApiServer, controller: &str) -> Option<kube::Client> {
    let user = User::service_account(SYSTEM, account(controller)?);
    Some(kube::Client::new(server.as_user(user), "default"))
}

/// Grants controllers rights that those of Kubernetes do not need.
///
/// Programs written with `sendo` change a part of an object with a patch, where Kubernetes'
/// controllers update the whole. An account that may update a resource may therefore patch it
/// here, and [`EXTRA_RULES`] lists what else one needs. A role `sendo:controller:…`, in addition to
/// that of Kubernetes, grants both.
///
/// # Errors
/// If a role or binding cannot be written.
pub(crate) async fn grant(client: &kube::Client, controllers: &[String]) -> kube::Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let (roles, bindings) = (&roles, &bindings);
    // Some controllers share an account.
    let accounts: BTreeSet<_> = controllers
        .iter()
        .filter_map(|name| account(name))
        .collect();
    let grants = accounts.into_iter().map(|account| async move {
        let own = roles
            .get_opt(&format!("system:controller:{account}"))
            .await?;
        let rules: Vec<PolicyRule> =
            patch_rules(own.and_then(|role| role.rules).unwrap_or_default())
                .chain(extra_rules(account))
                .collect();
        if rules.is_empty() {
            return Ok(());
        }
        let name = format!("sendo:controller:{account}");
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let role = ClusterRole {
            metadata: metadata.clone(),
            rules: Some(rules),
            ..ClusterRole::default()
        };
        let binding = ClusterRoleBinding {
            metadata,
            // The API server fills in its group, whose type is another one in newer releases.
            role_ref: RoleRef {
                kind: "ClusterRole".to_owned(),
                name: name.clone(),
                ..RoleRef::default()
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: account.to_owned(),
                namespace: Some(SYSTEM.to_owned()),
                ..Subject::default()
            }]),
        };
        // A PUT creates roles and bindings that do not exist, so it works on new and on used stores.
        let plain = PostParams::default();
        roles.replace(&name, &plain, &role).await?;
        bindings.replace(&name, &plain, &binding).await?;
        Ok(())
    });
    try_join_all(grants).await.map(drop)
}

/// Lets the metrics server read what it measures, and those who may view a namespace read its
/// metrics.
///
/// # Errors
/// If a role or binding cannot be written.
pub(crate) async fn grant_metrics_server(client: &kube::Client, account: &str) -> kube::Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let rule = |verbs: &[&str], group: &str| PolicyRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec!["pods".to_owned(), "nodes".to_owned()]),
        ..PolicyRule::default()
    };
    let role = |name: &str, labels: &[&str], rule: PolicyRule| ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(
                labels
                    .iter()
                    .map(|role| {
                        let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
                        (label, "true".to_owned())
                    })
                    .collect(),
            ),
            ..ObjectMeta::default()
        },
        rules: Some(vec![rule]),
        ..ClusterRole::default()
    };
    let name = format!("system:{account}");
    let reader = "system:aggregated-metrics-reader";
    let viewing = rule(&["get", "list", "watch"], "metrics.k8s.io");
    let readers = role(reader, &["admin", "edit", "view"], viewing);
    let measuring = role(&name, &[], rule(&["get", "list", "watch"], ""));
    let binding = ClusterRoleBinding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            kind: "ClusterRole".to_owned(),
            name: name.clone(),
            ..RoleRef::default()
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(SYSTEM.to_owned()),
            ..Subject::default()
        }]),
    };
    let plain = PostParams::default();
    roles.replace(reader, &plain, &readers).await?;
    roles.replace(&name, &plain, &measuring).await?;
    bindings.replace(&name, &plain, &binding).await?;
    Ok(())
}

/// The rules that allow `update` and not `patch`, with `patch` instead.
fn patch_rules(rules: Vec<PolicyRule>) -> impl Iterator<Item = PolicyRule> {
    let has = |rule: &PolicyRule, verb: &str| rule.verbs.iter().any(|own| own == verb);
    let partial = rules
        .into_iter()
        .filter(move |rule| has(rule, "update") && !has(rule, "patch"));
    partial.map(|rule| PolicyRule {
        verbs: vec!["patch".to_owned()],
        ..rule
    })
}

/// A right that an account needs in addition.
struct ExtraRule {
    account: &'static str,
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
}

/// The role of the migrator is one that only a server with its feature has.
const EXTRA_RULES: &[ExtraRule] = &[
    ExtraRule {
        account: storage_version_migration::NAME,
        verbs: &["list", "create", "patch"],
        group: "*",
        resources: &["*"],
    },
    ExtraRule {
        account: storage_version_migration::NAME,
        verbs: &["get"],
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
    },
];

fn extra_rules(account: &str) -> impl Iterator<Item = PolicyRule> {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let rules = EXTRA_RULES
        .iter()
        .filter(move |rule| rule.account == account);
    rules.map(move |rule| PolicyRule {
        verbs: own(rule.verbs),
        api_groups: Some(vec![rule.group.to_owned()]),
        resources: Some(own(rule.resources)),
        ..PolicyRule::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_update_also_allows_patch() {
        let rule = |verbs: &[&str], resource: &str| PolicyRule {
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            resources: Some(vec![resource.to_owned()]),
            ..PolicyRule::default()
        };
        let rules = vec![
            rule(&["get", "update"], "a/status"),
            rule(&["patch", "update"], "b"),
            rule(&["get"], "c"),
        ];
        let more: Vec<_> = patch_rules(rules).collect();
        assert_eq!(more, [rule(&["patch"], "a/status")]);
    }
}
