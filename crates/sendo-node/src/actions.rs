//! Which containers of a pod start and stop next: a pure function of the pod, its containers' runs
//! and what probes found.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/kubelet/kuberuntime/kuberuntime_manager.go`: `computePodActions`
//! - `pkg/kubelet/kuberuntime/kuberuntime_container.go`: `computeInitContainerActions`

use crate::pod::{Container, Pod};
use crate::restart::{pod_policy, should_start};
use crate::runtime::{ProbeKind, Run, RunState, Runs};

/// What probes found of a running container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) startup: Startup,
    /// Whether the liveness probe has failed.
    pub(crate) is_dead: bool,
    /// Whether it was stopped to be started again, so that its exit code does not matter.
    pub(crate) restart_is_due: bool,
}

/// What a startup probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Startup {
    /// The container has started, or has no such probe.
    Started,
    /// Nothing yet.
    Unknown,
    /// It has failed too often.
    Failed,
}

/// What happens next to the containers of a pod.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Actions<'p> {
    /// The containers to start, in this order.
    pub(crate) start: Vec<&'p Container>,
    /// The containers to stop.
    pub(crate) stop: Vec<StopContainer<'p>>,
    /// All that runs is to be stopped, because the pod has ended.
    pub(crate) stop_pod: bool,
}

/// A running container that is to be stopped.
#[derive(Debug, PartialEq)]
pub(crate) struct StopContainer<'p> {
    pub(crate) container: &'p Container,
    /// Whether it is started again then, whatever its exit code.
    pub(crate) restart: bool,
    /// Which probe failed, as an event says it.
    pub(crate) message: String,
    /// How long it may take, if the probe says so.
    pub(crate) grace_seconds: Option<i64>,
}

/// What happens next, with what probes found of each running container.
pub(crate) fn actions<'p>(
    pod: &'p Pod,
    runs: &Runs,
    health: impl Fn(&Container) -> Health,
) -> Actions<'p> {
    let mut actions = Actions::default();
    let run = |container: &Container| runs.get(&container.name).map(|runs| &runs.current);
    let ephemeral = pod.ephemeral_containers().iter();
    // They wait for no other container, and are never started again.
    actions
        .start
        .extend(ephemeral.filter(|container| run(container).is_none()));
    let has_ended = |container: &Container| {
        let run = run(container).filter(|run| !run.is_active());
        run.is_some() && !should_start(pod, container, run) && !health(container).restart_is_due
    };
    if !pod.containers().is_empty() && pod.containers().iter().all(has_ended) {
        // No sidecar keeps the pod alive.
        actions.stop_pod = true;
        return actions;
    }
    let is_initialized = init_actions(pod, runs, &health, &mut actions);
    if actions.stop_pod || !is_initialized {
        return actions;
    }
    let mut kept = 0;
    let mut started = 0;
    for container in pod.containers() {
        match run(container) {
            Some(run) if run.is_active() => match failure(run, health(container)) {
                None => kept += 1,
                Some(failed) => {
                    let policy = container.restart_policy.as_deref();
                    let restart = policy.unwrap_or(pod_policy(pod)) != "Never";
                    started += usize::from(restart);
                    actions
                        .stop
                        .push(stop(container, "Container", failed, restart));
                }
            },
            run if should_start(pod, container, run) || health(container).restart_is_due => {
                started += 1;
                actions.start.push(container);
            }
            _ => {}
        }
    }
    if kept == 0 && started == 0 {
        actions.stop_pod = true;
        actions.start.clear();
    }
    actions
}

fn stop<'p>(
    container: &'p Container,
    what: &str,
    failed: ProbeKind,
    restart: bool,
) -> StopContainer<'p> {
    let then = if restart { ", will be restarted" } else { "" };
    let probe = failed.name().to_ascii_lowercase();
    StopContainer {
        container,
        restart,
        message: format!("{what} {} failed {probe} probe{then}", container.name),
        grace_seconds: failed
            .probe(container)
            .and_then(|probe| probe.termination_grace_period_seconds),
    }
}

/// The probe for whose failure a container is stopped.
fn failure(run: &Run, health: Health) -> Option<ProbeKind> {
    if !run.is_running() {
        return None;
    }
    match health {
        Health { is_dead: true, .. } => Some(ProbeKind::Liveness),
        Health {
            startup: Startup::Failed,
            ..
        } => Some(ProbeKind::Startup),
        _ => None,
    }
}

/// Adds what happens to the init containers; returns whether the containers may start.
///
/// They are looked at from the last to the first: what a later one shows, the earlier ones have
/// done.
fn init_actions<'p>(
    pod: &'p Pod,
    runs: &Runs,
    health: impl Fn(&Container) -> Health,
    actions: &mut Actions<'p>,
) -> bool {
    let init = pod.init_containers();
    if init.is_empty() {
        return true;
    }
    let run = |container: &Container| runs.get(&container.name).map(|runs| &runs.current);
    let is_active = |container| run(container).is_some_and(Run::is_active);
    let mut is_initialized = pod.containers().iter().any(is_active);
    let mut has_begun = is_initialized;
    let mut start = Vec::new();
    for (index, container) in init.iter().enumerate().rev() {
        let Some(run) = run(container) else {
            if has_begun && container.is_sidecar() {
                start.push(container);
            }
            continue;
        };
        if has_begun && !container.is_sidecar() {
            continue;
        }
        let is_done = match &run.state {
            RunState::Created => false,
            RunState::Running { .. } if container.is_sidecar() => {
                let health = health(container);
                if let Some(failed) = failure(run, health) {
                    actions
                        .stop
                        .push(stop(container, "Init container", failed, true));
                }
                health.startup == Startup::Started
            }
            RunState::Running { .. } => false,
            RunState::Exited(_) if container.is_sidecar() => {
                start.push(container);
                false
            }
            RunState::Exited(exit) if exit.code == 0 => true,
            RunState::Exited(_) if should_start(pod, container, Some(run)) => {
                start.push(container);
                false
            }
            RunState::Exited(_) => {
                actions.stop_pod = true;
                return false;
            }
        };
        if is_done {
            match init.get(index + 1) {
                None => is_initialized = true,
                Some(next) if !has_begun => start.push(next),
                Some(_) => {}
            }
        }
        has_begun = true;
    }
    if !has_begun {
        start.push(&init[0]);
    }
    start.reverse();
    actions.start.extend(start);
    is_initialized
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{ContainerRuns, Exit};
    use sendo::Timestamp;
    use serde_json::{Value, json};

    const WELL: Health = Health {
        startup: Startup::Started,
        is_dead: false,
        restart_is_due: false,
    };

    fn pod(policy: &str, init: Value, containers: Value) -> Pod {
        let spec =
            json!({"restartPolicy": policy, "initContainers": init, "containers": containers});
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn named(names: &[&str]) -> Value {
        names.iter().map(|name| json!({"name": name})).collect()
    }

    /// Runs by name: `run` runs, `new` is created, a number is an exit code.
    fn runs(states: &[(&str, &str)]) -> Runs {
        let at = Timestamp::UNIX_EPOCH;
        let run = |state: &str| Run {
            id: String::new(),
            image_id: String::new(),
            attempt: 0,
            state: match state {
                "run" => RunState::Running { since: at },
                "new" => RunState::Created,
                code => RunState::Exited(Exit::with_code(at, at, code.parse().unwrap())),
            },
        };
        let runs = states.iter().map(|(name, state)| {
            let runs = ContainerRuns {
                current: run(state),
                last: None,
            };
            ((*name).to_owned(), runs)
        });
        runs.collect()
    }

    /// What is started, what is stopped, and whether the pod is.
    fn next(pod: &Pod, states: &[(&str, &str)]) -> (Vec<String>, Vec<String>, bool) {
        next_with(pod, states, |_| WELL)
    }

    fn next_with(
        pod: &Pod,
        states: &[(&str, &str)],
        health: impl Fn(&Container) -> Health,
    ) -> (Vec<String>, Vec<String>, bool) {
        let actions = actions(pod, &runs(states), health);
        let started = actions.start.iter().map(|c| c.name.clone()).collect();
        let stopped = actions.stop.iter().map(|stop| stop.message.clone());
        (started, stopped.collect(), actions.stop_pod)
    }

    fn started(names: &[&str]) -> (Vec<String>, Vec<String>, bool) {
        let names = names.iter().map(|name| (*name).to_owned());
        (names.collect(), Vec::new(), false)
    }

    #[test]
    fn init_containers_run_one_after_the_other_and_then_the_containers() {
        let pod = pod("Always", named(&["a", "b"]), named(&["main", "second"]));
        assert_eq!(next(&pod, &[]), started(&["a"]));
        assert_eq!(next(&pod, &[("a", "run")]), started(&[]));
        assert_eq!(next(&pod, &[("a", "1")]), started(&["a"]));
        assert_eq!(next(&pod, &[("a", "0")]), started(&["b"]));
        let done = [("a", "0"), ("b", "0")];
        assert_eq!(next(&pod, &done), started(&["main", "second"]));
        let one_runs = [("a", "0"), ("b", "0"), ("main", "run"), ("second", "1")];
        assert_eq!(next(&pod, &one_runs), started(&["second"]));
    }

    #[test]
    fn an_init_container_that_fails_for_good_ends_the_pod() {
        let pod = pod("Never", named(&["a"]), named(&["main"]));
        assert_eq!(next(&pod, &[("a", "1")]), (vec![], vec![], true));
    }

    #[test]
    fn containers_wait_for_the_start_of_a_sidecar_and_not_for_its_end() {
        let sidecar = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "a"}]);
        let pod = pod("Never", sidecar, named(&["main"]));
        assert_eq!(next(&pod, &[]), started(&["s"]));
        assert_eq!(next(&pod, &[("s", "new")]), started(&[]));
        assert_eq!(next(&pod, &[("s", "run")]), started(&["a"]));
        let unknown = |_: &Container| Health {
            startup: Startup::Unknown,
            ..WELL
        };
        assert_eq!(next_with(&pod, &[("s", "run")], unknown), started(&[]));
        let initialized = [("s", "run"), ("a", "0")];
        assert_eq!(next(&pod, &initialized), started(&["main"]));
        let exited = [("s", "1"), ("a", "0"), ("main", "run")];
        assert_eq!(next(&pod, &exited), started(&["s"]));
    }

    #[test]
    fn a_pod_whose_containers_have_ended_stops_its_sidecars() {
        let sidecar = json!([{"name": "s", "restartPolicy": "Always"}]);
        let pod = pod("Never", sidecar, named(&["main"]));
        let ended = [("s", "run"), ("main", "0")];
        assert_eq!(next(&pod, &ended), (vec![], vec![], true));
        let sidecar_too = [("s", "1"), ("main", "0")];
        assert_eq!(next(&pod, &sidecar_too), (vec![], vec![], true));
    }

    #[test]
    fn a_container_whose_probe_fails_is_stopped_and_started_again() {
        let dead = |_: &Container| Health {
            is_dead: true,
            ..WELL
        };
        let message = "Container main failed liveness probe";
        let always = pod("Always", json!([]), named(&["main"]));
        let restarted = vec![format!("{message}, will be restarted")];
        let running = [("main", "run")];
        assert_eq!(
            next_with(&always, &running, dead),
            (vec![], restarted, false)
        );
        let never = pod("Never", json!([]), named(&["main"]));
        let stopped = (vec![], vec![message.to_owned()], true);
        assert_eq!(next_with(&never, &running, dead), stopped);
        // It exited with success, which the policy alone would not restart.
        let due = |_: &Container| Health {
            restart_is_due: true,
            ..WELL
        };
        let on_failure = pod("OnFailure", json!([]), named(&["main"]));
        assert_eq!(
            next_with(&on_failure, &[("main", "0")], due),
            started(&["main"])
        );
    }

    #[test]
    fn ephemeral_containers_wait_for_nothing_and_run_once() {
        let mut pod = pod("Always", named(&["a"]), named(&["main"]));
        let debugger = serde_json::from_value(named(&["debugger"])).unwrap();
        pod.spec.as_mut().unwrap().ephemeral_containers = Some(debugger);
        assert_eq!(next(&pod, &[("a", "run")]), started(&["debugger"]));
        assert_eq!(next(&pod, &[("a", "run"), ("debugger", "1")]), started(&[]));
    }
}
