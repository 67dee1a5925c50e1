//! The demo of what an operator creates: a StatefulSet with claims, its Service, and a Job.

use std::fmt::Display;

use anyhow::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sendo::client::Propagation;
use sendo::{ObjectExt, Selection, Selector, Typed};
use serde_json::{Value, json};

use super::step::Story;

const NAMESPACE: &str = "default";
const CLAIMS: [&str; 2] = ["data-db-0", "data-db-1"];

pub(super) async fn run(story: &Story<'_>) -> Result<()> {
    story.screen.title("What an operator creates");
    let set: StatefulSet = object("db", stateful_set(story))?;
    let set = story.client.create(&set).await?;
    story
        .step(
            "stateful-set-runs",
            "A StatefulSet `db` asked for 2 pods with a claim each: they came up in order, and \
             their claims were bound to new volumes.",
            || bound_and_running(story),
        )
        .await?;

    let app = if story.sabotages("endpoints-follow") {
        "nobody"
    } else {
        "db"
    };
    let spec = json!({"selector": {"app": app}, "clusterIP": "None", "ports": [{"port": 5432}]});
    let service: Service = object("db", spec)?;
    let service = story.client.create(&service).await?;
    story
        .step(
            "endpoints-follow",
            "A Service `db` selected them: its EndpointSlice has the addresses of both.",
            || endpoints(story),
        )
        .await?;

    let code = if story.sabotages("job-completes") {
        "1"
    } else {
        "0"
    };
    let job: Job = object("backup", backup(code))?;
    let job = story.client.create(&job).await?;
    story
        .step(
            "job-completes",
            "A Job `backup` ran 2 pods to completion.",
            || completed(story),
        )
        .await?;

    story
        .client
        .delete(&job)
        .propagation(Propagation::Background)
        .await?;
    story.client.delete(&service).await?;
    if !story.sabotages("claims-stay") {
        story.client.delete(&set).await?;
    }
    story
        .step(
            "claims-stay",
            "All three were deleted: their pods are gone, and the claims stay, with the data.",
            || claims_stay(story),
        )
        .await?;
    for claim in list::<PersistentVolumeClaim>(story, Selector::default()).await? {
        if CLAIMS.contains(&claim.name()) {
            story.client.delete(&claim).await?;
        }
    }
    Ok(())
}

/// An object with that name and spec.
fn object<K: Typed>(name: &str, spec: Value) -> Result<K> {
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    Ok(serde_json::from_value(
        json!({"metadata": metadata, "spec": spec}),
    )?)
}

fn stateful_set(story: &Story<'_>) -> Value {
    let node = match story.sabotages("stateful-set-runs") {
        true => json!({"kubernetes.io/hostname": "nowhere"}),
        false => json!({}),
    };
    json!({
        "replicas": 2,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"nodeSelector": node, "containers": [{"name": "db", "image": "example.dev/db:1"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}],
    })
}

/// A Job of two pods that exit soon, with that code.
fn backup(code: &str) -> Value {
    let annotations = json!({
        "simulation.sendo.dev/run-for": "200ms",
        "simulation.sendo.dev/exit-code": code,
    });
    json!({
        "completions": 2,
        "parallelism": 2,
        "template": {
            "metadata": {"annotations": annotations, "labels": {"app": "backup"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "backup", "image": "example.dev/db:1"}]},
        },
    })
}

async fn list<K: Typed>(story: &Story<'_>, labels: Selector) -> Result<Vec<K>> {
    let selection = Selection {
        labels,
        ..Selection::in_namespace(NAMESPACE)
    };
    Ok(story.client.live().list(&selection).await?)
}

/// The objects with that label; an error in words if they cannot be read.
async fn labelled<K: Typed>(story: &Story<'_>, label: &str, value: &str) -> Result<Vec<K>, String> {
    let listed = list(story, Selector::labels([(label, value)])).await;
    listed.map_err(|error| error.to_string())
}

async fn claims(story: &Story<'_>) -> Result<Vec<PersistentVolumeClaim>, String> {
    let listed = list::<PersistentVolumeClaim>(story, Selector::default()).await;
    let mut claims = listed.map_err(|error| error.to_string())?;
    claims.retain(|claim| CLAIMS.contains(&claim.name()));
    Ok(claims)
}

/// What was seen, if it is what was wanted.
fn verdict(is_wanted: bool, seen: impl Display) -> Result<String, String> {
    match is_wanted {
        true => Ok(seen.to_string()),
        false => Err(format!("saw\n{seen}")),
    }
}

fn pod_line(pod: &Pod) -> (bool, String) {
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("(no phase)");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let is_running = phase == "Running" && !pod.is_being_deleted();
    let line = format!(
        "{}  {phase:<9}  {}",
        pod.name(),
        node.unwrap_or("(no node)")
    );
    (is_running, line)
}

fn claim_line(claim: &PersistentVolumeClaim) -> (bool, String) {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let volume = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref());
    let phase = phase.unwrap_or("(no phase)");
    let line = format!(
        "{}  {phase:<9}  {}",
        claim.name(),
        volume.unwrap_or("(no volume)")
    );
    (phase == "Bound", line)
}

async fn bound_and_running(story: &Story<'_>) -> Result<String, String> {
    let pods = labelled::<Pod>(story, "app", "db").await?;
    let claims = claims(story).await?;
    let all: Vec<_> = pods
        .iter()
        .map(pod_line)
        .chain(claims.iter().map(claim_line))
        .collect();
    let lines: Vec<_> = all.iter().map(|(_, line)| line.as_str()).collect();
    verdict(
        all.len() == 4 && all.iter().all(|(done, _)| *done),
        lines.join("\n"),
    )
}

async fn endpoints(story: &Story<'_>) -> Result<String, String> {
    let slices = labelled::<EndpointSlice>(story, "kubernetes.io/service-name", "db").await?;
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten());
    let lines: Vec<String> = endpoints
        .map(|endpoint| {
            let pod = endpoint
                .target_ref
                .as_ref()
                .and_then(|pod| pod.name.as_deref());
            let addresses = endpoint.addresses.join(", ");
            format!("{}  {addresses}", pod.unwrap_or("(no pod)"))
        })
        .collect();
    verdict(lines.len() == 2, lines.join("\n"))
}

async fn completed(story: &Story<'_>) -> Result<String, String> {
    let read = story
        .client
        .live()
        .get::<Job>(format!("{NAMESPACE}/backup"))
        .await;
    let job = read.map_err(|error| error.to_string())?;
    let status = job.and_then(|job| job.status).unwrap_or_default();
    let conditions = status.conditions.iter().flatten();
    let types: Vec<_> = conditions
        .map(|condition| condition.type_.as_str())
        .collect();
    let succeeded = status.succeeded.unwrap_or(0);
    let seen = format!("backup  {succeeded} succeeded  {}", types.join(", "));
    verdict(types.contains(&"Complete") && succeeded == 2, seen)
}

async fn claims_stay(story: &Story<'_>) -> Result<String, String> {
    let mut pods = labelled::<Pod>(story, "app", "db").await?;
    pods.extend(labelled::<Pod>(story, "app", "backup").await?);
    let claims = claims(story).await?;
    let lines = pods
        .iter()
        .map(pod_line)
        .chain(claims.iter().map(claim_line));
    let lines: Vec<_> = lines.map(|(_, line)| line).collect();
    verdict(pods.is_empty() && claims.len() == 2, lines.join("\n"))
}
