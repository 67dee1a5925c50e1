//! Registers the node and keeps it fresh: its Node object and its Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use sendo::client::Error;
use sendo::{ObjectKey, Result, RunContext, Runnable, Timestamp, everywhere};
use serde_json::{Value, json};

use crate::{NodeOptions, addresses};

/// How often the lease is renewed, and for how long it counts.
const RENEW: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i64 = 40;

/// Every how many renewals the Node's own heartbeat is written.
const RENEWALS_PER_REPORT: u32 = 30;

const LEASES: &str = "kube-node-lease";

/// Registers the node at once, then renews until the manager stops.
pub(crate) fn runnable(options: NodeOptions) -> Runnable {
    everywhere("heartbeat", move |cx| async move {
        let mut beat = cx.interval(RENEW);
        let mut renewals = 0;
        while cx.still_running(beat.tick()).await {
            let report_due = renewals % RENEWALS_PER_REPORT == 0;
            match pulse(&options, report_due, &cx).await {
                Ok(()) => renewals += 1,
                // The next beat tries again; a node that misses some is not gone yet.
                Err(error) => tracing::warn!(node = options.name, %error, "heartbeat failed"),
            }
        }
        Ok(())
    })
}

async fn pulse(options: &NodeOptions, report: bool, cx: &RunContext) -> Result<(), Error> {
    if report {
        report_node(options, cx).await?;
    }
    renew_lease(options, cx).await
}

async fn report_node(options: &NodeOptions, cx: &RunContext) -> Result<(), Error> {
    let key = ObjectKey::cluster(&options.name);
    let node = match cx.client().live().get::<Node>(key).await? {
        Some(node) => node,
        None => cx.client().create(&object(node_json(options))).await?,
    };
    let reported: NodeStatus = object(node_status(options, &node, cx.now()));
    cx.client()
        .status(&node, |status| *status = reported)
        .await?;
    // A node that reports is no longer tainted as one that does not.
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    let kept: Vec<_> = taints
        .iter()
        .flatten()
        .filter(|t| t.key != "node.kubernetes.io/not-ready")
        .collect();
    if kept.len() < taints.iter().flatten().count() {
        let patch = sendo::client::Patch::Merge(json!({"spec": {"taints": kept}}));
        cx.client().patch(&node, patch).await?;
    }
    Ok(())
}

async fn renew_lease(options: &NodeOptions, cx: &RunContext) -> Result<(), Error> {
    let now = micro_time(cx.now());
    let key = ObjectKey::namespaced(LEASES, &options.name);
    let spec = json!({
        "holderIdentity": options.name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": now,
    });
    match cx.client().live().get::<Lease>(key).await? {
        Some(lease) => {
            let patch = sendo::client::Patch::Merge(json!({"spec": spec}));
            cx.client().patch(&lease, patch).await?;
        }
        None => {
            let lease: Lease = object(json!({
                "metadata": {"name": options.name, "namespace": LEASES},
                "spec": spec,
            }));
            cx.client().create(&lease).await?;
        }
    }
    Ok(())
}

fn object<K: serde::de::DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).expect("an object as this file spells it")
}

fn node_json(options: &NodeOptions) -> Value {
    json!({
        "metadata": {
            "name": options.name,
            "labels": {
                "kubernetes.io/hostname": options.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"podCIDR": addresses::pod_range(options.number), "podCIDRs": [addresses::pod_range(options.number)]},
    })
}

fn node_status(options: &NodeOptions, node: &Node, now: Timestamp) -> Value {
    let capacity =
        json!({"cpu": options.cpu, "memory": options.memory, "pods": options.pods.to_string()});
    let before = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        let same = before
            .into_iter()
            .flatten()
            .find(|old| old.type_ == type_ && old.status == status);
        let since = same.and_then(|old| old.last_transition_time.as_ref());
        json!({
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": second(now),
            "lastTransitionTime": second(since.map_or(now, |time| time.0)),
        })
    };
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": addresses::host(options.number).to_string()},
            {"type": "Hostname", "address": options.name},
        ],
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "",
            "kernelVersion": "simulated",
            "osImage": "Sendo",
            "containerRuntimeVersion": concat!("simulated://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": "v1.36.4",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    })
}

/// A time as Kubernetes writes it: whole seconds.
fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as Kubernetes writes it in leases: microseconds.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
