//! Sets the rules of ClusterRoles that have an aggregation rule.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go`

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use sendo::handler::map;
use sendo::source::kind;
use sendo::{Action, Context, Controller, Event, ObjectExt, ObjectKey, Patch, Reader, Result};
use sendo::{Error, Selector};
use serde_json::json;

/// The name of the controller, and its field manager.
const NAME: &str = "clusterrole-aggregation-controller";

/// The controller of aggregated ClusterRoles.
pub fn controller() -> Controller {
    Controller::new::<ClusterRole>()
        .named(NAME)
        .watches(
            kind::<ClusterRole>(),
            map(|_: Event<ClusterRole>, cx| aggregated_roles(cx)),
        )
        .reconcile(sync)
}

/// The roles with an aggregation rule. Each of them is reconciled when any role changes, because
/// the change may add that role to what it selects, or remove it.
fn aggregated_roles(cx: &Reader) -> Vec<ObjectKey> {
    let roles = cx.list::<ClusterRole>();
    roles.filter(|role| role.aggregation_rule.is_some()).keys()
}

async fn sync(role: Arc<ClusterRole>, cx: Context) -> Result<Action> {
    let Some(wanted) = rules(&role, cx.reader())? else {
        return Ok(Action::done());
    };
    if role.rules.as_deref().unwrap_or_default() == wanted {
        return Ok(Action::done());
    }
    match cx
        .client()
        .with_field_manager(NAME)
        .patch(&*role, apply_rules(&role, &wanted))
        .await
    {
        // The role has changed or was deleted meanwhile; that event starts another reconcile.
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Applies the rules. Without any the configuration leaves `rules` out, so that rules which
/// another field manager owns stay.
fn apply_rules(role: &ClusterRole, rules: &[PolicyRule]) -> Patch {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": role.name()},
    });
    if !rules.is_empty() {
        object["rules"] = json!(rules);
    }
    Patch::Apply {
        object,
        force: true,
    }
}

/// The distinct rules of all selected roles, in the order of the roles' names; `None` if the role
/// has no aggregation rule.
fn rules(role: &ClusterRole, cx: &Reader) -> Result<Option<Vec<PolicyRule>>> {
    let Some(aggregation) = &role.aggregation_rule else {
        return Ok(None);
    };
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in aggregation.cluster_role_selectors.iter().flatten() {
        let selector = Selector::try_from(selector)
            .map_err(|error| Error::terminal(format!("aggregationRule: {error}")))?;
        for other in cx.list::<ClusterRole>().labels(&selector).iter() {
            if other.name() == role.name() {
                continue;
            }
            for rule in other.rules.iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Ok(Some(rules))
}
