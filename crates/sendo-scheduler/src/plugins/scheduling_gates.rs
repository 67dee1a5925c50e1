//! Gates: a pod that has any is not scheduled.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`: `PreEnqueue`

use crate::framework::{Plugin, QueuedPod, Rejected};

/// Keeps pods with gates out of the queue.
#[derive(Clone, Copy, Debug)]
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn pre_enqueue(&self, pod: &QueuedPod) -> Result<(), Rejected> {
        let spec = pod.pod.spec.iter();
        let gates: Vec<_> = spec
            .flat_map(|spec| spec.scheduling_gates.iter().flatten())
            .collect();
        if gates.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = gates.iter().map(|gate| gate.name.as_str()).collect();
        let message = format!("waiting for scheduling gates: [{}]", names.join(" "));
        Err(Rejected::unresolvable(message))
    }
}
