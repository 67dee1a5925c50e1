//! Containers as plain processes of this machine, on its network and in its file system: nothing
//! separates them from other processes, but each has a session of its own.
//!
//! A small process stands beside each container ([`shim`]). What is known of a run is in a folder
//! of its own, `<state>/pods/<uid>/<container>/<attempt>`, so that an agent that is started again
//! finds its containers. The image of a container is a program of this machine ([`image`]).

mod environment;
mod folder;
mod image;
mod log;
mod probe;
mod shim;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use k8s_openapi::api::core::v1::{self, LifecycleHandler, Probe};
use parking_lot::Mutex;
use sendo::source::Sender;
use sendo::{Context, ObjectExt, ObjectKey, Runnable, Timestamp, Uid, everywhere};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};

use self::environment::Addresses;
use self::folder::{
    controls, create_run_folder, end_all, end_left_over, entries, lost, pod_folder, run_state,
};
use self::log::LogFiles;
use self::shim::ShimConfig;
use crate::jobs::Jobs;
use crate::pod::{Container, Pod};
use crate::runtime::{
    ContainerRuns, ContainerRuntime, LogReader, Observed, ProbeAnswer, ProbeKind, Run, RunState,
    Signal, StartFailure,
};

/// How a node runs containers as processes.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// The folder in which a node keeps what it knows of its containers, and their logs. It is
    /// created if it is not there, and read by nobody else.
    pub state: PathBuf,
    /// The program that is executed beside each container: one that calls
    /// [`container_process`] with its arguments first of all.
    pub shim: PathBuf,
    /// Programs by the names that images may have; a path, `file:///usr/bin/python3`, is an image
    /// in any case.
    pub images: BTreeMap<String, PathBuf>,
    /// The address of this machine, under which pods are reached.
    pub address: Ipv4Addr,
    /// Whether containers go on when this process is killed, to be found by the next one on the
    /// same `state`. When the node is stopped they end in any case.
    pub outlive_agent: bool,
}

impl ProcessOptions {
    /// The address of this machine that others reach it by; 127.0.0.1 if it has none.
    pub fn address_of_this_machine() -> Ipv4Addr {
        // Nothing is sent: connecting chooses the address that would be used.
        let chosen = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
            socket.local_addr()
        });
        match chosen.map(|address| address.ip()) {
            Ok(IpAddr::V4(address)) => address,
            _ => Ipv4Addr::LOCALHOST,
        }
    }
}

/// How many processors, and how much memory, this machine has, as far as it says.
pub(crate) fn capacity_of_this_machine() -> (Option<String>, Option<String>) {
    let cpu = std::thread::available_parallelism().ok();
    let memory = fs::read_to_string("/proc/meminfo").ok();
    let total = memory.as_deref().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(format!("{}Ki", line.trim().strip_suffix("kB")?.trim()))
    });
    (cpu.map(|cpu| cpu.to_string()), total)
}

/// Becomes one of the processes beside a container, if the arguments of this process, its own name
/// left out, say so; `None`: they say something else.
///
/// To be called first of all, before threads are started.
pub fn container_process(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    match arguments.next()?.to_str()? {
        "container-shim" => Some(shim::shim()),
        "container-init" => Some(shim::init(arguments)),
        _ => None,
    }
}

/// The prefix of the identifiers of containers.
const SCHEME: &str = "process://";
/// The search path of a container that does not set its own.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The processes of one node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Processes(Arc<Inner>);

struct Inner {
    options: ProcessOptions,
    jobs: Jobs,
    wake: Sender<ObjectKey>,
    pods: Mutex<BTreeMap<Uid, BTreeMap<String, ProcessRun>>>,
}

/// The newest run of a container.
struct ProcessRun {
    attempt: i32,
    image: String,
    state: RunState,
    last: Option<Box<Run>>,
    /// Where signals are written for its shim.
    control: Option<OwnedFd>,
    /// Open for as long as this process lives, if the container is to end with it.
    _lifeline: Option<ChildStdin>,
}

impl Processes {
    pub(crate) fn new(options: ProcessOptions, jobs: Jobs, wake: Sender<ObjectKey>) -> Self {
        Processes(Arc::new(Inner {
            options,
            jobs,
            wake,
            pods: Mutex::default(),
        }))
    }

    /// Ends what an earlier agent left of pods that are gone, and all containers when it stops.
    pub(crate) fn runnable(state: PathBuf, node: String) -> Runnable {
        everywhere("processes", move |cx| async move {
            end_left_over(&state, &node, &cx).await?;
            cx.stopping().cancelled().await;
            end_all(&state, &cx).await;
            Ok(())
        })
    }

    fn run_folder(&self, pod: &Uid, container: &str, attempt: i32) -> PathBuf {
        let pod = pod_folder(&self.0.options.state, pod.as_str());
        pod.join(container).join(attempt.to_string())
    }

    /// Calls `look` with the runs of a pod. Those of one that is not known are read from its folder.
    fn with_runs<T>(
        &self,
        pod: &Pod,
        look: impl FnOnce(&mut BTreeMap<String, ProcessRun>) -> T,
    ) -> T {
        let uid = pod.uid();
        let mut pods = self.0.pods.lock();
        let runs = pods
            .entry(uid.clone())
            .or_insert_with(|| self.found(&uid, pod));
        look(runs)
    }

    /// The runs that the folder of a pod tells of. Those that have not ended are followed.
    fn found(&self, uid: &Uid, pod: &Pod) -> BTreeMap<String, ProcessRun> {
        let mut runs = BTreeMap::new();
        for container in pod.all_containers() {
            let folder = pod_folder(&self.0.options.state, uid.as_str()).join(&container.name);
            let mut attempts: Vec<i32> = entries(&folder)
                .filter_map(|name| name.to_str()?.parse().ok())
                .collect();
            attempts.sort_unstable();
            let Some(attempt) = attempts.pop() else {
                continue;
            };
            let folder = self.run_folder(uid, &container.name, attempt);
            let state = run_state(&folder).unwrap_or_else(|| lost(&folder));
            let image = container.image.clone().unwrap_or_default();
            let last = attempts.pop().and_then(|attempt| {
                let state = run_state(&self.run_folder(uid, &container.name, attempt))?;
                Some(Box::new(run(uid, &container.name, attempt, &image, state)))
            });
            let is_active = !matches!(state, RunState::Exited(_));
            if is_active {
                let followed = Followed::new(self, pod, &container.name, attempt);
                self.0.jobs.add(Box::pin(followed.until_its_end(None)));
            }
            let control = shim::open_pipe(&folder, "control").ok();
            runs.insert(
                container.name.clone(),
                ProcessRun {
                    attempt,
                    image,
                    state,
                    last,
                    control: control.filter(|_| is_active),
                    _lifeline: None,
                },
            );
        }
        runs
    }

    /// Executes the shim of a container, and tells it what to run.
    async fn spawn(&self, config: &ShimConfig) -> io::Result<(Child, Option<ChildStdin>)> {
        let mut shim = Command::new(&self.0.options.shim);
        shim.arg("container-shim")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = shim.spawn()?;
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            let mut line = serde_json::to_vec(config)?;
            line.push(b'\n');
            stdin.write_all(&line).await?;
            stdin.flush().await?;
        }
        Ok((child, stdin.filter(|_| config.ends_with_agent)))
    }
}

fn run(pod: &Uid, container: &str, attempt: i32, image: &str, state: RunState) -> Run {
    Run {
        id: format!("{SCHEME}{pod}/{container}/{attempt}"),
        image_id: image.to_owned(),
        attempt,
        state,
    }
}

/// A run that is followed until its end.
struct Followed {
    processes: Processes,
    key: ObjectKey,
    uid: Uid,
    container: String,
    attempt: i32,
    folder: PathBuf,
}

impl Followed {
    fn new(processes: &Processes, pod: &Pod, container: &str, attempt: i32) -> Self {
        Followed {
            processes: processes.clone(),
            key: pod.key(),
            uid: pod.uid(),
            container: container.to_owned(),
            attempt,
            folder: processes.run_folder(&pod.uid(), container, attempt),
        }
    }

    /// Notes each change of the run, until it has ended. `shim` is its shim, if this process
    /// started it; else the pipe tells when it is gone.
    async fn until_its_end(self, shim: Option<Child>) {
        let events = pipe::OpenOptions::new().open_receiver(self.folder.join("events"));
        let Ok(events) = events else {
            return self.note(lost(&self.folder)).await;
        };
        let is_own = shim.is_some();
        let gone = async {
            match shim {
                Some(mut shim) => drop(shim.wait().await),
                None => std::future::pending().await,
            }
        };
        let mut gone = Box::pin(gone);
        let mut may_read = !is_own;
        loop {
            let mut bytes = [0; 16];
            // An own shim may not have opened the pipe yet.
            let is_closed = may_read && matches!(events.try_read(&mut bytes), Ok(0));
            match run_state(&self.folder) {
                Some(state @ RunState::Exited(_)) => return self.note(state).await,
                _ if is_closed => return self.note(lost(&self.folder)).await,
                Some(state) => self.note(state).await,
                None => {}
            }
            let readable = Box::pin(events.readable());
            match select(readable, &mut gone).await {
                Either::Left(_) => may_read = true,
                Either::Right(_) => {
                    let state = run_state(&self.folder);
                    let ended = state.filter(|state| matches!(state, RunState::Exited(_)));
                    return self.note(ended.unwrap_or_else(|| lost(&self.folder))).await;
                }
            }
        }
    }

    async fn note(&self, state: RunState) {
        {
            let mut pods = self.processes.0.pods.lock();
            let run = pods
                .get_mut(&self.uid)
                .and_then(|runs| runs.get_mut(&self.container));
            let Some(run) = run.filter(|run| run.attempt == self.attempt && run.state != state)
            else {
                return;
            };
            if matches!(state, RunState::Exited(_)) {
                run.control = None;
                run._lifeline = None;
            }
            run.state = state;
        }
        // A controller that has ended needs no wake-up.
        let _ = self.processes.0.wake.send(self.key.clone()).await;
    }
}

impl ContainerRuntime for Processes {
    fn observe(&self, pod: &Pod, _: Timestamp) -> Observed {
        let uid = pod.uid();
        self.with_runs(pod, |runs| {
            let runs = runs.iter().map(|(name, process)| {
                let runs = ContainerRuns {
                    current: run(
                        &uid,
                        name,
                        process.attempt,
                        &process.image,
                        process.state.clone(),
                    ),
                    last: process.last.as_deref().cloned(),
                };
                (name.clone(), runs)
            });
            Observed {
                runs: runs.collect(),
                next: None,
            }
        })
    }

    async fn start(
        &self,
        pod: &Pod,
        container: &Container,
        attempt: i32,
        cx: &Context,
    ) -> Result<(), StartFailure> {
        let uid = pod.uid();
        let image = container.image.clone().unwrap_or_default();
        let program = image::resolve(&image, &self.0.options.images)?;
        let mut config = self.config(pod, container, &program, cx).await?;
        config.folder = self.run_folder(&uid, &container.name, attempt);
        let failed = |error: io::Error| StartFailure {
            reason: "CreateContainerError",
            message: format!("{}: {error}", config.folder.display()),
        };
        create_run_folder(&config.folder).map_err(failed)?;
        let control = shim::open_pipe(&config.folder, "control").map_err(failed)?;
        let (child, lifeline) = self.spawn(&config).await.map_err(failed)?;
        let uid_of_run = uid.clone();
        self.with_runs(pod, |runs| {
            let last = runs.remove(&container.name).map(|before| {
                Box::new(run(
                    &uid_of_run,
                    &container.name,
                    before.attempt,
                    &before.image,
                    before.state,
                ))
            });
            let started = ProcessRun {
                attempt,
                image,
                state: RunState::Created,
                last,
                control: Some(control),
                _lifeline: lifeline,
            };
            runs.insert(container.name.clone(), started);
        });
        self.forget_old_runs(&uid, &container.name, attempt);
        let followed = Followed::new(self, pod, &container.name, attempt);
        self.0
            .jobs
            .add(Box::pin(followed.until_its_end(Some(child))));
        Ok(())
    }

    fn signal(&self, pod: &Pod, container: &str, signal: Signal, _: Timestamp) {
        let byte = match signal {
            Signal::Terminate => b"T",
            Signal::Kill => b"K",
        };
        self.with_runs(pod, |runs| {
            let control = runs.get(container).and_then(|run| run.control.as_ref());
            if let Some(control) = control {
                // A pipe that is full has had its signals.
                let _ = rustix::io::write(control, byte);
            }
        });
    }

    fn declared_answer(&self, _: &Pod, _: &Container, _: ProbeKind) -> Option<ProbeAnswer> {
        None
    }

    fn probe(
        &self,
        pod: &Pod,
        container: &Container,
        probe: &Probe,
        cx: &Context,
    ) -> BoxFuture<'static, ProbeAnswer> {
        let limit = crate::probes::seconds(probe.timeout_seconds, 1);
        let target = probe::Target {
            address: IpAddr::V4(self.0.options.address),
            ports: container.ports.clone().unwrap_or_default(),
        };
        if let Some(action) = probe.exec.clone() {
            let command = action.command.unwrap_or_default();
            return self.exec(pod, container, command, limit, cx);
        }
        let asked = probe::ask(probe.clone(), target);
        let clock = cx.clock().clone();
        async move {
            let answered = clock.timeout(limit, asked).await;
            answered.unwrap_or_else(|| Err(format!("no answer within {limit:?}")))
        }
        .boxed()
    }

    fn hook(
        &self,
        pod: &Pod,
        container: &Container,
        hook: &LifecycleHandler,
        cx: &Context,
    ) -> Option<BoxFuture<'static, Result<(), String>>> {
        if let Some(action) = hook.exec.clone() {
            let command = action.command.unwrap_or_default();
            return Some(self.exec(pod, container, command, Duration::MAX, cx));
        }
        let probe = Probe {
            http_get: hook.http_get.clone(),
            tcp_socket: hook.tcp_socket.clone(),
            ..Probe::default()
        };
        let target = probe::Target {
            address: IpAddr::V4(self.0.options.address),
            ports: container.ports.clone().unwrap_or_default(),
        };
        Some(probe::ask(probe, target).boxed())
    }

    fn log(&self, pod: &Pod, container: &str, run: &Run) -> Box<dyn LogReader> {
        let folder = self.run_folder(&pod.uid(), container, run.attempt);
        Box::new(LogFiles::new(folder))
    }

    fn pod_address(&self, _: Option<Ipv4Addr>, _: Ipv4Addr) -> Option<Ipv4Addr> {
        Some(self.0.options.address)
    }

    fn forget(&self, pod: &Uid) {
        self.0.pods.lock().remove(pod);
        let folder = pod_folder(&self.0.options.state, pod.as_str());
        for control in controls(&folder) {
            let _ = rustix::io::write(&control, b"K");
        }
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(folder = %folder.display(), %error, "what is left of a pod cannot be removed");
            }
            _ => {}
        }
    }
}

impl Processes {
    /// What the process of a container is: program, arguments, environment, folder.
    async fn config(
        &self,
        pod: &Pod,
        container: &Container,
        program: &Path,
        cx: &Context,
    ) -> Result<ShimConfig, StartFailure> {
        let failed = |message: String| StartFailure {
            reason: "CreateContainerConfigError",
            message,
        };
        let live = cx.live();
        let whole = live.get::<v1::Pod>(pod.key()).await;
        let whole = whole.map_err(|error| failed(error.to_string()))?;
        let Some(whole) = whole.filter(|whole| whole.uid() == pod.uid()) else {
            return Err(failed("the pod is gone".to_owned()));
        };
        let Some(spec) = whole_container(&whole, &container.name) else {
            return Err(failed("the container is gone".to_owned()));
        };
        let address = self.0.options.address.to_string();
        let addresses = Addresses {
            host: address.clone(),
            pod: address,
        };
        let variables = environment::variables(&whole, &spec, &addresses, &live).await?;
        let expand = |texts: &[String]| {
            let expanded = texts
                .iter()
                .map(|text| environment::expand(text, &variables));
            expanded.collect::<Vec<_>>()
        };
        let mut argv = match spec
            .command
            .as_deref()
            .filter(|command| !command.is_empty())
        {
            Some(command) => expand(command),
            None => vec![program.display().to_string()],
        };
        argv.extend(expand(spec.args.as_deref().unwrap_or_default()));
        let mut env = vec![
            ("HOSTNAME".to_owned(), whole.name().to_owned()),
            ("HOME".to_owned(), "/".to_owned()),
        ];
        env.push(("PATH".to_owned(), PATH.to_owned()));
        env.extend(variables);
        let directory = spec.working_dir.filter(|directory| !directory.is_empty());
        Ok(ShimConfig {
            folder: PathBuf::new(),
            argv,
            env,
            directory: directory.unwrap_or_else(|| "/".to_owned()).into(),
            ends_with_agent: !self.0.options.outlive_agent,
        })
    }

    /// Executes a command beside a container, with its environment.
    fn exec(
        &self,
        pod: &Pod,
        container: &Container,
        command: Vec<String>,
        limit: Duration,
        cx: &Context,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (this, pod, container, cx) = (self.clone(), pod.clone(), container.clone(), cx.clone());
        async move {
            let program = Path::new("");
            let config = this.config(&pod, &container, program, &cx).await;
            let config = config.map_err(|failure| failure.message)?;
            let Some((program, arguments)) = command.split_first() else {
                return Err("the command is empty".to_owned());
            };
            let mut process = Command::new(program);
            process
                .args(arguments)
                .env_clear()
                .envs(config.env)
                .current_dir(config.directory)
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .process_group(0);
            let output = cx
                .clock()
                .timeout(limit.min(Duration::from_secs(3600)), process.output());
            match output.await {
                Some(Ok(output)) if output.status.success() => Ok(()),
                Some(Ok(output)) => {
                    let text = [output.stdout, output.stderr].concat();
                    Err(String::from_utf8_lossy(&text).into_owned())
                }
                Some(Err(error)) => Err(format!("{program:?}: {error}")),
                None => Err(format!(
                    "command timed out: {program:?} timed out after {limit:?}"
                )),
            }
        }
        .boxed()
    }

    /// Removes the folders of runs before the last one.
    fn forget_old_runs(&self, pod: &Uid, container: &str, newest: i32) {
        let folder = pod_folder(&self.0.options.state, pod.as_str()).join(container);
        for name in entries(&folder) {
            let attempt = name.to_str().and_then(|name| name.parse::<i32>().ok());
            if attempt.is_some_and(|attempt| attempt < newest - 1) {
                let _ = fs::remove_dir_all(folder.join(name));
            }
        }
    }
}

fn whole_container(pod: &v1::Pod, name: &str) -> Option<v1::Container> {
    let spec = pod.spec.as_ref()?;
    let init = spec.init_containers.iter().flatten();
    let mut containers = init.chain(&spec.containers);
    if let Some(found) = containers.find(|container| container.name == name) {
        return Some(found.clone());
    }
    let mut ephemeral = spec.ephemeral_containers.iter().flatten();
    let found = ephemeral.find(|container| container.name == name)?;
    Some(v1::Container {
        args: found.args.clone(),
        command: found.command.clone(),
        env: found.env.clone(),
        env_from: found.env_from.clone(),
        image: found.image.clone(),
        name: found.name.clone(),
        working_dir: found.working_dir.clone(),
        ..v1::Container::default()
    })
}
