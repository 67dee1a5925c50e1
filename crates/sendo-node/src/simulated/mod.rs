//! Simulated containers: they start, run, exit and terminate in time, and nothing is executed.
//!
//! When a container is started, the times of its life are set; so the state at any time is a
//! function of these, and an agent that restarts finds them in the pod's status.
//!
//! The containers of a Job's pods succeed after [`Pace::job`](crate::Pace::job), unless the pod
//! always starts them again. All others run until they are terminated. Annotations of a pod, or of
//! the pod template that it is made from, choose otherwise. The first two are about its containers,
//! init containers, sidecars and ephemeral ones excepted; the others are about all of them:
//!
//! | annotation | meaning |
//! |---|---|
//! | [`RUN_FOR`] `simulation.sendo.dev/run-for` | they exit after this time, such as `90s`; `forever`: they do not |
//! | [`EXIT_CODE`] `simulation.sendo.dev/exit-code` | they exit with this code: 0 is a success, the default |
//! | [`START_AFTER`] `simulation.sendo.dev/start-after` | they take this time to start |
//! | [`STOP_AFTER`] `simulation.sendo.dev/stop-after` | they take this time to terminate, or are killed before |
//! | [`FAILING_PROBES`] `simulation.sendo.dev/failing-probes` | these probes fail, such as `readiness,web/liveness`: kinds, of one container where it is named; the others succeed |
//! | [`UNPULLABLE_IMAGES`] `simulation.sendo.dev/unpullable-images` | these images cannot be pulled: names separated by commas, in which `*` stands for anything |
//! | [`LOGS`] `simulation.sendo.dev/logs` | what they have written to their logs |
//!
//! A pod with an exit code and no time runs for [`Pace::job`](crate::Pace::job). What follows is as
//! on a real node: by the restart policy a container is started again, after a back-off that
//! doubles, or the pod has succeeded or failed. An annotation that cannot be read counts as absent.

mod exits;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use k8s_openapi::api::core::v1::{ContainerStatus, LifecycleHandler, Probe};
use parking_lot::Mutex;
use sendo::{Context, ObjectExt, Timestamp, Uid};
use sendo_apimachinery::duration::parse_duration;

use crate::Pace;
use crate::pod::{Container, Pod};
use crate::runtime::{
    ContainerRuns, ContainerRuntime, Exit, LogReader, Observed, ProbeAnswer, ProbeKind, Run,
    RunState, Signal, StartFailure,
};

/// The annotation with the time after which a pod's containers exit.
pub const RUN_FOR: &str = "simulation.sendo.dev/run-for";
/// The annotation with the exit code of a pod's containers.
pub const EXIT_CODE: &str = "simulation.sendo.dev/exit-code";
/// The annotation with the time that a pod's containers take to start.
pub const START_AFTER: &str = "simulation.sendo.dev/start-after";
/// The annotation with the time that a pod's containers take to terminate.
pub const STOP_AFTER: &str = "simulation.sendo.dev/stop-after";
/// The annotation with the probes that fail.
pub const FAILING_PROBES: &str = "simulation.sendo.dev/failing-probes";
/// The annotation with the images that cannot be pulled.
pub const UNPULLABLE_IMAGES: &str = "simulation.sendo.dev/unpullable-images";
/// The annotation with what a pod's containers have written to their logs.
pub const LOGS: &str = "simulation.sendo.dev/logs";

/// The simulated containers of one node.
pub(crate) struct Simulated {
    pace: Pace,
    pods: Mutex<BTreeMap<Uid, BTreeMap<String, SimulatedRun>>>,
}

/// A run whose times are set.
#[derive(Clone, Debug)]
struct SimulatedRun {
    attempt: i32,
    image: String,
    started: Timestamp,
    /// When it ends, and with which exit code, as far as a signal or the past has settled that.
    end: Option<(Timestamp, i32)>,
    /// The run before it.
    last: Option<Box<SimulatedRun>>,
}

impl Simulated {
    pub(crate) fn new(pace: Pace) -> Self {
        Simulated {
            pace,
            pods: Mutex::default(),
        }
    }

    /// Calls `change` with the runs of a pod. Those of a pod that is not known are read from its
    /// status: an agent before this one reported them.
    fn with_runs<T>(
        &self,
        pod: &Pod,
        change: impl FnOnce(&mut BTreeMap<String, SimulatedRun>) -> T,
    ) -> T {
        let mut pods = self.pods.lock();
        let runs = pods.entry(pod.uid());
        change(runs.or_insert_with(|| reported(pod)))
    }
}

fn annotated_time(pod: &Pod, annotation: &str) -> Option<Duration> {
    pod.annotation(annotation).and_then(parse_duration)
}

/// How long a container runs by itself, and its exit code then.
fn own_end(pod: &Pod, container: &str, pace: Pace) -> Option<(Duration, i32)> {
    let is_in = |list: &[Container]| list.iter().find(|own| own.name == container).cloned();
    if let Some(init) = is_in(pod.init_containers()) {
        return (!init.is_sidecar()).then_some((pace.init, 0));
    }
    is_in(pod.containers())?;
    let exit = exits::exit(pod, pace)?;
    Some((exit.after, exit.code))
}

/// The runs that the status of a pod tells of.
fn reported(pod: &Pod) -> BTreeMap<String, SimulatedRun> {
    let Some(status) = &pod.status else {
        return BTreeMap::new();
    };
    let lists = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let statuses = lists.into_iter().flatten().flatten();
    let runs = statuses.filter_map(|status| {
        let run = reported_run(status)?;
        Some((status.name.clone(), run))
    });
    runs.collect()
}

fn reported_run(status: &ContainerStatus) -> Option<SimulatedRun> {
    let ended = |state: Option<&k8s_openapi::api::core::v1::ContainerState>, attempt| {
        let end = state?.terminated.as_ref()?;
        let finished = end.finished_at.as_ref()?.0;
        Some(SimulatedRun {
            attempt,
            image: status.image.clone(),
            started: end.started_at.as_ref().map_or(finished, |at| at.0),
            end: Some((finished, end.exit_code)),
            last: None,
        })
    };
    let attempt = status.restart_count;
    let last = ended(status.last_state.as_ref(), attempt - 1);
    let state = status.state.as_ref()?;
    if let Some(running) = &state.running {
        let started = running.started_at.as_ref()?.0;
        return Some(SimulatedRun {
            attempt,
            image: status.image.clone(),
            started,
            end: None,
            last: last.map(Box::new),
        });
    }
    match ended(Some(state), attempt) {
        Some(ended) => Some(SimulatedRun {
            last: last.map(Box::new),
            ..ended
        }),
        // It waits for its next run.
        None => last.map(|last| SimulatedRun { attempt, ..last }),
    }
}

impl SimulatedRun {
    /// Settles an end that has passed: what the pod's annotations say later does not change it.
    fn settle(&mut self, own: Option<(Duration, i32)>, now: Timestamp) {
        let own = own.map(|(after, code)| (self.started + after, code));
        let end = [self.end, own].into_iter().flatten().min();
        self.end = end.filter(|(at, _)| *at <= now).or(self.end);
    }

    fn at(&self, pod: &Uid, container: &str, now: Timestamp) -> Run {
        let state = match self.end {
            _ if now < self.started => RunState::Created,
            Some((finished, code)) if finished <= now => {
                RunState::Exited(Exit::with_code(self.started, finished, code))
            }
            _ => RunState::Running {
                since: self.started,
            },
        };
        Run {
            id: format!("simulated://{pod}/{container}/{}", self.attempt),
            image_id: format!("simulated://{}", self.image),
            attempt: self.attempt,
            state,
        }
    }

    /// When its state changes next, if it ends by itself after `own`.
    fn next(&self, own: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
        let end = self.end.map(|(end, _)| end);
        let by_itself = own.map(|after| self.started + after);
        let has_ended = end.is_some_and(|end| end <= now);
        let times = [Some(self.started), end, by_itself].into_iter().flatten();
        times.filter(|time| *time > now && !has_ended).min()
    }
}

impl ContainerRuntime for Simulated {
    fn observe(&self, pod: &Pod, now: Timestamp) -> Observed {
        let uid = pod.uid();
        self.with_runs(pod, |runs| {
            let mut observed = Observed::default();
            for (name, run) in runs {
                let own = own_end(pod, name, self.pace);
                run.settle(own, now);
                let next = run.next(own.map(|(after, _)| after), now);
                observed.next = [observed.next, next].into_iter().flatten().min();
                let runs = ContainerRuns {
                    current: run.at(&uid, name, now),
                    last: run.last.as_ref().map(|last| last.at(&uid, name, now)),
                };
                observed.runs.insert(name.clone(), runs);
            }
            observed
        })
    }

    async fn start(
        &self,
        pod: &Pod,
        container: &Container,
        attempt: i32,
        cx: &Context,
    ) -> Result<(), StartFailure> {
        let image = container.image.clone().unwrap_or_default();
        let patterns = pod.annotation(UNPULLABLE_IMAGES).unwrap_or_default();
        if patterns
            .split(',')
            .any(|pattern| matches(pattern.trim(), &image))
        {
            return Err(StartFailure {
                reason: "ErrImagePull",
                message: format!(
                    "failed to pull image {image:?}: the annotation {UNPULLABLE_IMAGES} of the pod has it fail"
                ),
            });
        }
        let delay = annotated_time(pod, START_AFTER).unwrap_or(self.pace.start);
        let started = cx.now() + delay;
        self.with_runs(pod, |runs| {
            let last = runs.remove(&container.name);
            let run = SimulatedRun {
                attempt,
                image,
                started,
                end: None,
                last: last.map(|last| Box::new(SimulatedRun { last: None, ..last })),
            };
            runs.insert(container.name.clone(), run);
        });
        Ok(())
    }

    fn signal(&self, pod: &Pod, container: &str, signal: Signal, now: Timestamp) {
        let stop = annotated_time(pod, STOP_AFTER).unwrap_or(self.pace.stop);
        let end = match signal {
            Signal::Terminate => (now + stop, 143),
            Signal::Kill => (now, 137),
        };
        self.with_runs(pod, |runs| {
            let Some(run) = runs.get_mut(container) else {
                return;
            };
            if run.started > now {
                // It never starts.
                match run.last.take() {
                    Some(last) => *run = *last,
                    None => drop(runs.remove(container)),
                }
            } else if run.end.is_none_or(|(own, _)| own > end.0) {
                run.end = Some(end);
            }
        });
    }

    fn declared_answer(
        &self,
        pod: &Pod,
        container: &Container,
        kind: ProbeKind,
    ) -> Option<ProbeAnswer> {
        let kind = kind.name().to_ascii_lowercase();
        let failing = pod.annotation(FAILING_PROBES).unwrap_or_default();
        let fails = failing
            .split(',')
            .any(|probe| match probe.trim().split_once('/') {
                Some((name, probe)) => name == container.name && probe == kind,
                None => probe.trim() == kind,
            });
        Some(match fails {
            true => Err(format!("the annotation {FAILING_PROBES} has it fail")),
            false => Ok(()),
        })
    }

    fn probe(
        &self,
        pod: &Pod,
        container: &Container,
        probe: &Probe,
        _: &Context,
    ) -> BoxFuture<'static, ProbeAnswer> {
        let kinds = ProbeKind::ALL.into_iter();
        let mut asked = kinds.filter(|kind| kind.probe(container) == Some(probe));
        let answer = asked
            .next()
            .and_then(|kind| self.declared_answer(pod, container, kind));
        ready(answer.unwrap_or(Ok(()))).boxed()
    }

    fn hook(
        &self,
        _: &Pod,
        _: &Container,
        _: &LifecycleHandler,
        _: &Context,
    ) -> Option<BoxFuture<'static, Result<(), String>>> {
        None
    }

    fn log(&self, pod: &Pod, _: &str, run: &Run) -> Box<dyn LogReader> {
        let since = match &run.state {
            RunState::Created => None,
            RunState::Running { since } => Some(*since),
            RunState::Exited(exit) => Some(exit.started),
        };
        let text = pod.annotation(LOGS).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| Some(format!("{:.9} stdout F {line}\n", since?)));
        Box::new(DeclaredLog(lines.collect()))
    }

    fn pod_address(&self, allocated: Option<Ipv4Addr>, _: Ipv4Addr) -> Option<Ipv4Addr> {
        allocated
    }

    fn forget(&self, pod: &Uid) {
        self.pods.lock().remove(pod);
    }
}

/// A log that was written when its container started.
struct DeclaredLog(String);

impl LogReader for DeclaredLog {
    fn read(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).into_bytes()
    }
}

/// Whether a text is as the pattern says, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty() && !pattern.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
