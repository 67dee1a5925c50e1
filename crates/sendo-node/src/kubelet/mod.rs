//! The controller of the pods bound to this node: runs them, reports their status, and deletes
//! them once their containers have terminated.
//!
//! A reconcile never waits for a container. What takes a while is a job of the agent
//! ([`Jobs`]), and the pod is reconciled again when it has ended, when a container's state has
//! changed, or when something is due.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kubelet.go`: `SyncPod`, `SyncTerminatingPod`, `HandlePodAdditions`, `rejectPod`
//! - `pkg/kubelet/kuberuntime/kuberuntime_container.go`: `startContainer`
//! - `pkg/kubelet/status/status_manager.go`: `syncPod`, `canBeDeleted`

mod record;
mod step;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sendo::cache::{FieldSelector, Selection};
use sendo::handler::map;
use sendo::source::{self, Sender, Source, kind};
use sendo::{
    Action, Context, Controller, Elected, Event, EventSeverity::*, ObjectExt, ObjectKey, Reconcile,
    Result, Timestamp, Uid, predicate,
};

use self::record::{ContainerRecord, FailedStart, PodRecord};
use self::step::{Job, Start, Step, deadline, next_step};
use crate::NodeOptions;
use crate::addresses::PodAddresses;
use crate::admission::{Capacity, Demand};
use crate::jobs::Jobs;
use crate::pod::Pod;
use crate::runtime::{ContainerRuntime, Observed, Runs, Signal};
use crate::status::{self, Facts};
use crate::stop::Hook;

/// How many wake-ups may wait to be read.
const WAKE_UPS: usize = 1024;

/// How a pod is reconciled when something has happened to it on its node.
pub(crate) struct WakeUps {
    pub(crate) sender: Sender<ObjectKey>,
    source: Source<ObjectKey>,
}

impl WakeUps {
    pub(crate) fn new() -> Self {
        let (sender, source) = source::channel(WAKE_UPS);
        WakeUps { sender, source }
    }
}

/// The controller of the pods that are bound to this node, and of no others.
pub(crate) fn controller<R: ContainerRuntime>(
    options: &NodeOptions,
    capacity: Capacity,
    runtime: Arc<R>,
    jobs: Jobs,
    wake_ups: WakeUps,
) -> Controller {
    let agent = Arc::new(Agent {
        host: options.host(),
        capacity,
        runtime,
        jobs,
        wake: wake_ups.sender,
        state: Mutex::new(AgentState {
            pods: BTreeMap::new(),
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
                let pod = deletion.object().uid();
                agent_of_deleted.release(&pod);
                agent_of_deleted.runtime.forget(&pod);
                None
            }),
        )
        .watches(wake_ups.source, map(|pod: ObjectKey, _| Some(pod)))
        .workers(8)
        .elected(Elected::Everywhere)
        .reconcile(PodReconciler(agent))
}

/// The agent of one node.
struct Agent<R> {
    host: Ipv4Addr,
    capacity: Capacity,
    runtime: Arc<R>,
    jobs: Jobs,
    wake: Sender<ObjectKey>,
    state: Mutex<AgentState>,
}

/// What an agent knows of its pods.
struct AgentState {
    pods: BTreeMap<Uid, Arc<Mutex<PodRecord>>>,
    addresses: PodAddresses,
}

/// Reconciles a pod with the agent of its node.
struct PodReconciler<R>(Arc<Agent<R>>);

impl<R: ContainerRuntime> Reconcile<Pod> for PodReconciler<R> {
    async fn reconcile(&self, pod: Arc<Pod>, cx: Context) -> Result<Action> {
        let agent = &self.0;
        let now = cx.now();
        let observed = agent.runtime.observe(&pod, now);
        if pod.has_ended() && !is_active(&observed.runs) {
            agent.release(&pod.uid());
            // A finalizer may keep it, but no container does.
            if pod.is_being_deleted() {
                return delete(&pod, &cx).await;
            }
            return Ok(Action::done());
        }
        let record = agent.record(&pod, now);
        let step = next_step(
            &pod,
            &mut record.lock(),
            &observed.runs,
            &*agent.runtime,
            now,
        );
        let (next, is_terminating) = (step.next, step.is_terminating);
        let retried = agent.carry_out(&pod, &record, step, &cx).await;

        let Observed {
            runs,
            next: by_itself,
        } = agent.runtime.observe(&pod, now);
        let is_over = is_terminating && !is_active(&runs);
        let status = agent.status(&pod, &record.lock(), runs, is_over, now);
        cx.client().status(&*pod, |now| *now = status).await?;
        if pod.is_being_deleted() && is_over {
            return delete(&pod, &cx).await;
        }
        let times = [next, retried, by_itself].into_iter().flatten();
        Ok(match times.min() {
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

fn is_active(runs: &Runs) -> bool {
    runs.values().any(|runs| runs.current.is_active())
}

impl<R: ContainerRuntime> Agent<R> {
    /// The record of a pod. One that is new to this node is admitted, if it fits beside the others.
    fn record(&self, pod: &Pod, now: Timestamp) -> Arc<Mutex<PodRecord>> {
        let uid = pod.uid();
        let mut state = self.state.lock();
        if let Some(known) = state.pods.get(&uid) {
            return known.clone();
        }
        let demand = Demand::new(pod);
        let status = pod.status.as_ref();
        // The agent may have been restarted: what it reported before is in the pod's status.
        let acknowledged = status.and_then(|status| status.start_time.as_ref().map(|at| at.0));
        let reported = status.and_then(|status| status.pod_ip.as_deref());
        if let Some(address) = reported.and_then(|ip| ip.parse().ok()) {
            state.addresses.keep(&uid, address);
        }
        let rejection = match acknowledged {
            Some(_) => None,
            None => {
                let records = state.pods.values().map(|pod| pod.lock());
                let demands: Vec<Demand> = records
                    .filter(|record| record.rejection.is_none())
                    .map(|record| record.demand.clone())
                    .collect();
                demand.fits(demands.iter(), self.capacity).err()
            }
        };
        let host = self.host;
        let address = match pod.is_on_host_network() {
            true => Some(host),
            false if rejection.is_some() => None,
            false => {
                let allocated = state.addresses.allocate(&uid);
                self.runtime.pod_address(allocated, host)
            }
        };
        let record = Arc::new(Mutex::new(PodRecord {
            acknowledged: acknowledged.unwrap_or(now),
            address,
            demand,
            rejection,
            containers: BTreeMap::new(),
        }));
        state.pods.insert(uid, record.clone());
        record
    }

    /// Frees what a pod has of its node.
    fn release(&self, pod: &Uid) {
        let mut state = self.state.lock();
        state.pods.remove(pod);
        state.addresses.release(pod);
    }

    /// Does what is to be done; returns when a start that failed is looked at again.
    async fn carry_out(
        self: &Arc<Self>,
        pod: &Arc<Pod>,
        record: &Arc<Mutex<PodRecord>>,
        step: Step<'_>,
        cx: &Context,
    ) -> Option<Timestamp> {
        for (severity, reason, message) in step.events {
            cx.event(severity, reason, message);
        }
        for (container, signal) in step.signals {
            self.runtime.signal(pod, container, signal, cx.now());
        }
        for job in step.jobs {
            self.begin(pod, record, job, cx);
        }
        let mut next: Option<Timestamp> = None;
        for start in step.starts {
            let again = self.start(pod, record, &start, cx).await;
            next = [next, again].into_iter().flatten().min();
        }
        next
    }

    /// Starts a container; if that fails, returns when to look at it again.
    async fn start(
        &self,
        pod: &Pod,
        record: &Mutex<PodRecord>,
        start: &Start<'_>,
        cx: &Context,
    ) -> Option<Timestamp> {
        let container = start.container;
        let name = &container.name;
        let started = self.runtime.start(pod, container, start.attempt, cx).await;
        let now = cx.now();
        let mut record = record.lock();
        let known = record.containers.entry(name.clone()).or_default();
        match started {
            Ok(()) => {
                if let Some(exited) = start.exited {
                    known.backoff.restarted(exited, now);
                }
                known.failed_start = None;
                known.backs_off_until = None;
                cx.event(Normal, "Created", format!("Container created: {name}"));
                cx.event(Normal, "Started", format!("Container started: {name}"));
                None
            }
            Err(failure) => {
                let image = container.image.as_deref().unwrap_or_default();
                let message = match failure.reason {
                    "ErrImagePull" => {
                        format!("Failed to pull image {image:?}: {}", failure.message)
                    }
                    _ => format!("Error: {}", failure.message),
                };
                cx.event(Warning, "Failed", message);
                let failed = FailedStart::new(failure, known.failed_start.as_ref(), now);
                let next = failed.next(now);
                known.failed_start = Some(failed);
                Some(next)
            }
        }
    }

    /// Begins a job; the pod is reconciled again when it has ended.
    fn begin(
        self: &Arc<Self>,
        pod: &Arc<Pod>,
        record: &Arc<Mutex<PodRecord>>,
        job: Job<'_>,
        cx: &Context,
    ) {
        let ended = Ended {
            agent: self.clone(),
            pod: pod.clone(),
            record: record.clone(),
            cx: cx.clone(),
        };
        match job {
            Job::Probe(container, kind) => {
                let Some(probe) = kind.probe(container) else {
                    return;
                };
                let answer = self.runtime.probe(pod, container, probe, cx);
                let (name, run) = (container.name.clone(), ended.run_of(&container.name));
                let probe = probe.clone();
                self.jobs.add(Box::pin(async move {
                    let answer = answer.await;
                    if let Err(cause) = &answer {
                        let message = format!("{} probe failed: {cause}", kind.name());
                        ended.cx.event(Warning, "Unhealthy", message);
                    }
                    let answered =
                        |known: &mut ContainerRecord| known.probes.answered(kind, &probe, &answer);
                    ended.note(&name, &run, answered).await;
                }));
            }
            Job::PostStart(container, hook) => {
                let work = self.runtime.hook(pod, container, hook, cx);
                let (name, run) = (container.name.clone(), ended.run_of(&container.name));
                self.jobs.add(Box::pin(async move {
                    let done = match work {
                        Some(work) => work.await,
                        None => Ok(()),
                    };
                    if let Err(cause) = &done {
                        let message = format!("PostStartHook failed: {cause}");
                        ended.cx.event(Warning, "FailedPostStartHook", message);
                        ended.agent.kill(&ended.pod, &name, ended.cx.now());
                    }
                    ended
                        .note(&name, &run, |known| known.post_start = Some(Hook::Done))
                        .await;
                }));
            }
            Job::PreStop(container, hook) => {
                let work = self.runtime.hook(pod, container, hook, cx);
                let (name, run) = (container.name.clone(), ended.run_of(&container.name));
                self.jobs.add(Box::pin(async move {
                    let done = match work {
                        Some(work) => work.await,
                        None => Ok(()),
                    };
                    if let Err(cause) = &done {
                        let message = format!("PreStopHook failed: {cause}");
                        ended.cx.event(Warning, "FailedPreStopHook", message);
                    }
                    let done = |known: &mut ContainerRecord| {
                        if let Some(stopping) = &mut known.stopping {
                            stopping.hook = Hook::Done;
                        }
                    };
                    ended.note(&name, &run, done).await;
                }));
            }
        }
    }

    fn kill(&self, pod: &Pod, container: &str, now: Timestamp) {
        self.runtime.signal(pod, container, Signal::Kill, now);
    }

    /// The status of a pod as of now.
    fn status(
        &self,
        pod: &Pod,
        record: &PodRecord,
        runs: Runs,
        is_over: bool,
        now: Timestamp,
    ) -> k8s_openapi::api::core::v1::PodStatus {
        let runs = record.shown(runs, now);
        let is_late = deadline(pod, record).is_some_and(|deadline| deadline <= now);
        let ended = match &record.rejection {
            Some(rejection) => Some((rejection.reason, &*rejection.message)),
            None if is_late => Some((
                "DeadlineExceeded",
                "Pod was active on the node longer than the specified deadline",
            )),
            None => None,
        };
        let facts = Facts {
            runs: &runs,
            host_ip: self.host,
            pod_ip: record.address,
            acknowledged: record.acknowledged,
            ended,
            is_over,
        };
        let of_container = |name: &str| {
            let mut containers = pod.all_containers();
            let container = containers.find(|container| container.name == name);
            container
                .map(|container| record.facts(pod, container, &runs, now))
                .unwrap_or_default()
        };
        status::pod_status(pod, &facts, of_container, now)
    }
}

/// What the end of a job is noted in.
struct Ended<R> {
    agent: Arc<Agent<R>>,
    pod: Arc<Pod>,
    record: Arc<Mutex<PodRecord>>,
    cx: Context,
}

impl<R> Ended<R> {
    fn run_of(&self, container: &str) -> String {
        let record = self.record.lock();
        let known = record.containers.get(container);
        known.map(|known| known.run.clone()).unwrap_or_default()
    }

    /// Notes the end for the run that the job was about, if that is still the newest one.
    async fn note(&self, container: &str, run: &str, note: impl FnOnce(&mut ContainerRecord)) {
        if let Some(known) = self.record.lock().containers.get_mut(container)
            && known.run == run
        {
            note(known);
        }
        // A controller that has ended needs no wake-up.
        let _ = self.agent.wake.send(self.pod.key()).await;
    }
}
