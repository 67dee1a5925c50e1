//! Waits until a program is up, and finds out why it is not.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::apply::POLL;
use crate::api::{Api, name_of, text};
use crate::screen::Screen;

/// How many lines of a log are shown.
const LOG_LINES: usize = 10;

/// Waits until the workloads among these objects have rolled out.
pub(super) async fn await_rollouts(
    api: &Api,
    objects: &[&Value],
    limit: Duration,
    screen: &Screen,
) -> Result<()> {
    let began = Instant::now();
    for object in objects {
        let Some(path) = workload_path(object) else {
            continue;
        };
        let mut told = String::new();
        loop {
            let now = api.get(&path).await?.unwrap_or_default();
            let Some(waits_for) = waits_for(&now) else {
                let took = began.elapsed().as_secs_f64();
                screen.step(
                    &format!("{} is up", name_of(object)),
                    &format!("after {took:.1} s"),
                );
                break;
            };
            if began.elapsed() > limit {
                let why = reasons(api, &now).await;
                bail!(
                    "{} is not up after {} s: {waits_for}{why}\n--timeout SECONDS waits longer",
                    name_of(object),
                    limit.as_secs()
                );
            }
            if waits_for != told && began.elapsed() > Duration::from_secs(1) {
                screen.say(format!("  {}: {waits_for}", name_of(object)));
                told = waits_for;
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// Waits until something answers the webhooks among these objects.
pub(super) async fn await_webhooks(
    api: &Api,
    objects: &[&Value],
    limit: Duration,
    screen: &Screen,
) -> Result<()> {
    let began = Instant::now();
    let configurations = objects
        .iter()
        .filter(|object| super::is_webhook_configuration(object));
    for object in configurations {
        let path = format!(
            "/apis/{}/{}s/{}",
            text(object, "/apiVersion"),
            text(object, "/kind").to_lowercase(),
            text(object, "/metadata/name")
        );
        loop {
            let now = api.get(&path).await?.unwrap_or_default();
            let mut missing = Vec::new();
            for webhook in now["webhooks"].as_array().into_iter().flatten() {
                missing.extend(why_unreachable(api, webhook).await?);
            }
            let Some(first) = missing.first() else {
                screen.step(&format!("{} has who answers", name_of(object)), "");
                break;
            };
            if began.elapsed() > limit {
                bail!(
                    "{} is answered by nobody after {} s: {first}",
                    name_of(object),
                    limit.as_secs()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// Why a webhook cannot be called; none if it can.
async fn why_unreachable(api: &Api, webhook: &Value) -> Result<Option<String>> {
    let config = &webhook["clientConfig"];
    let name = text(webhook, "/name");
    if config.get("service").is_none() {
        return Ok(None);
    }
    if text(config, "/caBundle").is_empty() {
        return Ok(Some(format!(
            "{name} has no caBundle yet, which the program writes when it has its certificate"
        )));
    }
    let (namespace, service) = (
        text(config, "/service/namespace"),
        text(config, "/service/name"),
    );
    let slices = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name%3D{service}"
    );
    let slices = api.list(&slices).await?;
    let mut endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let is_ready = endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false);
    Ok((!is_ready)
        .then(|| format!("the Service {namespace}/{service} of {name} has no ready endpoint")))
}

fn workload_path(object: &Value) -> Option<String> {
    let plural = match (text(object, "/apiVersion"), text(object, "/kind")) {
        ("apps/v1", "Deployment") => "deployments",
        ("apps/v1", "StatefulSet") => "statefulsets",
        ("apps/v1", "DaemonSet") => "daemonsets",
        _ => return None,
    };
    let (namespace, name) = (
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    );
    Some(format!(
        "/apis/apps/v1/namespaces/{namespace}/{plural}/{name}"
    ))
}

/// What a workload waits for; none if all of its pods are new and available.
fn waits_for(workload: &Value) -> Option<String> {
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_i64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    if number("/metadata/generation").unwrap_or(0) > status("observedGeneration") {
        return Some("its controller has not seen it yet".to_owned());
    }
    let (wanted, updated, available) = match text(workload, "/kind") {
        "DaemonSet" => (
            status("desiredNumberScheduled"),
            status("updatedNumberScheduled"),
            status("numberAvailable"),
        ),
        _ => (
            number("/spec/replicas").unwrap_or(1),
            status("updatedReplicas"),
            status("availableReplicas"),
        ),
    };
    if updated < wanted {
        return Some(format!("{updated} of {wanted} pods are made anew"));
    }
    let old = status("replicas") - updated;
    if text(workload, "/kind") == "Deployment" && old > 0 {
        return Some(format!("{old} old pods are still there"));
    }
    (available < wanted).then(|| format!("{available} of {wanted} pods are available"))
}

/// Why a workload does not come up: its conditions, its pods, warnings about them, and what they
/// logged last. A line each, to follow a sentence.
async fn reasons(api: &Api, workload: &Value) -> String {
    let mut lines = Vec::new();
    for condition in workload["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let bad = match text(condition, "/type") {
            "ReplicaFailure" => text(condition, "/status") == "True",
            "Progressing" => text(condition, "/status") == "False",
            _ => false,
        };
        if bad {
            lines.push(text(condition, "/message").to_owned());
        }
    }
    let namespace = text(workload, "/metadata/namespace");
    let name = text(workload, "/metadata/name");
    let labels = workload["spec"]["selector"]["matchLabels"].as_object();
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            format!(
                "{}%3D{}",
                key.replace('/', "%2F"),
                value.as_str().unwrap_or_default()
            )
        })
        .collect();
    let pods = format!(
        "/api/v1/namespaces/{namespace}/pods?labelSelector={}",
        selector.join(",")
    );
    // What cannot be read is missing among the reasons, and that is all.
    let pods = api.list(&pods).await.unwrap_or_default();
    for pod in &pods {
        let about = pod_reasons(pod);
        lines.extend(
            about
                .iter()
                .map(|reason| format!("Pod {}: {reason}", text(pod, "/metadata/name"))),
        );
    }
    let events = api
        .list(&format!("/api/v1/namespaces/{namespace}/events"))
        .await
        .unwrap_or_default();
    let warnings = events.iter().filter(|event| {
        text(event, "/type") == "Warning" && text(event, "/involvedObject/name").starts_with(name)
    });
    let mut warnings: Vec<String> = warnings
        .map(|event| {
            format!(
                "event {}: {}",
                text(event, "/reason"),
                text(event, "/message")
            )
        })
        .collect();
    warnings.dedup();
    let skipped = warnings.len().saturating_sub(5);
    lines.extend(warnings.into_iter().skip(skipped));
    if let Some(log) = last_log(api, namespace, &pods).await {
        lines.push(format!(
            "the last lines of the program:\n    {}",
            log.join("\n    ")
        ));
    }
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// What keeps a pod from being ready.
fn pod_reasons(pod: &Value) -> Vec<String> {
    let mut reasons = Vec::new();
    let conditions = pod["status"]["conditions"].as_array();
    for condition in conditions.into_iter().flatten() {
        if text(condition, "/type") == "PodScheduled" && text(condition, "/status") == "False" {
            reasons.push(format!("is on no node: {}", text(condition, "/message")));
        }
    }
    let is_looked_at = conditions.is_some_and(|conditions| !conditions.is_empty());
    if text(pod, "/spec/nodeName").is_empty() && !is_looked_at {
        reasons.push("is on no node, and no scheduler has looked at it".to_owned());
    }
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let statuses = statuses
        .iter()
        .filter_map(|field| pod["status"][field].as_array())
        .flatten();
    for status in statuses {
        let waiting = &status["state"]["waiting"];
        if let Some(reason) = waiting["reason"].as_str() {
            reasons.push(
                format!("{reason} {}", text(waiting, "/message"))
                    .trim_end()
                    .to_owned(),
            );
        }
        for ended in [
            &status["state"]["terminated"],
            &status["lastState"]["terminated"],
        ] {
            if let Some(code) = ended["exitCode"].as_i64().filter(|code| *code != 0) {
                reasons.push(format!(
                    "ended with status {code}, {}",
                    text(ended, "/reason")
                ));
            }
        }
    }
    reasons
}

/// The last lines of a pod that is not ready.
async fn last_log(api: &Api, namespace: &str, pods: &[Value]) -> Option<Vec<String>> {
    let failed = |pod: &&Value| {
        let statuses = pod["status"]["containerStatuses"].as_array();
        statuses
            .into_iter()
            .flatten()
            .any(|status| status["restartCount"].as_i64() > Some(0))
    };
    let pod = pods.iter().find(failed)?;
    let name = text(pod, "/metadata/name");
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods/{name}/log?previous=true&tailLines={LOG_LINES}"
    );
    let log = api.page(&path).await.ok()?;
    let lines: Vec<String> = log.lines().map(str::to_owned).collect();
    (!lines.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_over_when_all_pods_are_new_and_available() {
        let state = |status: Value| {
            waits_for(
                &json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status}),
            )
        };
        let has = |state: Option<String>, part: &str| {
            let state = state.unwrap_or_default();
            assert!(state.contains(part), "{state}");
        };
        has(state(json!({"observedGeneration": 1})), "has not seen it");
        has(
            state(json!({"observedGeneration": 2, "updatedReplicas": 1})),
            "1 of 2 pods are made anew",
        );
        let old = json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3});
        has(state(old), "1 old pods");
        let new = json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 1});
        has(state(new), "1 of 2 pods are available");
        let all = json!({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2});
        assert_eq!(state(all), None);
    }

    #[test]
    fn a_pod_tells_why_it_is_not_ready() {
        let pod = json!({"status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}],
            "containerStatuses": [{
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
            }],
        }});
        let expected = [
            "is on no node: 0/2 nodes are available",
            "CrashLoopBackOff back-off",
            "ended with status 1, Error",
        ];
        assert_eq!(pod_reasons(&pod), expected);
        let new = json!({"spec": {}, "status": {"phase": "Pending"}});
        assert_eq!(
            pod_reasons(&new),
            ["is on no node, and no scheduler has looked at it"]
        );
    }
}
