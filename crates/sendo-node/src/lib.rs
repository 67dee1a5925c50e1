//! The embedded cluster's node agent, written with `sendo` as any user would write it.
//!
//! [`agent`] declares the agent of one node: a heartbeat that registers the
//! [`Node`](k8s_openapi::api::core::v1::Node) and renews its lease, and, unless the
//! node runs nothing, a controller of the pods bound to it.
//!
//! The logic of pods (`kubelet`: what starts and stops next, restarts, probes, hooks, phases and
//! conditions) is the same whatever runs the containers; `runtime` is the interface between both.
//! In [`simulated`] containers nothing is executed: they start, run and exit in time, and
//! annotations of a pod choose how; [`usage`] says what they use.

mod actions;
mod addresses;
mod admission;
mod heartbeat;
mod jobs;
mod kubelet;
mod logs;
pub mod pod;
mod probes;
#[cfg(feature = "process")]
mod process;
mod restart;
mod runtime;
pub mod simulated;
mod status;
mod stop;
pub mod usage;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use sendo::{Manager, Right};
use sendo_apimachinery::quantity::Quantity;

use crate::admission::Capacity;
use crate::jobs::Jobs;
use crate::kubelet::WakeUps;
#[cfg(feature = "process")]
use crate::process::Processes;
use crate::runtime::ContainerRuntime;
use crate::simulated::Simulated;

pub use crate::logs::{LogOptions, NodeApi};

#[cfg(feature = "process")]
pub use crate::process::{ProcessOptions, container_process};

/// A node and its simulated capacity.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name, such as `node-0`.
    pub name: String,
    /// Its number, from which its addresses follow: the host's is `10.0.0.(number+1)`,
    /// those of its pods lie in `10.244.number.0/24`.
    pub number: u8,
    /// CPU capacity; 32 by default.
    pub cpu: String,
    /// Memory capacity; `256Gi` by default.
    pub memory: String,
    /// The maximum number of pods; 110 by default.
    pub pods: u32,
    /// What happens to the pods bound to it.
    pub runtime: Runtime,
}

/// What a node does with the pods bound to it.
#[derive(Clone, Debug)]
pub enum Runtime {
    /// Simulated containers: they start, run and terminate after the times in [`Pace`], but
    /// nothing is executed.
    Simulated(Pace),
    /// Processes of this machine, on its network and in its file system.
    #[cfg(feature = "process")]
    Process(ProcessOptions),
    /// Nothing: the node is ready and sends heartbeats; a test can take the part of the kubelet.
    None,
}

/// How long simulated containers take to start and to terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From creation to running: 50 ms by default.
    pub start: Duration,
    /// How long an init container runs until it succeeds: 100 ms by default.
    pub init: Duration,
    /// From the request to terminate to termination: 50 ms by default, never longer than the
    /// grace period.
    pub stop: Duration,
    /// How long the containers of a Job run until they succeed, unless the pod says otherwise; 1 s
    /// by default. See [`simulated`].
    pub job: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            start: Duration::from_millis(50),
            init: Duration::from_millis(100),
            stop: Duration::from_millis(50),
            job: Duration::from_secs(1),
        }
    }
}

impl NodeOptions {
    /// Node number `number`, named `node-number`, with the defaults of every field.
    pub fn new(number: u8) -> Self {
        NodeOptions {
            name: format!("node-{number}"),
            number,
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            pods: 110,
            runtime: Runtime::Simulated(Pace::default()),
        }
    }
}

/// The agent of one node, and what the API server asks it.
pub fn agent(options: &NodeOptions) -> (Manager, Option<NodeApi>) {
    let manager = Manager::new(&options.name)
        // Its rights are those that Kubernetes gives a node.
        .needs(Right::everything())
        .runnable(heartbeat::runnable(options.clone()));
    let (jobs, carries_out) = Jobs::new();
    let (manager, api) = match &options.runtime {
        Runtime::None => return (manager, None),
        Runtime::Simulated(pace) => {
            let runtime = Arc::new(Simulated::new(*pace));
            running(manager, options, runtime, jobs, WakeUps::new())
        }
        #[cfg(feature = "process")]
        Runtime::Process(process) => {
            let wake_ups = WakeUps::new();
            let wake = wake_ups.sender.clone();
            let runtime = Arc::new(Processes::new(process.clone(), jobs.clone(), wake));
            let ends = Processes::runnable(process.state.clone(), options.name.clone());
            running(manager.runnable(ends), options, runtime, jobs, wake_ups)
        }
    };
    (manager.runnable(carries_out), Some(api))
}

/// Adds the controller of the pods that a runtime runs.
fn running<R: ContainerRuntime>(
    manager: Manager,
    options: &NodeOptions,
    runtime: Arc<R>,
    jobs: Jobs,
    wake_ups: WakeUps,
) -> (Manager, NodeApi) {
    let api = NodeApi::new(runtime.clone());
    let controller = kubelet::controller(options, options.capacity(), runtime, jobs, wake_ups);
    (manager.caching(pod::cached()).controller(controller), api)
}

impl std::fmt::Display for NodeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cpu, {}, {} pods", self.cpu, self.memory, self.pods)?;
        match &self.runtime {
            #[cfg(feature = "process")]
            Runtime::Process(_) => {
                f.write_str(", which are plain processes on this machine's network")
            }
            _ => Ok(()),
        }
    }
}

impl NodeOptions {
    /// The same node with another runtime. One that runs processes has what this machine has.
    pub fn with_runtime(self, runtime: Runtime) -> Self {
        match &runtime {
            #[cfg(feature = "process")]
            Runtime::Process(_) => {
                let (cpu, memory) = crate::process::capacity_of_this_machine();
                NodeOptions {
                    cpu: cpu.unwrap_or(self.cpu),
                    memory: memory.unwrap_or(self.memory),
                    runtime,
                    ..self
                }
            }
            _ => NodeOptions { runtime, ..self },
        }
    }

    /// The address of its host: for processes that of this machine, else one of its own.
    fn host(&self) -> Ipv4Addr {
        match &self.runtime {
            #[cfg(feature = "process")]
            Runtime::Process(process) => process.address,
            _ => addresses::host(self.number),
        }
    }

    fn capacity(&self) -> Capacity {
        let amount = |text: &str| text.parse::<Quantity>().ok();
        Capacity {
            milli_cpu: amount(&self.cpu).map_or(0, |cpu| cpu.milli()),
            memory: amount(&self.memory).map_or(0, |memory| memory.units()),
            pods: self.pods.into(),
        }
    }
}
