//! Whom the parts of a cluster run as: none of them is an administrator.
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

/// The namespace of the controllers' accounts.
const SYSTEM: &str = "kube-system";

/// The user that the controller manager is.
pub(crate) fn controller_manager() -> User {
    User::new("system:kube-controller-manager", [""; 0])
}

/// The user that the scheduler is.
pub(crate) fn scheduler() -> User {
    User::new("system:kube-scheduler", [""; 0])
}

/// The user that the agent of a node is.
pub(crate) fn node(name: &str) -> User {
    User::new(format!("system:node:{name}"), ["system:nodes"])
}

/// The account of a controller; `None` for one that is the controller manager itself.
///
/// Kubernetes called most roles after the controllers, and some otherwise.
fn account(controller: &str) -> Option<&str> {
    Some(match controller {
        "serviceaccount-token-controller" => return None,
        "bootstrap-signer-controller" => "bootstrap-signer",
        "daemonset-controller" => "daemon-set-controller",
        "endpoints-controller" => "endpoint-controller",
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

/// The client by which a controller writes.
pub(crate) fn client_of(server: &ApiServer, controller: &str) -> Option<kube::Client> {
    let user = User::service_account(SYSTEM, account(controller)?);
    Some(kube::Client::new(server.as_user(user), "default"))
}

/// Lets controllers do what Kubernetes' own need not.
///
/// Programs written with `sendo` change a part of an object by a patch, where
/// Kubernetes' controllers put the whole. Whoever may update something may
/// therefore patch it here, and [`BEYOND`] lists what else one needs. It is
/// given by a role of its own beside Kubernetes', called `sendo:controller:…`.
///
/// # Errors
/// If a role or binding cannot be written.
pub(crate) async fn grant(client: &kube::Client, controllers: &[String]) -> kube::Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let (roles, bindings) = (&roles, &bindings);
    // Some share an account.
    let accounts: BTreeSet<_> = controllers
        .iter()
        .filter_map(|name| account(name))
        .collect();
    let grants = accounts.into_iter().map(|account| async move {
        let own = roles
            .get_opt(&format!("system:controller:{account}"))
            .await?;
        let rules: Vec<PolicyRule> = patches(own.and_then(|role| role.rules).unwrap_or_default())
            .chain(beyond(account))
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
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name: name.clone(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: account.to_owned(),
                namespace: Some(SYSTEM.to_owned()),
                ..Subject::default()
            }]),
        };
        // Both kinds can be created by a PUT, which is right on a new store and on an old one.
        let plain = PostParams::default();
        roles.replace(&name, &plain, &role).await?;
        bindings.replace(&name, &plain, &binding).await?;
        Ok(())
    });
    try_join_all(grants).await.map(drop)
}

/// The same rules for `patch` where they let somebody `update` and not patch.
fn patches(rules: Vec<PolicyRule>) -> impl Iterator<Item = PolicyRule> {
    let has = |rule: &PolicyRule, verb: &str| rule.verbs.iter().any(|own| own == verb);
    let partial = rules
        .into_iter()
        .filter(move |rule| has(rule, "update") && !has(rule, "patch"));
    partial.map(|rule| PolicyRule {
        verbs: vec!["patch".to_owned()],
        ..rule
    })
}

/// What an account needs beyond that.
struct Beyond {
    account: &'static str,
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
}

const BEYOND: &[Beyond] = &[];

fn beyond(account: &str) -> impl Iterator<Item = PolicyRule> {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let rules = BEYOND.iter().filter(move |rule| rule.account == account);
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
    fn whoever_updates_may_patch_the_same() {
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
        let more: Vec<_> = patches(rules).collect();
        assert_eq!(more, [rule(&["patch"], "a/status")]);
    }
}
