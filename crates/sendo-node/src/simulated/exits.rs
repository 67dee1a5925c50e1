//! Which simulated containers exit by themselves, when, and with which code.

use std::time::Duration;

use sendo::ObjectExt;
use sendo_apimachinery::duration::parse_duration;

use super::{EXIT_CODE, RUN_FOR};
use crate::Pace;
use crate::pod::Pod;
use crate::restart::pod_policy;

/// How the containers of a pod exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    /// How long they run.
    pub(super) after: Duration,
    /// Their exit code.
    pub(super) code: i32,
}

/// How the containers of the pod exit; `None` if they run until they are terminated. An annotation
/// that cannot be read counts as absent.
pub(super) fn exit(pod: &Pod, pace: Pace) -> Option<Exit> {
    let run_for = pod.annotation(RUN_FOR);
    let code = pod.annotation(EXIT_CODE).and_then(|code| code.parse().ok());
    let after = match run_for.and_then(parse_duration) {
        Some(after) => after,
        None if run_for == Some("forever") => return None,
        None if code.is_some() || (is_of_job(pod) && pod_policy(pod) != "Always") => pace.job,
        None => return None,
    };
    Some(Exit {
        after,
        code: code.unwrap_or(0),
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

    fn exit_of(policy: &str, owner: &str, annotations: Value) -> Option<(u64, i32)> {
        let owner =
            json!({"apiVersion": "v1", "kind": owner, "name": "o", "uid": "1", "controller": true});
        let pod = json!({
            "metadata": {"annotations": annotations, "ownerReferences": [owner]},
            "spec": {"restartPolicy": policy},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let exit = exit(&pod, Pace::default())?;
        Some((exit.after.as_secs(), exit.code))
    }

    #[test]
    fn the_pods_of_jobs_succeed() {
        assert_eq!(exit_of("Never", "Job", json!({})), Some((1, 0)));
        assert_eq!(exit_of("OnFailure", "Job", json!({})), Some((1, 0)));
        assert_eq!(exit_of("Always", "ReplicaSet", json!({})), None);
        assert_eq!(exit_of("Never", "Other", json!({})), None);
        assert_eq!(exit_of("Never", "Job", json!({RUN_FOR: "forever"})), None);
    }

    #[test]
    fn annotations_choose_time_and_code() {
        assert_eq!(
            exit_of("Never", "Job", json!({EXIT_CODE: "42"})),
            Some((1, 42))
        );
        assert_eq!(
            exit_of("OnFailure", "Job", json!({EXIT_CODE: "1"})),
            Some((1, 1))
        );
        assert_eq!(
            exit_of("Always", "ReplicaSet", json!({RUN_FOR: "2m"})),
            Some((120, 0))
        );
        assert_eq!(
            exit_of("Always", "ReplicaSet", json!({RUN_FOR: "soon"})),
            None
        );
    }
}
