//! Applies objects in the order in which they need each other.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::api::{Api, Applied, Conflicts, Effect, field_differences, name_of, text};
use crate::screen::Screen;

/// How often something is looked at that is waited for.
pub(super) const POLL: Duration = Duration::from_millis(250);

/// How long the API server may take to serve a new kind.
const SERVED: Duration = Duration::from_secs(30);

/// What became of an object.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) object: Value,
    pub(super) applied: Applied,
    differences: Vec<String>,
}

impl Outcome {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "apiVersion": self.object["apiVersion"],
            "kind": self.object["kind"],
            "namespace": self.object["metadata"].get("namespace"),
            "name": self.object["metadata"]["name"],
            "change": self.applied.word(),
            "differences": self.differences,
        })
    }
}

/// Kinds in the order in which they are needed; all others come after these.
const ORDER: [&str; 14] = [
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "PersistentVolumeClaim",
    "NetworkPolicy",
    "Service",
    "PodDisruptionBudget",
];

/// Sorts objects by what needs what.
pub(super) fn in_order(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| {
        let kind = text(object, "/kind");
        ORDER
            .iter()
            .position(|known| *known == kind)
            .unwrap_or(ORDER.len())
    });
    objects
}

pub(super) fn is_definition(object: &Value) -> bool {
    text(object, "/kind") == "CustomResourceDefinition"
}

/// Applies all of them, and waits until new kinds are served.
pub(super) async fn apply_all(
    api: &mut Api,
    objects: Vec<Value>,
    conflicts: Conflicts,
    effect: Effect,
    screen: &Screen,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let objects = in_order(objects);
    let new_kinds: Vec<&str> = objects
        .iter()
        .filter(|object| is_definition(object))
        .map(|definition| text(definition, "/spec/names/kind"))
        .collect();
    let new_namespaces: Vec<&str> = objects
        .iter()
        .filter(|object| text(object, "/kind") == "Namespace")
        .map(|namespace| text(namespace, "/metadata/name"))
        .collect();
    let mut served = false;
    for object in &objects {
        if !served && !is_definition(object) {
            await_served(api, &outcomes, effect, screen).await?;
            served = true;
        }
        let kind = text(object, "/kind");
        let Some(path) = api.path(object).await? else {
            if effect == Effect::DryRun && new_kinds.contains(&kind) {
                outcomes.push(tell(object.clone(), Applied::Created, Vec::new(), screen));
                continue;
            }
            bail!(
                "{}: the cluster has no kind {kind} in {}; install what defines it, or leave it out of what is applied",
                name_of(object),
                text(object, "/apiVersion")
            );
        };
        let namespace = text(object, "/metadata/namespace");
        if effect == Effect::DryRun
            && new_namespaces.contains(&namespace)
            && api
                .get(&format!("/api/v1/namespaces/{namespace}"))
                .await?
                .is_none()
        {
            // The server would refuse what is in a namespace that is not there yet.
            outcomes.push(tell(object.clone(), Applied::Created, Vec::new(), screen));
            continue;
        }
        let (applied, before, after) = api.apply(&path, object, conflicts, effect).await?;
        let differences = match applied {
            Applied::Changed => field_differences(&before, &after),
            Applied::Created | Applied::Unchanged => Vec::new(),
        };
        let shown = match effect {
            Effect::DryRun => differences.clone(),
            Effect::Persist => Vec::new(),
        };
        let mut outcome = tell(after, applied, shown, screen);
        outcome.differences = differences;
        outcomes.push(outcome);
    }
    if !served {
        await_served(api, &outcomes, effect, screen).await?;
    }
    Ok(outcomes)
}

fn tell(object: Value, applied: Applied, differences: Vec<String>, screen: &Screen) -> Outcome {
    screen.step(
        &format!("{} {}", name_of(&object), applied.word()),
        &differences.join("\n"),
    );
    Outcome {
        object,
        applied,
        differences,
    }
}

/// Waits until the server serves the kinds of these definitions.
async fn await_served(
    api: &Api,
    outcomes: &[Outcome],
    effect: Effect,
    screen: &Screen,
) -> Result<()> {
    if effect == Effect::DryRun {
        return Ok(());
    }
    for outcome in outcomes
        .iter()
        .filter(|outcome| is_definition(&outcome.object))
    {
        let name = text(&outcome.object, "/metadata/name");
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let began = Instant::now();
        let mut told = String::new();
        loop {
            let found = api.get(&path).await?.unwrap_or_default();
            let why = match why_not_served(&found) {
                None => break,
                Some(why) => why,
            };
            if began.elapsed() > SERVED {
                bail!("the API server does not serve {name}: {why}");
            }
            if why != told && began.elapsed() > Duration::from_secs(1) {
                screen.say(format!("  waiting for {name}: {why}"));
                told = why;
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

fn why_not_served(definition: &Value) -> Option<String> {
    let conditions = definition["status"]["conditions"].as_array();
    let mut why = "the API server has not looked at it yet".to_owned();
    for condition in conditions.into_iter().flatten() {
        match (text(condition, "/type"), text(condition, "/status")) {
            ("Established", "True") => return None,
            ("NamesAccepted", "False") => why = text(condition, "/message").to_owned(),
            _ => {}
        }
    }
    Some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_and_namespaces_come_before_what_is_in_them() {
        let kinds = [
            "Deployment",
            "Service",
            "Role",
            "ServiceAccount",
            "Namespace",
            "CustomResourceDefinition",
        ];
        let objects = kinds.map(|kind| json!({"kind": kind})).to_vec();
        let sorted = in_order(objects);
        let sorted: Vec<&str> = sorted.iter().map(|object| text(object, "/kind")).collect();
        assert_eq!(
            sorted,
            [
                "CustomResourceDefinition",
                "Namespace",
                "ServiceAccount",
                "Role",
                "Service",
                "Deployment"
            ]
        );
    }
}
