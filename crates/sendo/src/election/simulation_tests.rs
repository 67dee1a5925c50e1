//! Many elections under seeded disturbances, and the one thing that must never be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendo_world::{Random, Stop, World};
use tokio::sync::Notify;

use super::journal::{Journal, Writer};
use super::lease_service::{Faults, LeaseService, Line};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A process that competes, with a clock of its own; when it has ended, it can be started anew.
struct Process {
    world: World,
    line: Line,
    pause: Pause,
    lives: Vec<Life>,
    /// Where it writes as long as it leads, if it does.
    journal: Option<Journal>,
}

struct Life {
    gate: Gate,
    release: Stop,
    crash: Stop,
    ended: Stop,
}

impl Process {
    fn new(world: &World, name: &str, rate: f64) -> Self {
        Process {
            world: world.child(name).with_clock_rate(rate),
            line: Line::default(),
            pause: Pause::default(),
            lives: Vec::new(),
            journal: None,
        }
    }

    fn runs(&self) -> bool {
        self.lives
            .last()
            .is_some_and(|life| !life.ended.is_cancelled())
    }

    fn start(&mut self, service: &LeaseService) {
        let mut options = ElectionOptions::new("ns", "lease");
        // Candidates that hardly rest leave a late leader no grace.
        options.retry_period = SECOND / 2;
        let election = Election::new(&self.world, options).unwrap();
        let life = Life {
            gate: election.gate(),
            release: Stop::new(),
            crash: Stop::new(),
            ended: Stop::new(),
        };
        let client = service.client(&self.world, &self.line);
        let (release, crash) = (life.release.clone(), life.crash.clone());
        let (ended, pause) = (life.ended.clone().drop_guard(), self.pause.clone());
        let term = (self.world.random().u64(), self.lives.len());
        let writer = self.journal.as_ref().map(|journal| {
            let line = self.line.clone();
            Writer::new(journal, &self.world, line, election.gate(), term)
        });
        self.world.tasks().spawn("process", async move {
            let run = async {
                // The lease is kept as long as there is somebody who writes.
                let work_ended = Stop::new();
                let write = async {
                    match writer {
                        Some(writer) => drop(release.run_until_cancelled(writer.run()).await),
                        None => release.cancelled().await,
                    }
                    work_ended.cancel();
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    biased;
                    _ = election.run(client, &work_ended) => {}
                    () = write => {}
                }
            };
            tokio::select! {
                biased;
                () = crash.cancelled() => {}
                () = pause.around(run) => {}
            }
            drop(ended);
        });
        self.lives.push(life);
    }

    fn open_gates(&self) -> usize {
        let open = self.lives.iter().filter(|life| life.gate.check().is_ok());
        open.count()
    }
}

/// Lets a process stand still, as a stopped container does, while time goes on.
#[derive(Clone, Default)]
struct Pause {
    paused: Arc<AtomicBool>,
    changed: Arc<Notify>,
}

impl Pause {
    fn set(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        self.changed.notify_one();
    }

    async fn around(&self, run: impl Future<Output = ()>) {
        let mut run = std::pin::pin!(run);
        loop {
            if self.paused.load(Ordering::Relaxed) {
                self.changed.notified().await;
                continue;
            }
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = &mut run => return,
            }
        }
    }
}

/// Does something to one of the processes.
fn disturb(random: &Random, service: &LeaseService, processes: &mut [Process]) {
    let any = random.below(0..processes.len() as u64) as usize;
    let leader = processes.iter().position(|p| p.open_gates() > 0);
    // What befalls a leader matters most.
    let which = leader.filter(|_| random.below(0..3) > 0).unwrap_or(any);
    let process = &mut processes[which];
    if !process.runs() {
        process.pause.set(false);
        return process.start(service);
    }
    let delay = |random: &Random| SECOND.mul_f64(random.fraction() * random.fraction() * 8.0);
    match random.below(0..12) {
        0..3 => process.line.set(Faults {
            cut: true,
            ..Faults::default()
        }),
        3 => process.line.set(Faults {
            deaf: true,
            ..Faults::default()
        }),
        4..7 => process.line.set(Faults {
            there: delay(random),
            back: delay(random),
            ..Faults::default()
        }),
        7 => process.line.set(Faults::default()),
        8 => process.pause.set(true),
        9 => process.pause.set(false),
        10 => process.lives.last().expect("it runs").crash.cancel(),
        _ => process.lives.last().expect("it runs").release.cancel(),
    }
}

/// Mostly one of the extremes, between which nothing is gained.
fn rate(random: &Random) -> f64 {
    match random.below(0..5) {
        0 | 1 => 0.82,
        2 | 3 => 1.22,
        _ => 0.82 + random.fraction() * 0.40,
    }
}

/// One election with three processes and clocks up to 1.49 times as fast as each
/// other. Returns how often leadership began.
async fn elect(seed: u64) -> u32 {
    let world = World::seeded(seed);
    let random = world.random().child("disturbances");
    let service = LeaseService::default();
    let mut processes: Vec<Process> = ["a", "b", "c"]
        .iter()
        .map(|name| Process::new(&world, name, rate(&random)))
        .collect();
    for process in &mut processes {
        process.start(&service);
    }
    let (mut terms, mut leading) = (0, 0);
    let mut watch = async |time: Duration, processes: &[Process]| {
        let end = world.clock().now() + time;
        while world.clock().now() < end {
            world.clock().sleep(SECOND / 10).await;
            let open = processes.iter().map(Process::open_gates).sum();
            assert!(open <= 1, "seed {seed}: {open} gates are open");
            terms += u32::from(open > leading);
            leading = open;
        }
    };
    for _ in 0..30 {
        watch(SECOND.mul_f64(random.fraction() * 8.0), &processes).await;
        disturb(&random, &service, &mut processes);
    }
    for process in &mut processes {
        process.line.set(Faults::default());
        process.pause.set(false);
    }
    watch(30 * SECOND, &processes).await;
    for process in &mut processes {
        if !process.runs() {
            process.start(&service);
        }
    }
    watch(30 * SECOND, &processes).await;
    let open: usize = processes.iter().map(Process::open_gates).sum();
    assert_eq!(
        open, 1,
        "seed {seed}: somebody leads when all is well again"
    );
    for life in processes.iter().flat_map(|process| &process.lives) {
        life.crash.cancel();
    }
    world.tasks().ended().await;
    terms
}

#[tokio::test(start_paused = true)]
async fn two_gates_are_never_open_at_once() {
    let mut terms = 0;
    for seed in 0..250 {
        terms += elect(seed).await;
    }
    // Otherwise the disturbances would not have been any.
    assert!(terms > 900, "{terms}");
}

#[tokio::test(start_paused = true)]
async fn one_seed_is_one_election() {
    assert_eq!(elect(7).await, elect(7).await);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_on_clock_rates_two_may_lead() {
    let world = World::seeded(1);
    let service = LeaseService::default();
    let mut slow = Process::new(&world, "slow", 0.3);
    slow.start(&service);
    world.clock().sleep(20 * SECOND).await;
    let mut other = Process::new(&world, "other", 1.0);
    other.start(&service);
    slow.line.set(Faults {
        cut: true,
        ..Faults::default()
    });
    world.clock().sleep(24 * SECOND).await;
    assert_eq!((slow.open_gates(), other.open_gates()), (1, 1));
}

/// Two candidates that write as long as they lead, with clocks up to 1.5 times as
/// fast as each other. Returns how many writes took effect, and in how many terms.
async fn write_in_turn(seed: u64) -> (usize, usize) {
    let world = World::seeded(seed);
    let random = world.random().child("disturbances");
    let service = LeaseService::default();
    let journal = Journal::new(&world);
    let slow = 0.82 + 0.1 * random.fraction();
    let fast = slow * 1.5 * (0.9 + 0.099 * random.fraction());
    let mut processes = [("a", slow), ("b", fast)].map(|(name, rate)| {
        let mut process = Process::new(&world, name, rate);
        process.journal = Some(journal.clone());
        process
    });
    for process in &mut processes {
        process.start(&service);
    }
    for _ in 0..20 {
        world
            .clock()
            .sleep(SECOND.mul_f64(random.fraction() * 8.0))
            .await;
        disturb(&random, &service, &mut processes);
    }
    for life in processes.iter().flat_map(|process| &process.lives) {
        life.crash.cancel();
    }
    world.tasks().ended().await;
    let writes = journal.writes();
    let mut terms = writes.clone();
    terms.dedup();
    let distinct: std::collections::BTreeSet<_> = terms.iter().collect();
    assert_eq!(
        terms.len(),
        distinct.len(),
        "seed {seed}: a leader wrote after another had: {terms:?}"
    );
    (writes.len(), terms.len())
}

#[tokio::test(start_paused = true)]
async fn two_leaders_never_both_write() {
    let (mut writes, mut terms) = (0, 0);
    for seed in 0..1000 {
        let (written, led) = write_in_turn(seed).await;
        writes += written;
        terms += led;
    }
    // Otherwise nothing would have been shown.
    assert!(
        writes > 8_000 && terms > 1_500,
        "{writes} writes in {terms} terms"
    );
}
