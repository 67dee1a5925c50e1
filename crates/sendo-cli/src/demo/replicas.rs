//! The demo of a ReplicaSet: its pods are created, replaced, scaled down and deleted.

use anyhow::Result;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use sendo::{ObjectExt, Patch, Selection, Selector};
use serde_json::json;

use super::step::Story;

const NAMESPACE: &str = "default";

pub(super) async fn run(story: &Story<'_>) -> Result<()> {
    story.screen.title("From a ReplicaSet to running pods");
    let node = match story.sabotages("replicas-run") {
        true => json!({"kubernetes.io/hostname": "nowhere"}),
        false => json!({}),
    };
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"nodeSelector": node, "containers": [{"name": "web", "image": "example.dev/web:1"}]},
            },
        },
    }))?;
    let set = story.client.create(&set).await?;
    story
        .step(
            "replicas-run",
            "A ReplicaSet `web` asked for 3 pods: its controller created them, the scheduler \
             placed them, the nodes started them.",
            || running(story, 3),
        )
        .await?;

    let pods = pods(story).await?;
    let victim = pods
        .first()
        .map(|pod| pod.name().to_owned())
        .unwrap_or_default();
    if !story.sabotages("pod-replaced") {
        for pod in pods.iter().filter(|pod| pod.name() == victim) {
            story.client.delete(pod).await?;
        }
    }
    story
        .step(
            "pod-replaced",
            &format!("The pod `{victim}` was deleted: another took its place."),
            || async {
                let seen = running(story, 3).await?;
                match seen.contains(&victim) {
                    true => Err(format!("`{victim}` is still there")),
                    false => Ok(seen),
                }
            },
        )
        .await?;

    let replicas = if story.sabotages("scaled-down") { 3 } else { 1 };
    let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    story.client.patch(&set, scale).await?;
    story
        .step(
            "scaled-down",
            "Scaled down to 1: two pods were told to end, and went when they had.",
            || running(story, 1),
        )
        .await?;

    if !story.sabotages("set-deleted") {
        story.client.delete(&set).await?;
    }
    story
        .step(
            "set-deleted",
            "The ReplicaSet was deleted: the garbage collector took its last pod.",
            || async {
                match self::pods(story).await {
                    Ok(pods) if pods.is_empty() => Ok("no pods".to_owned()),
                    Ok(pods) => Err(format!("still there: {}", lines(&pods))),
                    Err(error) => Err(error.to_string()),
                }
            },
        )
        .await
}

async fn pods(story: &Story<'_>) -> Result<Vec<Pod>> {
    let selection = Selection {
        labels: Selector::labels([("app", "web")]),
        ..Selection::in_namespace(NAMESPACE)
    };
    Ok(story.client.live().list(&selection).await?)
}

/// The pods, one in a line, if there are `count` and all of them run.
async fn running(story: &Story<'_>, count: usize) -> Result<String, String> {
    let pods = pods(story).await.map_err(|error| error.to_string())?;
    let run = pods
        .iter()
        .all(|pod| phase(pod) == "Running" && !pod.is_being_deleted());
    match pods.len() == count && run {
        true => Ok(lines(&pods)),
        false => Err(format!(
            "wanted {count} running pods, saw\n{}",
            lines(&pods)
        )),
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("(no phase)")
}

fn lines(pods: &[Pod]) -> String {
    let line = |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let ip = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.as_deref());
        let state = match pod.is_being_deleted() {
            true => "Terminating",
            false => phase(pod),
        };
        let (node, ip) = (node.unwrap_or("(no node)"), ip.unwrap_or(""));
        format!("{}  {state:<11}  {node}  {ip}", pod.name())
            .trim_end()
            .to_owned()
    };
    let lines: Vec<_> = pods.iter().map(line).collect();
    lines.join("\n")
}
