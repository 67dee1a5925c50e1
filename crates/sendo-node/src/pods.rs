//! The controller of the pods bound to this node: runs them, reports their status, and deletes
//! them once their containers have terminated.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet.go`: `SyncPod`, `SyncTerminatingPod`
//! - `pkg/kubelet/kuberuntime/kuberuntime_container.go`: `startContainer`
//! - `pkg/kubelet/status/status_manager.go`: `syncPod`, `canBeDeleted`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sendo::cache::{FieldSelector, Selection};
use sendo::handler::map;
use sendo::source::kind;
use sendo::{
    Action, Context, Controller, Elected, Event, EventSeverity::*, ObjectExt, Reconcile, Result,
    Timestamp, Uid, predicate,
};

use crate::addresses::{self, PodAddresses};
use crate::pod::Pod;
use crate::simulation::{self, History};
use crate::status::{self, PodRecord};
use crate::{NodeOptions, Pace};

/// The controller of the pods that are bound to this node, and of no others.
pub(crate) fn controller(options: &NodeOptions, pace: Pace) -> Controller {
    let agent = Arc::new(Agent {
        number: options.number,
        pace,
        state: Mutex::new(AgentState {
            histories: BTreeMap::new(),
            addresses: PodAddresses::new(options.number),
        }),
    });
    let on_this_node = Selection::fields(FieldSelector::equal("spec.nodeName", &options.name));
    let agent_of_deleted = agent.clone();
    Controller::new::<Pod>()
        .named("kubelet")
        .selecting(on_this_node.clone())
        .watches(
            kind::<Pod>()
                .selecting(on_this_node)
                .when(predicate::deleted()),
            map(move |deletion: Event<Pod>, _| {
                agent_of_deleted.forget(&deletion.object().uid());
                None
            }),
        )
        .workers(8)
        .elected(Elected::Everywhere)
        .reconcile(PodReconciler(agent))
}

/// The agent of one node.
struct Agent {
    number: u8,
    pace: Pace,
    state: Mutex<AgentState>,
}

/// What an agent knows of its pods.
struct AgentState {
    /// These times are more exact than those in the API, which are whole seconds.
    histories: BTreeMap<Uid, History>,
    addresses: PodAddresses,
}

/// Reconciles a pod with the agent of its node.
struct PodReconciler(Arc<Agent>);

impl Reconcile<Pod> for PodReconciler {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        if simulation::is_finished(&pod) {
            self.0.forget(&pod.uid());
            // A finalizer may keep it, but no container does.
            if pod.is_being_deleted() {
                return delete(&pod, &cx).await;
            }
            return Ok(Action::done());
        }
        let now = cx.now();
        let (record, started) = self.0.record(&pod, now);
        let snapshot = simulation::snapshot(&pod, &record.history, self.0.pace, now);
        let status = status::pod_status(&pod, &snapshot, record, now);
        if !pod.is_being_deleted() {
            started
                .iter()
                .for_each(|container| report_start(container, &cx));
        }
        cx.client().status(&*pod, |now| *now = status).await?;
        if pod.is_being_deleted() && snapshot.terminated() {
            return delete(&pod, &cx).await;
        }
        Ok(match snapshot.next {
            Some(next) => Action::after(until(next, now)),
            None => Action::done(),
        })
    }
}

/// Deletes a pod whose containers have terminated. The delete request names the uid of this pod, so
/// that another pod of its name stays.
async fn delete(pod: &Pod, cx: &Context) -> Result<Action> {
    match cx.client().delete(pod).grace_period(0).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

fn report_start(container: &str, cx: &Context) {
    cx.event(Normal, "Created", format!("Container created: {container}"));
    cx.event(Normal, "Started", format!("Container started: {container}"));
}

/// The names of the containers in a pod's spec other than ephemeral ones, in the order they start.
fn init_and_main_containers(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        init.chain(&spec.containers)
    });
    containers.map(|container| container.name.clone()).collect()
}

impl Agent {
    fn state(&self) -> MutexGuard<'_, AgentState> {
        self.state.lock()
    }

    /// The addresses and the history of the pod, and the containers that this node sees for the
    /// first time.
    fn record(&self, pod: &Pod, now: Timestamp) -> (PodRecord, Vec<String>) {
        let uid = pod.uid();
        let mut state = self.state();
        // The agent may have been restarted: what it reported before is in the pod's status.
        let reported = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.as_deref());
        if let Some(address) = reported.and_then(|ip| ip.parse().ok()) {
            state.addresses.keep(&uid, address);
        }
        let from_status = || {
            Some(History {
                acknowledged: simulation::acknowledged(pod)?,
                ephemeral_seen: simulation::ephemeral_seen(pod, self.pace),
                termination_requested: simulation::termination_requested(pod),
            })
        };
        let known = state.histories.get(&uid).cloned().or_else(from_status);
        let mut new = match known {
            None => init_and_main_containers(pod),
            Some(_) => Vec::new(),
        };
        let mut history = known.unwrap_or_else(|| History {
            acknowledged: now,
            ephemeral_seen: BTreeMap::new(),
            termination_requested: None,
        });
        for name in simulation::ephemeral_containers(pod) {
            history
                .ephemeral_seen
                .entry(name.to_owned())
                .or_insert_with(|| {
                    new.push(name.to_owned());
                    now
                });
        }
        if pod.is_being_deleted() {
            history.termination_requested.get_or_insert(now);
        }
        state.histories.insert(uid.clone(), history.clone());
        let host = addresses::host(self.number);
        let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let address = match host_network {
            true => Some(host),
            false => state.addresses.allocate(&uid),
        };
        let record = PodRecord {
            host_ip: host,
            pod_ip: address,
            history,
        };
        (record, new)
    }

    fn forget(&self, pod: &Uid) {
        let mut state = self.state();
        state.histories.remove(pod);
        state.addresses.release(pod);
    }
}
