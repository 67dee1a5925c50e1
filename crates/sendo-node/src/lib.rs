//! The embedded cluster's node agent, written with `sendo` as any user would write it.
//!
//! [`manager`] declares the agent of one node: a heartbeat that registers the
//! [`Node`](k8s_openapi::api::core::v1::Node) and renews its lease, and, unless the
//! node runs nothing, a controller of the pods bound to it.
//! The containers are simulated: [`simulation`] computes, as a pure function of a
//! pod's history and the time, what its status is and when it changes next. [`exits`]
//! says which containers exit by themselves, and how a pod's annotations choose that; [`usage`] says
//! what they use.

mod addresses;
pub mod exits;
mod heartbeat;
pub mod pod;
mod pods;
pub mod simulation;
mod status;
pub mod usage;

use std::time::Duration;

use sendo::{Manager, Right};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Simulated containers: they start, run and terminate after the times in [`Pace`], but
    /// nothing is executed.
    Simulated(Pace),
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
    /// by default. See [`exits`].
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

/// The agent of one node.
pub fn manager(options: &NodeOptions) -> Manager {
    let agent = Manager::new(&options.name)
        // Its rights are those that Kubernetes gives a node.
        .needs(Right::everything())
        .runnable(heartbeat::runnable(options.clone()));
    match options.runtime {
        Runtime::None => agent,
        Runtime::Simulated(pace) => agent
            .caching(pod::cached())
            .controller(pods::controller(options, pace)),
    }
}
