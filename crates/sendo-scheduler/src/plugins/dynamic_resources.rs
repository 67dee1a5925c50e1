//! Claims of devices. None are allocated here: a pod that claims devices waits and says so.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`: `PreFilter`,
//!   `PostFilter`

use crate::framework::{
    Cycle, Diagnosis, Plugin, PostFilter, PreFilter, Profile, QueuedPod, Rejected,
};

/// Keeps pods that claim devices from being scheduled without them.
#[derive(Clone, Copy, Debug)]
pub struct DynamicResources;

/// That its `pre_filter` was called.
#[derive(Clone)]
struct Seen;

fn claims_devices(pod: &QueuedPod) -> bool {
    let spec = pod.pod.spec.as_ref();
    let claims = spec.and_then(|spec| spec.resource_claims.as_ref());
    claims.is_some_and(|claims| !claims.is_empty())
}

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn pre_filter(&self, cycle: &mut Cycle<'_>) -> Result<PreFilter, Rejected> {
        cycle.state.write(Seen);
        match claims_devices(cycle.pod) {
            false => Ok(PreFilter::Skip),
            true => Err(Rejected::unresolvable(
                "the pod claims devices, which this scheduler does not allocate",
            )),
        }
    }

    fn post_filter(&self, cycle: &Cycle<'_>, _: &Profile, _: &Diagnosis) -> Option<PostFilter> {
        // Where a plugin before this one rejects the pod as such, Kubernetes looks for what this
        // one would have computed, and says so.
        Some(PostFilter::Unchanged(match cycle.state.get::<Seen>() {
            None => Rejected::error("not found"),
            Some(_) => Rejected::unschedulable("no new claims to deallocate"),
        }))
    }
}
