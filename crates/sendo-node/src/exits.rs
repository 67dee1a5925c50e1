//! Which simulated containers exit by themselves, when, and with which code.
//!
//! The containers of a Job's pods succeed after [`Pace::job`](crate::Pace::job), unless the pod
//! always starts them again. All others run until they are terminated. Two annotations of a pod, or
//! of the pod template that it is made from, choose otherwise for its containers (init containers,
//! sidecars and ephemeral ones excepted):
//!
//! | annotation | meaning |
//! |---|---|
//! | `simulation.sendo.dev/run-for` | they exit after this time, such as `90s`; `forever`: they do not |
//! | `simulation.sendo.dev/exit-code` | they exit with this code: 0 is a success, the default |
//!
//! A pod with an exit code and no time runs for [`Pace::job`](crate::Pace::job). What follows is as
//! on a real node: by the pod's `restartPolicy` a container is started again, after a back-off that
//! doubles, or the pod has succeeded or failed.

use std::time::Duration;

use sendo::ObjectExt;
use sendo_apimachinery::duration::parse_duration;

use crate::Pace;
use crate::pod::Pod;

/// The annotation with the time after which a pod's containers exit.
pub const RUN_FOR: &str = "simulation.sendo.dev/run-for";
/// The annotation with the exit code of a pod's containers.
pub const EXIT_CODE: &str = "simulation.sendo.dev/exit-code";

/// How the containers of a pod exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// How long they run.
    pub after: Duration,
    /// Their exit code.
    pub code: i32,
    /// Whether they are started again.
    pub restarts: bool,
}

/// How the containers of the pod exit; `None` if they run until they are terminated. An annotation
/// that cannot be read counts as absent.
pub fn exit(pod: &Pod, pace: Pace) -> Option<Exit> {
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref());
    let policy = policy.unwrap_or("Always");
    let run_for = pod.annotation(RUN_FOR);
    let code = pod.annotation(EXIT_CODE).and_then(|code| code.parse().ok());
    let after = match run_for.and_then(parse_duration) {
        Some(after) => after,
        None if run_for == Some("forever") => return None,
        None if code.is_some() || (is_of_job(pod) && policy != "Always") => pace.job,
        None => return None,
    };
    let code = code.unwrap_or(0);
    let restarts = match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    Some(Exit {
        after,
        code,
        restarts,
    })
}

fn is_of_job(pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "Job")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn exit_of(policy: &str, owner: &str, annotations: Value) -> Option<(u64, i32, bool)> {
        let owner =
            json!({"apiVersion": "v1", "kind": owner, "name": "o", "uid": "1", "controller": true});
        let pod = json!({
            "metadata": {"annotations": annotations, "ownerReferences": [owner]},
            "spec": {"restartPolicy": policy},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let exit = exit(&pod, Pace::default())?;
        Some((exit.after.as_secs(), exit.code, exit.restarts))
    }

    #[test]
    fn the_pods_of_jobs_succeed() {
        assert_eq!(exit_of("Never", "Job", json!({})), Some((1, 0, false)));
        assert_eq!(exit_of("OnFailure", "Job", json!({})), Some((1, 0, false)));
        assert_eq!(exit_of("Always", "ReplicaSet", json!({})), None);
        assert_eq!(exit_of("Never", "Other", json!({})), None);
        assert_eq!(exit_of("Never", "Job", json!({RUN_FOR: "forever"})), None);
    }

    #[test]
    fn annotations_choose_time_and_code() {
        assert_eq!(
            exit_of("Never", "Job", json!({EXIT_CODE: "42"})),
            Some((1, 42, false))
        );
        assert_eq!(
            exit_of("OnFailure", "Job", json!({EXIT_CODE: "1"})),
            Some((1, 1, true))
        );
        assert_eq!(
            exit_of("Always", "ReplicaSet", json!({RUN_FOR: "2m"})),
            Some((120, 0, true))
        );
        assert_eq!(
            exit_of("Always", "ReplicaSet", json!({RUN_FOR: "soon"})),
            None
        );
    }
}
