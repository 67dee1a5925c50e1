//! Gives ClusterRoles that gather others the rules of those they select.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use sendo::handler::map;
use sendo::source::kind;
use sendo::{Action, Context, Controller, Event, ObjectExt, ObjectKey, Patch, Reader, Result};
use sendo::{Error, Selector};
use serde_json::json;

/// The controller's name, and that of the manager of what it gathers.
const NAME: &str = "clusterrole-aggregation-controller";

/// The controller of aggregated ClusterRoles.
pub fn controller() -> Controller {
    Controller::new::<ClusterRole>()
        .named(NAME)
        .watches(
            kind::<ClusterRole>(),
            map(|_: Event<ClusterRole>, cx| gathering(cx)),
        )
        .reconcile(sync)
}

/// Any role may come to be selected, or cease to be: all that gather look again.
fn gathering(cx: &Reader) -> Vec<ObjectKey> {
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
        .patch(&*role, gathered(&role, &wanted))
        .await
    {
        // Whoever was faster has us look again.
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// What this controller says of a role: nothing where it has gathered nothing, so that
/// rules which somebody else gave the role stay.
fn gathered(role: &ClusterRole, rules: &[PolicyRule]) -> Patch {
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

/// The rules of all roles that are selected, in order of their names and each
/// once; `None` if the role gathers none.
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
