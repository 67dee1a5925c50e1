//! `sendo deploy` and `sendo undeploy`: the program, as its manifests describe it, on a cluster.

mod apply;
mod kinds;
mod rollout;
mod source;
mod undeploy;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::api::{ClusterFlags, Conflicts, Connection, Effect, text};
use crate::output::{Format, print_json};
use apply::{Outcome, apply_all};
use rollout::await_rollouts;
use source::ManifestFlags;

pub(crate) use kinds::{Install, Uninstall};
pub(crate) use undeploy::Undeploy;

/// Deploy the program to a cluster: what its `manifests` print, applied in order
///
/// Definitions of kinds come first and are waited for, then namespace, rights
/// and the rest, then the rollout of the program, and its webhooks last, so that
/// they never refuse their own program. If it does not come up, the reason is
/// told. Fields that others own are not taken over unless you say so.
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "Examples:
  sendo deploy --image registry.example.dev/bar:1
  sendo deploy --image registry.example.dev/bar:1 --dry-run
                                               what would change, field by field
  sendo deploy --file manifests.yaml           apply what was printed before
  sendo deploy -- --leader-elect               more flags for `manifests`"
)]
pub(crate) struct Deploy {
    #[command(flatten)]
    source: ManifestFlags,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// Show what would change, field by field, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Take fields over that others have set
    #[arg(long)]
    force_conflicts: bool,

    /// How many seconds the program has to come up
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    /// Do not wait until the program is up
    #[arg(long)]
    no_wait: bool,

    /// Print JSON for programs
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl Deploy {
    pub(crate) async fn run(self) -> Result<()> {
        let screen = self.output.progress();
        let mut objects = self.source.manifests()?;
        let Connection { mut api, address } = self.cluster.connect().await?;
        let version = api.version().await?;
        screen.say(format!("Cluster {address}, Kubernetes {version}"));
        let simulated = has_simulated_nodes(&api).await;
        let mut left_out = Vec::new();
        if simulated {
            screen.say("Its nodes simulate containers: pods become ready, but the program itself does not run in them.");
            (left_out, objects) = objects.into_iter().partition(is_webhook_configuration);
            for object in &left_out {
                screen.say(format!(
                    "left out: {}, because nothing would answer it here",
                    crate::api::name_of(object)
                ));
            }
            for definition in &mut objects {
                if let Some(served) = leave_conversion_out(definition) {
                    screen.say(format!(
                        "left out: the conversions of {}, for the same reason; {served} alone is served",
                        crate::api::name_of(definition)
                    ));
                }
            }
        }
        let conflicts = match self.force_conflicts {
            true => Conflicts::Overwrite,
            false => Conflicts::Refuse,
        };
        let effect = match self.dry_run {
            true => Effect::DryRun,
            false => Effect::Persist,
        };
        let wait = match self.no_wait || self.dry_run {
            true => None,
            false => Some(Duration::from_secs(self.timeout)),
        };
        // Webhooks come after what answers them.
        let (webhooks, others): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(is_webhook_configuration);
        let mut outcomes = apply_all(&mut api, others, conflicts, effect, &screen).await?;
        if let Some(limit) = wait {
            let applied: Vec<&Value> = outcomes.iter().map(|outcome| &outcome.object).collect();
            await_rollouts(&api, &applied, limit, &screen).await?;
        }
        outcomes.extend(apply_all(&mut api, webhooks, conflicts, effect, &screen).await?);
        if let Some(limit) = wait {
            let applied: Vec<&Value> = outcomes.iter().map(|outcome| &outcome.object).collect();
            rollout::await_webhooks(&api, &applied, limit, &screen).await?;
        }
        if self.output == Format::Json {
            let objects: Vec<Value> = outcomes.iter().map(Outcome::to_json).collect();
            print_json(&json!({
                "cluster": address,
                "version": version,
                "dryRun": self.dry_run,
                "simulated": simulated,
                "objects": objects,
                "leftOut": left_out.iter().map(crate::api::name_of).collect::<Vec<_>>(),
            }))?;
        }
        Ok(())
    }
}

fn is_webhook_configuration(object: &Value) -> bool {
    text(object, "/apiVersion").starts_with("admissionregistration.k8s.io/")
        && text(object, "/kind").ends_with("WebhookConfiguration")
}

/// Takes the conversion webhook out of a definition, and leaves the version that is stored, which
/// needs none; its name, if there was such a webhook.
fn leave_conversion_out(definition: &mut Value) -> Option<String> {
    if text(definition, "/spec/conversion/strategy") != "Webhook" {
        return None;
    }
    definition["spec"].as_object_mut()?.remove("conversion");
    let mut stored = None;
    for version in definition["spec"]["versions"].as_array_mut()? {
        match version["storage"] == true {
            true => stored = Some(text(version, "/name").to_owned()),
            false => version["served"] = json!(false),
        }
    }
    stored
}

/// Whether the cluster's nodes run no containers, as those of `sendo up` do not.
async fn has_simulated_nodes(api: &crate::api::Api) -> bool {
    // Who may not read nodes is told nothing about them.
    let nodes = api.list("/api/v1/nodes").await.unwrap_or_default();
    let runtime = |node: &Value| text(node, "/status/nodeInfo/containerRuntimeVersion").to_owned();
    !nodes.is_empty()
        && nodes
            .iter()
            .all(|node| runtime(node).starts_with("simulated://"))
}

/// Refuses an answer that has a question with it: what is deleted is gone.
fn refuse_objects(found: &[(String, Vec<String>)], flag: &str) -> Result<()> {
    let mut lines = Vec::new();
    for (kind, objects) in found.iter().filter(|(_, objects)| !objects.is_empty()) {
        let shown: Vec<&str> = objects.iter().take(3).map(String::as_str).collect();
        let more = match objects.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!("{kind} has {}{more}", shown.join(", ")));
    }
    if !lines.is_empty() {
        bail!(
            "nothing was deleted, because objects would be deleted with their kinds: {}; delete them first, or pass {flag}",
            lines.join("; ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_its_conversion_a_kind_is_served_as_it_is_stored() {
        let versions = json!([
            {"name": "v1alpha1", "served": true, "storage": false},
            {"name": "v1", "served": true, "storage": true},
        ]);
        let mut converted = json!({"spec": {
            "conversion": {"strategy": "Webhook", "webhook": {}},
            "versions": versions,
        }});
        assert_eq!(leave_conversion_out(&mut converted).as_deref(), Some("v1"));
        let expected = json!({"spec": {"versions": [
            {"name": "v1alpha1", "served": false, "storage": false},
            {"name": "v1", "served": true, "storage": true},
        ]}});
        assert_eq!(converted, expected);
        let plain = json!({"spec": {"versions": versions}});
        let mut kept = plain.clone();
        assert_eq!(leave_conversion_out(&mut kept), None);
        assert_eq!(kept, plain);
    }
}
