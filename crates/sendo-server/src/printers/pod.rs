//! The table row of a Pod.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/printers/internalversion/printers.go`: `printPod`

use jiff::Timestamp;
use serde_json::Value;

use super::{Cells, or};
use crate::kinds::value::Read;

/// Name, Ready, Status, Restarts, Age; wide: IP, Node, Nominated Node, Readiness Gates.
pub(super) fn pod(cells: &Cells<'_>) -> Vec<Value> {
    let (spec, status) = (cells.spec(), cells.status());
    let summary = Summary::new(cells);
    let ip = status
        .items("podIPs")
        .first()
        .map_or("", |ip| ip.text("ip"));
    vec![
        cells.name(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts(cells, &summary.restarts).into(),
        cells.age(),
        or(ip, "<none>").into(),
        or(spec.text("nodeName"), "<none>").into(),
        or(status.text("nominatedNodeName"), "<none>").into(),
        readiness_gates(spec, status).into(),
    ]
}

fn restarts(cells: &Cells<'_>, restarts: &Restarts) -> String {
    match restarts.last {
        Some(last) if restarts.count != 0 => {
            let ago = super::human_duration(cells.now.duration_since(last));
            format!("{} ({ago} ago)", restarts.count)
        }
        _ => restarts.count.to_string(),
    }
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = spec.items("readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_open = |gate: &&Value| condition(status, gate.text("conditionType")) == Some("True");
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

/// The status of the first condition of a type.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let mut conditions = status.items("conditions").iter();
    conditions
        .find(|c| c.text("type") == kind)
        .map(|c| c.text("status"))
}

/// How often containers were restarted, and when last.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container.count("restartCount");
        let finished = container
            .at("lastState")
            .at("terminated")
            .text("finishedAt");
        if let Ok(finished) = finished.parse() {
            self.last = self.last.max(Some(finished));
        }
    }
}

/// What a row shows of the containers of a pod.
struct Summary {
    reason: String,
    containers: usize,
    ready: usize,
    restarts: Restarts,
}

impl Summary {
    fn new(cells: &Cells<'_>) -> Self {
        let (spec, status) = (cells.spec(), cells.status());
        let sidecars = spec
            .items("initContainers")
            .iter()
            .filter(|c| is_sidecar(c))
            .count();
        let mut summary = Summary {
            reason: or(status.text("reason"), status.text("phase")).to_owned(),
            containers: spec.items("containers").len() + sidecars,
            ready: 0,
            restarts: Restarts::default(),
        };
        let gated =
            |c: &Value| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
        if status.items("conditions").iter().any(gated) {
            summary.reason = "SchedulingGated".to_owned();
        }

        let of_sidecars = summary.initialisation(spec, status);
        if let Some(restarts) = of_sidecars {
            summary.restarts = restarts;
            summary.run(status);
        }

        let ended = matches!(status.text("phase"), "Succeeded" | "Failed");
        if cells.is_being_deleted() && status.text("reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if cells.is_being_deleted() && !ended {
            summary.reason = "Terminating".to_owned();
        }
        summary
    }

    /// Visits the init containers up to the first that has not completed.
    ///
    /// Returns the restarts of sidecars if the pod is initialized: from then on restarts of other
    /// init containers are not counted.
    fn initialisation(&mut self, spec: &Value, status: &Value) -> Option<Restarts> {
        let init_containers = spec.items("initContainers");
        let mut of_sidecars = Restarts::default();
        for (i, container) in status.items("initContainerStatuses").iter().enumerate() {
            let declared = init_containers
                .iter()
                .rfind(|c| c.text("name") == container.text("name"));
            let sidecar = declared.is_some_and(is_sidecar);
            self.restarts.add(container);
            if sidecar {
                of_sidecars.add(container);
            }
            let terminated = container.at("state").at("terminated");
            if terminated.is_object() && terminated.count("exitCode") == 0 {
                continue;
            }
            if sidecar && container.is_set("started") {
                self.ready += usize::from(container.is_set("ready"));
                continue;
            }
            let waiting = container.at("state").at("waiting").text("reason");
            self.reason = if terminated.is_object() {
                format!("Init:{}", end_reason(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{i}/{}", init_containers.len())
            };
            let initialised = condition(status, "Initialized") == Some("True");
            return initialised.then_some(of_sidecars);
        }
        Some(of_sidecars)
    }

    /// Visits the containers. The first one that is waiting with a reason or terminated determines
    /// the status.
    fn run(&mut self, status: &Value) {
        let mut running = false;
        let mut failure = None;
        for container in status.items("containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = container.at("state");
            let waiting = state.at("waiting").text("reason");
            let terminated = state.at("terminated");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if terminated.is_object() {
                self.reason = end_reason(terminated);
                if terminated.count("exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.is_set("ready") && state.at("running").is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = status.items("conditions").iter();
            let ready = ready
                .into_iter()
                .any(|c| c.text("type") == "Ready" && c.text("status") == "True");
            if running && ready {
                self.reason = "Running".to_owned();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

/// Why a container terminated: its reason, else its signal, else its exit code.
fn end_reason(terminated: &Value) -> String {
    let (reason, signal) = (terminated.text("reason"), terminated.count("signal"));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", terminated.count("exitCode"))
    }
}

fn is_sidecar(init_container: &Value) -> bool {
    init_container.text("restartPolicy") == "Always"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells_of(spec: Value, status: Value) -> Vec<Value> {
        let object = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
            "status": status,
        });
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        pod(&Cells {
            object: &object,
            now,
        })
    }

    fn two_containers() -> Value {
        json!({"containers": [{"name": "a"}, {"name": "b"}]})
    }

    #[test]
    fn a_new_pod_has_nothing_ready_and_shows_its_phase() {
        let cells = cells_of(two_containers(), json!({"phase": "Pending"}));
        assert_eq!(
            Value::from(cells),
            json!([
                "p", "0/2", "Pending", "0", "60m", "<none>", "<none>", "<none>", "<none>"
            ])
        );
    }

    #[test]
    fn the_status_follows_containers() {
        let running = json!({"ready": true, "state": {"running": {}}});
        let done = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let failed = json!({"state": {"terminated": {"exitCode": 2}}});
        let killed = json!({"state": {"terminated": {"exitCode": 137, "signal": 9}}});
        let crashing = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let cases = [
            (json!([&running, &running]), json!([]), "2/2", "Running"),
            (
                json!([&running, &crashing]),
                json!([]),
                "1/2",
                "CrashLoopBackOff",
            ),
            (
                json!([&crashing, &done]),
                json!([]),
                "0/2",
                "CrashLoopBackOff",
            ),
            (json!([&done, &failed]), json!([]), "0/2", "ExitCode:2"),
            (json!([&failed, &done]), json!([]), "0/2", "ExitCode:2"),
            (json!([&killed, &running]), json!([]), "1/2", "Signal:9"),
            (json!([&done, &running]), ready, "1/2", "Running"),
            (json!([&done, &running]), json!([]), "1/2", "NotReady"),
        ];
        for (containers, conditions, count, reason) in cases {
            let status = json!({"phase": "Running", "conditions": conditions, "containerStatuses": containers});
            let cells = cells_of(two_containers(), status.clone());
            assert_eq!([&cells[1], &cells[2]], [count, reason], "{status}");
        }
    }

    #[test]
    fn an_init_container_holds_the_status_until_it_is_done() {
        let spec = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
        let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
        let cases = [
            (
                json!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]),
                "Init:0/2",
            ),
            (
                json!([&done, {"name": "j", "state": {"running": {}}}]),
                "Init:1/2",
            ),
            (
                json!([&done, {"name": "j", "state": {"waiting": {"reason": "ErrImagePull"}}}]),
                "Init:ErrImagePull",
            ),
            (
                json!([&done, {"name": "j", "state": {"terminated": {"exitCode": 3}}}]),
                "Init:ExitCode:3",
            ),
            (
                json!([&done, {"name": "j", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
                "Init:Error",
            ),
        ];
        for (statuses, reason) in cases {
            let cells = cells_of(
                spec.clone(),
                json!({"phase": "Pending", "initContainerStatuses": statuses}),
            );
            assert_eq!(cells[2], reason);
        }
    }

    #[test]
    fn sidecars_count_as_containers() {
        let spec = json!({
            "containers": [{"name": "a"}],
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        });
        let sidecar = json!({"name": "s", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}});
        let container =
            json!({"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}});
        let cells = cells_of(
            spec,
            json!({"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [container]}),
        );
        assert_eq!([&cells[1], &cells[2], &cells[3]], ["2/2", "Running", "3"]);
    }

    #[test]
    fn restarts_say_when_the_last_one_was() {
        let container = json!({
            "restartCount": 2,
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:57:00Z"}},
            "state": {"running": {}},
        });
        let cells = cells_of(
            two_containers(),
            json!({"phase": "Running", "containerStatuses": [container]}),
        );
        assert_eq!(cells[3], "2 (3m ago)");
    }

    #[test]
    fn readiness_gates_count_those_that_are_open() {
        let spec = json!({"readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]});
        let cells = cells_of(
            spec,
            json!({"conditions": [{"type": "y", "status": "True"}]}),
        );
        assert_eq!(cells[8], "1/2");
    }
}
