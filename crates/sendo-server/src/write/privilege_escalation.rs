//! Prevents privilege escalation through writes of roles and bindings: a user can grant only rules
//! that the user holds, unless the user may `escalate` or `bind` the role.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/registry/rbac/escalation_check.go`
//! - `pkg/registry/rbac/helpers.go`: `IsOnlyMutatingGCFields`
//! - `pkg/registry/rbac/clusterrole/policybased/storage.go`
//! - `pkg/registry/rbac/clusterrolebinding/policybased/storage.go`
//! - `pkg/registry/rbac/role/policybased/storage.go`
//! - `pkg/registry/rbac/rolebinding/policybased/storage.go`

use sendo_apimachinery::Status;
use serde_json::Value;

use crate::access::authorise::{self, Attributes, Requested, ResourceAttributes};
use crate::access::rbac::{GROUP, RoleRef, Rule, escalation};
use crate::request::user::MASTERS;
use crate::state::call::Call;

/// Refuses a role or binding that grants more than the user holds.
///
/// Kubernetes checks that in the storage of these resources, after mutating admission.
pub(crate) async fn confirm(
    call: &Call<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let facts = &call.resource.facts;
    if facts.group != GROUP || call.request.user.is_in(MASTERS) {
        return Ok(());
    }
    match facts.plural.as_str() {
        "roles" | "clusterroles" => {
            if may(call, "escalate", &facts.plural, call.name()).await?
                || old.is_some_and(|old| changes_only_gc_fields(object, old))
            {
                return Ok(());
            }
            require_rules(call, object, &rules(object)).await?;
            if is_aggregated(object) || old.is_some_and(is_aggregated) {
                require_all_rules(call, object).await?;
            }
            Ok(())
        }
        "rolebindings" | "clusterrolebindings" => {
            if old.is_some_and(|old| changes_only_gc_fields(object, old)) {
                return Ok(());
            }
            let role: RoleRef =
                serde_json::from_value(object["roleRef"].clone()).unwrap_or_default();
            let plural = match role.kind.as_str() {
                "ClusterRole" => "clusterroles",
                _ => "roles",
            };
            if may(call, "bind", plural, &role.name).await? {
                return Ok(());
            }
            if plural == "roles" && call.namespace().is_none() {
                // A Role is looked up in the namespace of the binding, which a ClusterRoleBinding
                // does not have.
                return Err(Status::bad_request("Namespace parameter required."));
            }
            let namespace = call.namespace().unwrap_or_default();
            let rules = call.server.access.policy.read(|policy| {
                let rules = policy.rules(&role, namespace)?;
                Some(rules.to_vec())
            });
            match rules.await? {
                Some(rules) => require_rules(call, object, &rules).await,
                None => Err(Status::not_found(
                    &call.resource.group_resource(),
                    &role.name,
                )),
            }
        }
        _ => Ok(()),
    }
}

/// Whether the user may use a verb on the role that disables the check.
async fn may(call: &Call<'_>, verb: &str, resource: &str, name: &str) -> Result<bool, Status> {
    let attributes = Attributes {
        user: &call.request.user,
        verb,
        requested: Requested::Resource(ResourceAttributes {
            group: GROUP,
            resource,
            name,
            namespace: call.namespace().unwrap_or_default(),
            ..ResourceAttributes::default()
        }),
    };
    Ok(authorise::decide(&call.server.access, &attributes)
        .await?
        .is_allowed())
}

/// Refuses unless the user holds all of `rules` in the namespace of the object.
async fn require_rules(call: &Call<'_>, object: &Value, rules: &[Rule]) -> Result<(), Status> {
    let user = &call.request.user;
    let resource = call.resource.group_resource();
    let namespace = call.namespace().unwrap_or_default();
    let (held, absent) = call
        .server
        .access
        .policy
        .read(|policy| policy.rules_of(user, namespace))
        .await?;
    let missing = escalation::missing(&held, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let absent: Vec<String> = absent
        .iter()
        .map(|role| Status::not_found(&resource, &role.name).message)
        .collect();
    let why = escalation::refusal(user, missing, &absent);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(Status::forbidden(&resource, name, why))
}

/// Refuses an aggregated role unless the user holds all rules, since aggregation can give it any
/// rule.
async fn require_all_rules(call: &Call<'_>, object: &Value) -> Result<(), Status> {
    let all = || vec!["*".to_owned()];
    let everything = [
        Rule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Rule::default()
        },
        Rule {
            verbs: all(),
            non_resource_urls: all(),
            ..Rule::default()
        },
    ];
    require_rules(call, object, &everything).await.map_err(|_| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let why = "must have cluster-admin privileges to use the aggregationRule";
        Status::forbidden(&call.resource.group_resource(), name, why)
    })
}

fn is_aggregated(role: &Value) -> bool {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

fn rules(role: &Value) -> Vec<Rule> {
    serde_json::from_value(role["rules"].clone()).unwrap_or_default()
}

/// Whether an update changes only owner references and finalizers, which the garbage collector
/// needs.
fn changes_only_gc_fields(new: &Value, old: &Value) -> bool {
    let strip = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for member in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(member);
            }
        }
        object
    };
    strip(new) == strip(old)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finalizers_and_owners_may_go_without_holding_anything() {
        let old =
            json!({"metadata": {"name": "r", "finalizers": ["x"]}, "rules": [{"verbs": ["get"]}]});
        let new = json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"]}]});
        assert!(changes_only_gc_fields(&new, &old));
        let more =
            json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "rules": [{"verbs": ["get"]}]});
        assert!(!changes_only_gc_fields(&more, &old));
    }
}
