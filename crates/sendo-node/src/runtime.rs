//! The interface between the logic of pods and what runs their containers.
//!
//! The logic of pods (`kubelet`) decides what starts and stops and what a pod's
//! status is. A [`ContainerRuntime`] starts containers, signals them and says what has become of them.
//! Nothing waits for a container: a runtime is asked to start or stop one, and [`ContainerRuntime::observe`]
//! tells later that it has.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{LifecycleHandler, Probe};
use sendo::{Context, Timestamp};

use crate::pod::{Container, Pod};

/// One run of a container: it is started at most once, and when it has exited, another run follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The identifier of the run, with the name of the runtime: `simulated://…`.
    pub(crate) id: String,
    /// What the image resolved to.
    pub(crate) image_id: String,
    /// How many runs came before it.
    pub(crate) attempt: i32,
    pub(crate) state: RunState,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    /// It was asked for, and has not started yet.
    Created,
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// It has ended.
    Exited(Exit),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
    /// The exit code; 128 and the signal's number for one that a signal ended.
    pub(crate) code: i32,
    /// `Completed`, `Error`, or what else the runtime knows.
    pub(crate) reason: String,
    /// What the container left as its last message.
    pub(crate) message: Option<String>,
}

impl Exit {
    /// An exit with the reason that its code implies.
    pub(crate) fn with_code(started: Timestamp, finished: Timestamp, code: i32) -> Self {
        Exit {
            started,
            finished,
            code,
            reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
            message: None,
        }
    }
}

impl Run {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }

    /// Whether it runs or will.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.state, RunState::Exited(_))
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            RunState::Exited(exit) => Some(exit),
            _ => None,
        }
    }
}

/// The newest run of a container, and how the one before it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRuns {
    pub(crate) current: Run,
    pub(crate) last: Option<Run>,
}

/// The runs of a pod's containers, by the containers' names.
pub(crate) type Runs = BTreeMap<String, ContainerRuns>;

/// What a runtime knows of a pod at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) runs: Runs,
    /// When this changes without a notice of the runtime; `None`: the pod is woken when it does.
    pub(crate) next: Option<Timestamp>,
}

/// Why a container could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartFailure {
    /// The reason in the container's status, such as `ErrImagePull`.
    pub(crate) reason: &'static str,
    /// The cause, with what helps.
    pub(crate) message: String,
}

/// A signal to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Asks it to terminate.
    Terminate,
    /// Ends it.
    Kill,
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeKind {
    /// Whether the container has started.
    Startup,
    /// Whether it has to be started again.
    Liveness,
    /// Whether it serves.
    Readiness,
}

impl ProbeKind {
    /// All kinds, in the order in which they gate each other.
    pub(crate) const ALL: [ProbeKind; 3] = [
        ProbeKind::Startup,
        ProbeKind::Liveness,
        ProbeKind::Readiness,
    ];

    /// Its name in events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        }
    }

    /// The probe of this kind that a container has.
    pub(crate) fn probe(self, container: &Container) -> Option<&Probe> {
        let probe = match self {
            ProbeKind::Startup => &container.startup_probe,
            ProbeKind::Liveness => &container.liveness_probe,
            ProbeKind::Readiness => &container.readiness_probe,
        };
        probe.as_deref()
    }
}

/// The answer to a probe: success, or what failed.
pub(crate) type ProbeAnswer = Result<(), String>;

/// Runs containers.
pub(crate) trait ContainerRuntime: Send + Sync + Sized + 'static {
    /// The containers of a pod at `now`. Those that an earlier process of this node started are
    /// found again.
    fn observe(&self, pod: &Pod, now: Timestamp) -> Observed;

    /// Asks for a run of a container that has none, or whose last one has exited.
    ///
    /// Dropping the future leaves a run that [`observe`](Self::observe) shows, or none.
    fn start(
        &self,
        pod: &Pod,
        container: &Container,
        attempt: i32,
        cx: &Context,
    ) -> impl Future<Output = Result<(), StartFailure>> + Send;

    /// Signals the newest run of a container, if it has not exited.
    fn signal(&self, pod: &Pod, container: &str, signal: Signal, now: Timestamp);

    /// What a probe answers from now on until the pod changes, where that is declared. `None`: the
    /// probe has to be carried out.
    fn declared_answer(
        &self,
        pod: &Pod,
        container: &Container,
        kind: ProbeKind,
    ) -> Option<ProbeAnswer>;

    /// Carries out a probe. It takes no longer than the probe's `timeoutSeconds`.
    fn probe(
        &self,
        pod: &Pod,
        container: &Container,
        probe: &Probe,
        cx: &Context,
    ) -> BoxFuture<'static, ProbeAnswer>;

    /// Carries out a hook other than `sleep`; `None` if there is nothing to wait for.
    fn hook(
        &self,
        pod: &Pod,
        container: &Container,
        hook: &LifecycleHandler,
        cx: &Context,
    ) -> Option<BoxFuture<'static, Result<(), String>>>;

    /// The log of a run that [`observe`](Self::observe) shows.
    fn log(&self, pod: &Pod, container: &str, run: &Run) -> Box<dyn LogReader>;

    /// The address of a pod that has a network of its own; `allocated` is one of the node's range.
    fn pod_address(&self, allocated: Option<Ipv4Addr>, host: Ipv4Addr) -> Option<Ipv4Addr>;

    /// Forgets a pod that is gone, and removes what is left of it.
    fn forget(&self, pod: &sendo::Uid);
}

/// Reads the log of one run.
pub(crate) trait LogReader: Send {
    /// What was written since the last call, in whole lines: each has its time, its stream, `F` or
    /// `P` for a line or a part of one, and its text, as container runtimes write them.
    fn read(&mut self) -> Vec<u8>;
}
