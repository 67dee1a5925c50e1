//! The life of a manager: start in order, run, stop in the reverse of it.
//!
//! Start: servers, then sources and caches, then what works everywhere, then the
//! election, then what works on the leader. Each controller waits for its own
//! sources, so one whose kind is missing holds up no other. Stop: what writes
//! first (controllers and runnables, within the deadline), then the lease, the
//! event recorder, the caches, and the servers last.

use std::panic::AssertUnwindSafe;

use futures::future::{BoxFuture, FutureExt};
use sendo_world::{Stop, Task, World};
use tokio::sync::{mpsc, watch};

use super::{Config, Manager, RunContext, Runnable};
use crate::cache::{Cache, CacheOptions};
use crate::client::{Client, ClientOptions};
use crate::controller::{Controller, Elected, Prepared, Surroundings, panic_message};
use crate::error::{Error, Result};
use crate::events::Recorder;
use crate::metrics::Registry;
use crate::reader::{DeclaredRead, Reader};

/// A manager at work.
#[derive(Debug)]
pub struct Running {
    stop: Stop,
    cache: Cache,
    metrics: Registry,
    ready: watch::Receiver<bool>,
    life: Task<Result<()>>,
}

impl Running {
    /// Cancel it to stop the manager in order.
    pub fn stopping(&self) -> &Stop {
        &self.stop
    }

    /// The cache, with the state of every watch.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The metrics.
    pub fn metrics(&self) -> &Registry {
        &self.metrics
    }

    /// Waits until everything that can work on this replica does: all sources
    /// have delivered what was there, and the runnables have started. A replica
    /// that does not lead is ready when it could. Returns too if the manager ends.
    pub async fn ready(&self) {
        let mut ready = self.ready.clone();
        // The sender goes with the manager: there is nothing more to wait for then.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// The watches that have not delivered what was there, each with what it last failed for.
    pub fn waits_for(&self) -> Vec<String> {
        let states = self.cache.states().into_iter();
        let unsynced = states.filter(|state| !state.synced);
        unsynced.map(|state| state.to_string()).collect()
    }

    /// Waits for the end: `Ok` after a stop, else what ended it.
    pub async fn ended(self) -> Result<()> {
        let panicked = || Err(Error::message("the manager's own task panicked"));
        self.life.output().await.unwrap_or_else(panicked)
    }

    /// Stops in order and waits for the end.
    pub async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.ended().await
    }
}

impl Manager {
    /// Runs until something fails or the world's tasks are asked to stop.
    pub async fn run(self, config: Config) -> Result<()> {
        self.start(config)?.ended().await
    }

    /// Starts the program and returns a handle to it. Fails at once if the
    /// declaration has [problems](Manager::problems).
    ///
    /// Must be called inside a tokio runtime.
    pub fn start(self, config: Config) -> Result<Running> {
        self.refuse_problems()?;
        let world = config.world.child(&self.name);
        let stop = world.tasks().stopping().child_token();
        let rooms = Rooms::of(&world);
        let metrics = Registry::new();
        let options = CacheOptions {
            name: self.name.clone(),
            ..CacheOptions::default()
        };
        let cache = Cache::new(config.client.clone(), rooms.caches.clone(), options);
        let (tell_ready, ready) = watch::channel(false);
        let (failures, failed) = mpsc::unbounded_channel();
        let life = Life {
            name: self.name.clone(),
            config,
            rooms,
            cache: cache.clone(),
            metrics: metrics.clone(),
            stop: stop.clone(),
            cut_off: Stop::new(),
            failures,
            tell_ready,
        };
        let life = world.tasks().spawn("manager", life.live(self, failed));
        Ok(Running {
            stop,
            cache,
            metrics,
            ready,
            life,
        })
    }
}

/// The owners of a manager's tasks, so that each group can be stopped on its own.
struct Rooms {
    caches: World,
    events: World,
    everywhere: World,
    leader: World,
}

impl Rooms {
    fn of(world: &World) -> Self {
        Rooms {
            caches: world.child("caches"),
            events: world.child("events"),
            everywhere: world.child("everywhere"),
            leader: world.child("leader"),
        }
    }

    fn of_group(&self, elected: Elected) -> &World {
        match elected {
            Elected::Everywhere => &self.everywhere,
            Elected::OnLeader => &self.leader,
        }
    }
}

/// A part that is ready to start: a controller whose sources are open, or a runnable.
struct Work {
    name: String,
    run: BoxFuture<'static, Result<()>>,
}

struct Life {
    name: String,
    config: Config,
    rooms: Rooms,
    cache: Cache,
    metrics: Registry,
    stop: Stop,
    /// Cancelled when work in flight has had its time.
    cut_off: Stop,
    failures: mpsc::UnboundedSender<Error>,
    tell_ready: watch::Sender<bool>,
}

impl Life {
    async fn live(
        self,
        manager: Manager,
        mut failed: mpsc::UnboundedReceiver<Error>,
    ) -> Result<()> {
        let mut everywhere = Vec::new();
        let mut leader = Vec::new();
        let mut ready = Vec::new();
        for controller in manager.controllers {
            let elected = controller.declaration.elected;
            let (work, is_ready) = self.prepare(controller);
            ready.push(is_ready);
            match elected {
                Elected::Everywhere => everywhere.push(work),
                Elected::OnLeader => leader.push(work),
            }
        }
        for runnable in manager.runnables {
            let group = match runnable.elected {
                Elected::Everywhere => &mut everywhere,
                Elected::OnLeader => &mut leader,
            };
            group.push(self.runnable(runnable, &manager.reads));
        }
        self.start_group(everywhere, Elected::Everywhere);
        self.start_group(leader, Elected::OnLeader);

        let all_ready = async {
            futures::future::join_all(ready).await;
            self.tell_ready.send_replace(true);
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            Some(error) = failed.recv() => Err(error),
            () = all_ready => Ok(()),
        };
        self.wind_down().await;
        outcome
    }

    /// Opens a controller's sources. Its workers start with its group, and wait
    /// until the sources have delivered what was there.
    fn prepare(&self, controller: Controller) -> (Work, BoxFuture<'static, ()>) {
        let name = controller.name().to_owned();
        let world = self
            .rooms
            .of_group(controller.declaration.elected)
            .child(&name);
        let events = self.client(&name, &self.rooms.events);
        let recorder = Recorder::start(events, &self.rooms.events, &name);
        let surroundings = Surroundings {
            cache: self.cache.clone(),
            client: self.client(&name, &world),
            kube: self.config.client.clone(),
            metrics: self.metrics.clone(),
            recorder,
            world,
            namespaces: self.config.namespaces.clone(),
            cut_off: self.cut_off.clone(),
        };
        let Prepared { ready, work } = (controller.prepare)(surroundings);
        let ready = ready.shared();
        let started = ready.clone();
        let run = async move {
            started.await;
            work.await;
            Ok(())
        };
        let work = Work {
            name,
            run: Box::pin(run),
        };
        (work, Box::pin(ready))
    }

    fn client(&self, field_manager: &str, world: &World) -> Client {
        let options = ClientOptions {
            name: field_manager.to_owned(),
            ..ClientOptions::default()
        };
        let kube = self.config.client.clone();
        Client::new(kube, self.cache.clone(), world.clone(), options)
    }

    fn runnable(&self, runnable: Runnable, reads: &[DeclaredRead]) -> Work {
        let name = runnable.name;
        let world = self.rooms.of_group(runnable.elected).child(&name);
        let namespaces = &self.config.namespaces;
        let reader = Reader::open(&name, reads, &self.cache, &world, namespaces);
        let cx = RunContext {
            reader: reader.clone(),
            client: self.client(&self.name, &world),
            world,
        };
        let run = async move {
            reader.synced().await;
            (runnable.run)(cx).await
        };
        Work {
            name,
            run: Box::pin(run),
        }
    }

    fn start_group(&self, group: Vec<Work>, elected: Elected) {
        let tasks = self.rooms.of_group(elected).tasks();
        for Work { name, run } in group {
            let failures = self.failures.clone();
            let (cut_off, stopping) = (self.cut_off.clone(), tasks.stopping().clone());
            let label = name.clone();
            let guarded = async move {
                let ended = cut_off
                    .run_until_cancelled(AssertUnwindSafe(run).catch_unwind())
                    .await;
                let failure = match ended {
                    None | Some(Ok(Ok(()))) => return,
                    Some(Ok(Err(error))) => error,
                    Some(Err(panic)) => {
                        Error::message(format!("`{name}` panicked: {}", panic_message(&*panic)))
                    }
                };
                if stopping.is_cancelled() {
                    tracing::warn!(part = %name, error = %failure, "failed while stopping");
                } else {
                    tracing::error!(part = %name, error = %failure, "failed; the manager stops");
                }
                // Whoever would hear of it may have heard of another failure first.
                let _ = failures.send(failure);
            };
            tasks.spawn(&label, guarded);
        }
    }

    /// Asks everything to end, in order, and cuts off what takes too long.
    async fn wind_down(&self) {
        let clock = self.config.world.clock();
        let (everywhere, leader) = (self.rooms.everywhere.tasks(), self.rooms.leader.tasks());
        let writers = async {
            futures::future::join(everywhere.stop(), leader.stop()).await;
        };
        let limit = self.config.shutdown_timeout;
        if clock.timeout(limit, writers).await.is_none() {
            let mut late = everywhere.running();
            late.extend(leader.running());
            tracing::warn!(?late, ?limit, "cancelled: did not end in time");
            self.cut_off.cancel();
            futures::future::join(everywhere.ended(), leader.ended()).await;
        }
        self.rooms.events.tasks().stop().await;
        self.rooms.caches.tasks().stop().await;
    }
}
