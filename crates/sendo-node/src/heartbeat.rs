//! Registers the node and sends its heartbeats: the Node's status and the Lease.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet_node_status.go`: `registerWithAPIServer`, `initialNode`,
//!   `tryUpdateNodeStatus`
//! - `pkg/kubelet/nodestatus/setters.go`: `ReadyCondition`, `MemoryPressureCondition`,
//!   `PIDPressureCondition`, `DiskPressureCondition`
//! - `pkg/controller/nodelifecycle/node_lifecycle_controller.go`: `processTaintBaseEviction`,
//!   `markNodeAsReachable`
//! - `staging/src/k8s.io/component-helpers/apimachinery/lease/controller.go`: `sync`,
//!   `newLease`

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use sendo::client::Error;
use sendo::{ObjectKey, Result, RunContext, Runnable, Timestamp, everywhere};
use serde_json::{Value, json};

use crate::{NodeOptions, Runtime, addresses};

/// How often the lease is renewed.
const RENEW: Duration = Duration::from_secs(10);
/// How long a renewed lease is valid, in seconds.
const LEASE_SECONDS: i64 = 40;

/// After how many renewals of the lease the Node's status is written again.
const RENEWALS_PER_REPORT: u32 = 30;

const LEASES: &str = "kube-node-lease";

/// Registers the node when the manager starts, then sends heartbeats until it stops.
pub(crate) fn runnable(options: NodeOptions) -> Runnable {
    everywhere("heartbeat", move |cx| async move {
        let mut interval = cx.interval(RENEW);
        let mut renewals = 0;
        while cx.still_running(interval.tick()).await {
            let report_due = renewals % RENEWALS_PER_REPORT == 0;
            match send_heartbeat(&options, report_due, &cx).await {
                Ok(()) => renewals += 1,
                // The next heartbeat tries again; the lease outlasts some that fail. After too many
                // the node counts as lost, until its status is reported again.
                Err(error) => {
                    renewals = 0;
                    tracing::warn!(node = options.name, %error, "heartbeat failed");
                }
            }
        }
        Ok(())
    })
}

async fn send_heartbeat(options: &NodeOptions, report: bool, cx: &RunContext) -> Result<(), Error> {
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
    serde_json::from_value(json).expect("the JSON of an object in this file is valid")
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

/// The features that the API server asks about before it lets a pod be changed. Containers that are
/// simulated have whatever resources they are given.
const FEATURES: [&str; 2] = [
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
];

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
            "lastHeartbeatTime": whole_seconds(now),
            "lastTransitionTime": whole_seconds(since.map_or(now, |time| time.0)),
        })
    };
    let (version, kernel) = match &options.runtime {
        #[cfg(feature = "process")]
        Runtime::Process(_) => ("process", kernel_version()),
        _ => ("simulated", "simulated".to_owned()),
    };
    let pressures = [
        (
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
    ];
    let pressures =
        pressures.map(|(type_, reason, message)| condition(type_, "False", reason, message));
    let ready = condition(
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    );
    let isolated = lack_of_isolation(&options.runtime)
        .map(|message| condition("PodsIsolated", "False", "PlainProcesses", message));
    let conditions: Vec<Value> = pressures
        .into_iter()
        .chain([ready])
        .chain(isolated)
        .collect();
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "declaredFeatures": FEATURES,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": options.host().to_string()},
            {"type": "Hostname", "address": options.name},
        ],
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "",
            "kernelVersion": kernel,
            "osImage": "Sendo",
            "containerRuntimeVersion": format!("{version}://{}", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": "v1.36.4",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    })
}

/// What the pods of a node share with its machine that on other nodes they do not.
fn lack_of_isolation(runtime: &Runtime) -> Option<&'static str> {
    match runtime {
        #[cfg(feature = "process")]
        Runtime::Process(_) => Some(
            "pods are plain processes: they share the network and the files of this machine, without limits",
        ),
        _ => None,
    }
}

#[cfg(feature = "process")]
fn kernel_version() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release
        .map(|release| release.trim().to_owned())
        .unwrap_or_default()
}

/// A time in the format of `metav1.Time`: whole seconds.
fn whole_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time in the format of `metav1.MicroTime`, as leases have it.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
