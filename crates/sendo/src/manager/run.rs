//! The life of a manager: it starts its parts in order, runs, and stops them in reverse order.
//!
//! Start: servers, then webhooks, then the installation of kinds, then sources and caches, then what works everywhere, then the election, then
//! what works on the leader. Each controller waits for its own sources, so one whose kind is
//! missing holds up no other. `stop.rs` describes how it stops.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, FutureExt, join_all};
use parking_lot::Mutex;
use sendo_world::{Stop, World};
use tokio::sync::{mpsc, watch};

use super::definitions::Definitions;
use super::stop::{Part, Parts};
use super::webhooks::Served;
use super::{Check, Config, Manager, RunContext, Runnable, Running, definitions};
use crate::cache::{Cache, CacheOptions, Readiness};
use crate::client::{Client, ClientOptions, RateLimit, WriteGate};
use crate::controller::{BusyKeys, Controller, Elected, Prepared, Surroundings};
use crate::election::{Election, Gate};
use crate::error::{Error, Result, Undeclared, panic_message};
use crate::events::{Recorder, RecorderOptions};
use crate::health::{self, Probes};
use crate::metrics::{ClientMetrics, EventMetrics, Registry};
use crate::metrics_server;
use crate::reader::{DeclaredRead, Reader};
use crate::rights::DeclaredRights;
use crate::serve::Listener;
use crate::transport::GuardedKube;

impl Manager {
    /// Runs until something fails or the world's tasks are stopped.
    ///
    /// Fails with [`DidNotStop`](super::DidNotStop) if a part took longer to stop
    /// than it may. Such a part is dropped where it waits for something; one that
    /// never waits, as an endless loop without `.await`, cannot be: it goes on, on
    /// its thread, and a tokio runtime that has such a thread cannot be shut down.
    /// This returns all the same if the runtime has another thread to run it on,
    /// and then only the end of the process is of any help. On a runtime of one
    /// thread nothing else runs beside such a loop, this included.
    /// [`Manager::run_from_args`] sees to both.
    pub async fn run(self, config: Config) -> Result<()> {
        self.start(config)?.ended().await
    }

    /// Starts the program and returns a handle to it. Fails at once if the
    /// declaration has [problems](Manager::problems).
    ///
    /// Must be called inside a tokio runtime.
    pub fn start(mut self, config: Config) -> Result<Running> {
        self.refuse_problems(&config)?;
        self.log_start(&config);
        let world = config.world.child(&self.name);
        let stop = world.tasks().stopping().child_token();
        let worlds = Worlds::new(&world);
        let metrics = Registry::new();
        for register in std::mem::take(&mut self.metrics) {
            register(&metrics).map_err(Error::terminal)?;
        }
        let requests = ClientMetrics::new(&metrics, &config.host);
        let rights = self.declared_rights(&config);
        let options = CacheOptions {
            rights: Some(rights.clone()),
            metrics: Some(requests.clone()),
            resync: config.resync,
            ..self.cache.clone()
        };
        let cache = Cache::new(config.client.clone(), worlds.caches.clone(), options);
        metrics.follow_cache(&cache);
        let opened = Arc::new(AtomicBool::new(!config.install_kinds));
        let rate = config.rate.map(|rate| Arc::new(RateLimit::new(rate)));
        let (tell_ready, ready) = watch::channel(false);
        let (failures, failed) = mpsc::unbounded_channel();
        let life = Life {
            name: self.name.clone(),
            config,
            worlds,
            cache: cache.clone(),
            metrics: metrics.clone(),
            requests,
            rights,
            rate,
            stop: stop.clone(),
            release: Stop::new(),
            goes_on: Stop::new(),
            parts: Parts::default(),
            elections: Arc::default(),
            probes: Probes::default(),
            opened,
            failures,
            tell_ready,
        };
        let (parts, elections) = (life.parts.clone(), life.elections.clone());
        let probes = life.probes.clone();
        // They may be called from here on, before the kinds that they convert are read.
        let served = life.open_webhooks(&mut self);
        let life = world
            .tasks()
            .spawn("manager", life.live(self, served, failed));
        Ok(Running {
            stop,
            cache,
            metrics,
            probes,
            parts,
            elections,
            ready,
            life,
        })
    }

    fn log_start(&self, config: &Config) {
        let controllers = self.controllers.iter().map(Controller::name);
        tracing::info!(
            program = self.name,
            version = self.version,
            sendo = env!("CARGO_PKG_VERSION"),
            cluster = config.host,
            controllers = ?controllers.collect::<Vec<_>>(),
            "starting"
        );
    }
}

/// The owners of a manager's tasks, so that each group can be stopped on its own.
pub(super) struct Worlds {
    pub(super) servers: World,
    pub(super) election: World,
    pub(super) caches: World,
    pub(super) events: World,
    pub(super) everywhere: World,
    pub(super) leader: World,
}

impl Worlds {
    fn new(world: &World) -> Self {
        Worlds {
            servers: world.child("servers"),
            election: world.child("election"),
            caches: world.child("caches"),
            events: world.child("events"),
            everywhere: world.child("everywhere"),
            leader: world.child("leader"),
        }
    }

    fn for_group(&self, elected: Elected) -> &World {
        match elected {
            Elected::Everywhere => &self.everywhere,
            Elected::OnLeader | Elected::Alone => &self.leader,
        }
    }
}

/// A part that is ready to start: a controller whose sources are open, or a runnable.
pub(super) struct Work {
    pub(super) part: Part,
    run: BoxFuture<'static, Result<()>>,
}

/// Parts that start and end together, when their election is won.
#[derive(Default)]
struct Group {
    election: Option<Election>,
    work: Vec<Work>,
}

impl Group {
    fn gate(&self) -> Option<Gate> {
        self.election.as_ref().map(Election::gate)
    }
}

/// What a part must pass to act as the leader.
struct Gates {
    /// What its writes pass: nothing, if it works on every replica.
    writes: Option<Gate>,
    /// The gate that `Context::leading` checks.
    leads: Gate,
}

impl Gates {
    fn new(group: &Group, leader: Option<&Gate>) -> Self {
        let writes = group.gate();
        let leads = writes.as_ref().or(leader).cloned();
        Gates {
            leads: leads.unwrap_or_else(Gate::open),
            writes,
        }
    }
}

#[derive(Default)]
struct Groups {
    everywhere: Group,
    leader: Group,
    alone: Vec<Group>,
}

pub(super) struct Life {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) worlds: Worlds,
    pub(super) cache: Cache,
    pub(super) metrics: Registry,
    requests: ClientMetrics,
    rights: DeclaredRights,
    rate: Option<Arc<RateLimit>>,
    pub(super) stop: Stop,
    /// Cancelled when the lease may be given back: all that the leader did has ended.
    pub(super) release: Stop,
    /// Cancelled when leadership is lost and work of the leader goes on, which
    /// nothing but the end of the process can stop.
    pub(super) goes_on: Stop,
    pub(super) parts: Parts,
    pub(super) elections: Arc<Mutex<Vec<Election>>>,
    pub(super) probes: Probes,
    /// Whether the sources are open, if kinds are installed before.
    opened: Arc<AtomicBool>,
    pub(super) failures: mpsc::UnboundedSender<Error>,
    tell_ready: watch::Sender<bool>,
}

impl Life {
    async fn live(
        self,
        manager: Manager,
        mut served: Option<Served>,
        mut failed: mpsc::UnboundedReceiver<Error>,
    ) -> Result<()> {
        let outcome = match self.begin(manager, served.as_mut()).await {
            Ok(ready) => self.go_on(ready, &mut failed).await,
            Err(error) => Err(error),
        };
        // Whatever it stops for, who looks at this knows that it does.
        self.stop.cancel();
        let stopped = self.wind_down(served).await;
        // What ended the program comes before how it ended.
        outcome.and(stopped.map_err(Error::terminal))
    }

    /// Starts the servers and everything that works without leadership; the
    /// leader's work waits for the election. Returns what is to be waited for
    /// until the program counts as ready.
    async fn begin(
        &self,
        mut manager: Manager,
        mut served: Option<&mut Served>,
    ) -> Result<Vec<BoxFuture<'static, ()>>> {
        self.serve(std::mem::take(&mut manager.checks)).await?;
        if let Some(served) = &mut served {
            self.listen_to_webhooks(served).await?;
        }
        let install = self.install(&manager.definitions, served.as_deref_mut());
        match self.stop.run_until_cancelled(install).await {
            Some(installed) => installed?,
            None => return Ok(Vec::new()),
        }
        if let Some(served) = served {
            self.open_reads(served);
        }
        let mut groups = Groups::default();
        if let Some(options) = &self.config.election {
            groups.leader.election = Some(self.candidate("election", options.clone())?);
        }
        let leads = groups.leader.gate();
        let mut ready = Vec::new();
        for controller in manager.controllers {
            let (elected, name) = (controller.declaration.elected, controller.name().to_owned());
            let group = self.group(&mut groups, elected, &name)?;
            let gates = Gates::new(group, leads.as_ref());
            let (work, is_ready) = self.prepare(controller, gates)?;
            ready.push(is_ready);
            group.work.push(work);
        }
        for runnable in manager.runnables {
            let group = self.group(&mut groups, runnable.elected, &runnable.name)?;
            let gates = Gates::new(group, leads.as_ref());
            group
                .work
                .push(self.runnable(runnable, &manager.reads, gates));
        }
        let Groups {
            everywhere,
            leader,
            alone,
        } = groups;
        self.opened.store(true, Ordering::Release);
        start_group(everywhere.work, &self.failures);
        let mut recorder = None;
        for Group { election, work } in alone.into_iter().chain([leader]) {
            match election {
                None => start_group(work, &self.failures),
                Some(election) => {
                    let recorder =
                        recorder.get_or_insert_with(|| self.recorder(&self.name, &self.name));
                    self.elect(election, work, recorder.clone());
                }
            }
        }
        Ok(ready)
    }

    /// Installs what the config asks for: the program's kinds, and the configurations of its
    /// webhooks.
    async fn install(
        &self,
        definitions: &Definitions,
        mut served: Option<&mut Served>,
    ) -> Result<()> {
        let client = self.client(&self.name, &self.config.world, None);
        let clock = self.config.world.clock();
        let installs = self.config.install_kinds || self.config.webhooks.install;
        if let Some(served) = served.as_mut().filter(|_| installs) {
            served.know_authorities().await;
        }
        let definitions = match &served {
            Some(served) => served.with_conversions(&self.name, definitions.merged()),
            None => definitions.without_conversions(),
        };
        if self.config.install_kinds {
            definitions::install(&client, clock, &definitions).await?;
        }
        if let Some(served) = served
            && self.config.webhooks.install
        {
            if !self.config.install_kinds {
                definitions::convert(&client, clock, &definitions).await?;
            }
            served.install(&self.name, &client, clock).await?;
        }
        Ok(())
    }

    /// The parts that start together with one that is called `name`.
    fn group<'a>(
        &self,
        groups: &'a mut Groups,
        elected: Elected,
        name: &str,
    ) -> Result<&'a mut Group> {
        match elected {
            Elected::Everywhere => return Ok(&mut groups.everywhere),
            Elected::OnLeader => return Ok(&mut groups.leader),
            Elected::Alone => {}
        }
        let mut own = Group::default();
        if let Some(options) = &self.config.election {
            let mut options = options.clone();
            options.name = format!("{}-{name}", options.name);
            own.election = Some(self.candidate(&format!("election {name}"), options)?);
        }
        groups.alone.push(own);
        Ok(groups.alone.last_mut().expect("it was just put there"))
    }

    async fn go_on(
        &self,
        ready: Vec<BoxFuture<'static, ()>>,
        failed: &mut mpsc::UnboundedReceiver<Error>,
    ) -> Result<()> {
        let all_ready = async {
            join_all(ready).await;
            tracing::info!(program = self.name, "ready");
            self.tell_ready.send_replace(true);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            Some(error) = failed.recv() => Err(error),
            () = all_ready => Ok(()),
        }
    }

    /// Serves metrics and probes, where the config has addresses for them.
    async fn serve(&self, checks: Vec<Check>) -> Result<()> {
        let probes = self.probes.clone();
        let (cache, opened) = (self.cache.clone(), self.opened.clone());
        probes.ready.add_with_remarks("caches", move || {
            let Readiness {
                mut obstacles,
                remarks,
            } = cache.readiness();
            // As long as nothing is watched, no watch fails.
            if !opened.load(Ordering::Acquire) {
                obstacles.push("the program's kinds are not installed yet".to_owned());
            }
            async move {
                match obstacles.is_empty() {
                    true => Ok(remarks.join("; ")),
                    false => Err([obstacles, remarks].concat().join("; ")),
                }
            }
        })?;
        for Check { name, check } in checks {
            probes.ready.add(&name, check)?;
        }
        let world = &self.worlds.servers;
        let stop = world.tasks().stopping().clone();
        if let Some(address) = &self.config.metrics_address {
            let listener = Listener::bind(address, "--metrics-address").await?;
            let (server, registry, stop) = (world.clone(), self.metrics.clone(), stop.clone());
            let mut security = None;
            if self.config.metrics_secure {
                let client = self.client(&self.name, world, None);
                let folder = self.config.metrics_certificates.as_deref();
                security = Some(metrics_server::Security::new(client, world, folder)?);
            }
            let serve = async move {
                metrics_server::serve(listener, &server, &registry, security, &stop).await;
            };
            world.tasks().spawn("metrics", serve);
        }
        if let Some(address) = &self.config.health_address {
            let listener = Listener::bind(address, "--health-address").await?;
            let server = world.clone();
            let serve = async move { health::serve(listener, &server, &probes, &stop).await };
            world.tasks().spawn("probes", serve);
        }
        Ok(())
    }

    /// Opens a controller's sources. Its workers start with its group, and wait
    /// until the sources have delivered what was there.
    fn prepare(
        &self,
        controller: Controller,
        gates: Gates,
    ) -> Result<(Work, BoxFuture<'static, ()>)> {
        let name = controller.name().to_owned();
        let world = self
            .worlds
            .for_group(controller.declaration.elected)
            .child(&name);
        let stopping = world.tasks().stopping().clone();
        let recorder = self.recorder(&name, &controller.component);
        let surroundings = Surroundings {
            cache: self.cache.clone(),
            kube: self.kube(&name, gates.writes.as_ref()),
            client: self.client(&name, &world, gates.writes),
            leads: gates.leads,
            metrics: self.metrics.clone(),
            recorder,
            world: world.clone(),
            namespaces: self.config.namespaces.clone(),
            workers: self.config.workers.clone(),
        };
        let Prepared {
            ready,
            work,
            stuck,
            busy,
        } = (controller.prepare)(surroundings);
        self.probes.live.add(&format!("workers-{name}"), move || {
            let stuck = stuck();
            async move { stuck.map_or(Ok(()), Err) }
        })?;
        let ready = ready.shared();
        let started = ready.clone();
        let run = async move {
            // A source that never delivers must not hold up the end.
            if stopping.run_until_cancelled(started).await.is_some() {
                work.await;
            }
            Ok(())
        };
        let work = Work {
            part: self.part(name, &world, Some(busy)),
            run: Box::pin(run),
        };
        Ok((work, Box::pin(ready)))
    }

    /// Notes a part, whose tasks are those of `world`.
    fn part(&self, name: String, world: &World, busy: Option<BusyKeys>) -> Part {
        let tasks = world.tasks().clone();
        let part = Part { name, tasks, busy };
        self.parts.add(&part);
        part
    }

    /// Records events of a controller, or of the program, in the name of `component`.
    fn recorder(&self, name: &str, component: &str) -> Recorder {
        let client = self.client(name, &self.worlds.events, None);
        let options = RecorderOptions {
            api: self.config.events,
            metrics: EventMetrics::new(&self.metrics, name),
        };
        Recorder::start(client, &self.worlds.events, component, options)
    }

    /// A cache of its own for a part of the program that goes on while all others stop.
    pub(super) fn cache_of(&self, world: &World) -> Cache {
        let options = CacheOptions {
            name: self.name.clone(),
            rights: Some(self.rights.clone()),
            metrics: Some(self.requests.clone()),
            ..CacheOptions::default()
        };
        Cache::new(self.config.client.clone(), world.clone(), options)
    }

    /// A client in the name of a part; a leader's writes pass its gate.
    pub(super) fn client(&self, part: &str, world: &World, gate: Option<Gate>) -> Client {
        self.client_with(part, world, gate, &self.cache)
    }

    /// The same with another cache than that of the program.
    pub(super) fn client_with(
        &self,
        part: &str,
        world: &World,
        gate: Option<Gate>,
        cache: &Cache,
    ) -> Client {
        let name = self.config.field_manager.as_deref().unwrap_or(part);
        let options = ClientOptions {
            rate: self.rate.clone(),
            metrics: Some(self.requests.clone()),
            rights: Some(self.rights.clone()),
            name: name.to_owned(),
            ..ClientOptions::default()
        };
        let kube = self.config.client_of(part);
        let client = Client::new(kube, cache.clone(), world.clone(), options);
        match gate {
            Some(gate) => client.with_gate(Arc::new(gate)),
            None => client,
        }
    }

    /// The same as a client of the `kube` crate.
    fn kube(&self, part: &str, gate: Option<&Gate>) -> GuardedKube {
        let gate = gate.map(|gate| Arc::new(gate.clone()) as Arc<dyn WriteGate>);
        GuardedKube::new(self.config.client_of(part), self.rights.clone(), gate)
    }

    fn runnable(&self, runnable: Runnable, reads: &[DeclaredRead], gates: Gates) -> Work {
        let name = runnable.name;
        let world = self.worlds.for_group(runnable.elected).child(&name);
        let namespaces = &self.config.namespaces;
        let reader = Reader::open(&name, reads, &self.cache, &world, namespaces);
        let cx = RunContext {
            reader: reader.clone(),
            kube: self.kube(&self.name, gates.writes.as_ref()),
            client: self.client(&self.name, &world, gates.writes),
            leads: gates.leads,
            world: world.clone(),
        };
        let stopping = cx.world.tasks().stopping().clone();
        let run = async move {
            match stopping.run_until_cancelled(reader.synced()).await {
                Some(()) => (runnable.run)(cx).await,
                None => Ok(()),
            }
        };
        Work {
            part: self.part(name, &world, None),
            run: Box::pin(run),
        }
    }
}

/// Starts parts side by side. The failure of one is sent to `failures` and ends the manager.
pub(super) fn start_group(group: Vec<Work>, failures: &mpsc::UnboundedSender<Error>) {
    for Work { part, run } in group {
        let failures = failures.clone();
        let (tasks, name) = (part.tasks, part.name);
        let stopping = tasks.stopping().clone();
        let guarded = async move {
            let failure = match AssertUnwindSafe(run).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(panic) => match Undeclared::of_panic(&*panic) {
                    Some(undeclared) => Error::terminal(undeclared.clone()),
                    None => {
                        Error::message(format!("`{name}` panicked: {}", panic_message(&*panic)))
                    }
                },
            };
            if stopping.is_cancelled() {
                tracing::warn!(part = %name, error = %failure, "failed while stopping");
            } else {
                tracing::error!(part = %name, error = %failure, "failed; the manager stops");
            }
            // Whoever would hear of it may have heard of another failure first.
            let _ = failures.send(failure);
        };
        tasks.spawn("work", guarded);
    }
}
