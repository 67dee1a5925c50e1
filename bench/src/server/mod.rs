//! Figures of `sendo up` over TLS, compared with those of a real API server.
//!
//! The real ones are of kube-apiserver 1.36 with etcd (without fsync) on two
//! cores that the client shares, or measured in the same run, if a kubeconfig
//! of one is given. The servers are measured in turn, round after round, each for the
//! same time, while the others are stopped and after the machine has become idle. The
//! figure is the median of the rounds in which the host took the least processor time.
//! Servers are compared within a round, because the speed of a machine changes from
//! minute to minute; the result is the median of these comparisons.

mod client;
mod load;
mod process;
pub(crate) mod webhook;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use sendo::World;

pub(crate) use client::{Connection, Target};
use load::{Load, Rate, Task, Turn};
pub(crate) use process::{Keeps, Process, Processes, resident_bytes};

/// The number of rounds.
const ROUNDS: usize = 9;
/// The number of rounds that count.
const UNDISTURBED: usize = 5;
/// The number of watchers of the same objects.
const WATCHERS: u64 = 1000;
/// The number of changes that they get in a round.
const CHANGES: u64 = 1000;

/// A measurement of a round: the task, and the number of workers.
struct Work {
    name: &'static str,
    task: Task,
    workers: u64,
}

const fn work(name: &'static str, task: Task, workers: u64) -> Work {
    Work {
        name,
        task,
        workers,
    }
}

const WORKS: [Work; 9] = [
    work("pods created a second", Task::Create, 1),
    work("the same by sixteen", Task::Create, 16),
    work("`/livez` answered a second", Task::Hello, 1),
    work("pods read a second", Task::Get, 1),
    work("the same by sixteen", Task::Get, 16),
    work("pods patched a second", Task::Patch, 1),
    work("the same by sixteen", Task::Patch, 16),
    work("small objects applied a second", Task::Apply, 1),
    work("the same by sixteen", Task::Apply, 16),
];

/// What was measured of one server; what was not is left out.
#[derive(Default)]
struct Figures {
    start: Option<Duration>,
    resident: Option<f64>,
    /// In the order of [`WORKS`].
    rates: [Option<Rate>; WORKS.len()],
    list: Option<Duration>,
    deliveries: Option<f64>,
}

/// The ratios of `sendo up` to Kubernetes in the same round.
#[derive(Default)]
struct Times {
    /// In the order of [`WORKS`].
    rates: [Option<f64>; WORKS.len()],
    p99s: [Option<f64>; WORKS.len()],
    list: Option<f64>,
    deliveries: Option<f64>,
}

/// Kubernetes' own, as they were measured before.
fn known() -> Figures {
    let rate = |per_second: f64, p99: f64| {
        Some(Rate {
            per_second,
            p99: Duration::from_secs_f64(p99 / 1e3),
        })
    };
    let of_many = |per_second| rate(per_second, 0.0);
    Figures {
        start: Some(Duration::from_millis(1300)),
        resident: Some(46.0 + 283.0),
        rates: [
            rate(346.0, 7.5),
            rate(648.0, 59.0),
            None,
            None,
            of_many(1992.0),
            None,
            of_many(462.0),
            None,
            of_many(991.0),
        ],
        list: Some(Duration::from_millis(370)),
        deliveries: Some(49_000.0),
    }
}

/// Measures `sendo up`, and the server of `real` too if there is one, whose
/// processes may be known.
pub(crate) async fn measure(real: Option<&Path>, processes: Vec<u32>) -> anyhow::Result<()> {
    let real_processes = Processes::new(processes);
    real_processes.halt()?;
    let world = World::real();
    let (memory, mut in_memory) = start(&world, Keeps::Memory).await?;
    let (disk, mut on_disk) = start(&world, Keeps::Disk).await?;
    let mut kubernetes = Figures::default();
    let mut measured = vec![
        (begin(&world, &memory).await?, &mut in_memory),
        (begin(&world, &disk).await?, &mut on_disk),
    ];
    match real {
        None => kubernetes = known(),
        Some(file) => {
            let text = std::fs::read_to_string(file).context("read the kubeconfig")?;
            real_processes.go_on()?;
            let load = Load::begin(&world, &Target::read(&text)?, real_processes).await?;
            measured.push((load, &mut kubernetes));
        }
    }
    let times = in_turn(&mut measured).await?;
    // Continues the servers, and closes the connections to them.
    drop(measured);
    print(&in_memory, &on_disk, &kubernetes, &times);
    world.tasks().stop().await;
    Ok(())
}

/// Starts `sendo up` some times: how long that takes, and what the last one needs at rest.
async fn start(world: &World, keeps: Keeps) -> anyhow::Result<(Process, Figures)> {
    let mut starts = Vec::new();
    for _ in 1..UNDISTURBED {
        starts.push(Process::start(world, keeps).await?.started_in);
    }
    let process = Process::start(world, keeps).await?;
    starts.push(process.started_in);
    world.clock().sleep(Duration::from_secs(2)).await;
    let resident = process.resident_bytes()? as f64 / f64::from(1 << 20);
    let figures = Figures {
        start: Some(median(starts, Duration::cmp)),
        resident: Some(resident),
        ..Figures::default()
    };
    Ok((process, figures))
}

async fn begin(world: &World, process: &Process) -> anyhow::Result<Load> {
    Load::begin(world, &process.target, process.processes()).await
}

/// Stops the processes of all servers but one, which is returned.
fn run_alone<'s>(
    servers: &'s mut [(Load, &mut Figures)],
    number: usize,
) -> anyhow::Result<&'s Load> {
    for (i, (load, _)) in servers.iter().enumerate() {
        if i != number {
            load.processes.halt()?;
        }
    }
    let (load, _) = &servers[number];
    load.processes.go_on()?;
    Ok(load)
}

/// Measures the servers in turn, and records the rounds that count.
async fn in_turn(servers: &mut [(Load, &mut Figures)]) -> anyhow::Result<Times> {
    let mut times = Times::default();
    for number in 0..servers.len() {
        run_alone(servers, number)?.fill().await?;
    }
    for (i, work) in WORKS.iter().enumerate() {
        let mut rates = vec![Vec::new(); servers.len()];
        for _ in 0..ROUNDS {
            for (number, rates) in rates.iter_mut().enumerate() {
                let load = run_alone(servers, number)?;
                rates.push(load.perform(work.task, work.workers).await?);
            }
        }
        times.rates[i] = compare(&rates, |rate| rate.per_second);
        times.p99s[i] = compare(&rates, |rate| rate.p99.as_secs_f64());
        for ((_, figures), rates) in servers.iter_mut().zip(rates) {
            let by_rate = |a: &Rate, b: &Rate| a.per_second.total_cmp(&b.per_second);
            figures.rates[i] = Some(undisturbed(rates, by_rate));
        }
    }
    let mut lists = vec![Vec::new(); servers.len()];
    let mut deliveries = vec![Vec::new(); servers.len()];
    for _ in 0..ROUNDS {
        for (number, lists) in lists.iter_mut().enumerate() {
            lists.push(run_alone(servers, number)?.list_pods().await?);
        }
    }
    for _ in 0..ROUNDS {
        for (number, deliveries) in deliveries.iter_mut().enumerate() {
            let load = run_alone(servers, number)?;
            deliveries.push(load.fan_out(WATCHERS, CHANGES).await?);
        }
    }
    times.list = compare(&lists, Duration::as_secs_f64);
    times.deliveries = compare(&deliveries, |rate| *rate);
    for (((_, figures), lists), deliveries) in servers.iter_mut().zip(lists).zip(deliveries) {
        figures.list = Some(undisturbed(lists, Duration::cmp));
        figures.deliveries = Some(undisturbed(deliveries, f64::total_cmp));
    }
    Ok(times)
}

/// The ratio of the first server to the last one, if that is Kubernetes.
fn compare<T>(servers: &[Vec<Turn<T>>], number: impl Fn(&T) -> f64) -> Option<f64> {
    let [ours, _, theirs] = servers else {
        return None;
    };
    let rounds = ours.iter().zip(theirs).map(|(ours, theirs)| Turn {
        measured: number(&ours.measured) / number(&theirs.measured),
        stolen: ours.stolen + theirs.stolen,
    });
    Some(undisturbed(rounds.collect(), f64::total_cmp))
}

/// The median of the rounds in which the host took the least processor time.
fn undisturbed<T: Copy>(
    mut turns: Vec<Turn<T>>,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> T {
    turns.sort_by_key(|turn| turn.stolen);
    let best = turns.into_iter().take(UNDISTURBED);
    median(best.map(|turn| turn.measured).collect(), order)
}

/// The median.
fn median<T: Copy>(mut all: Vec<T>, order: impl Fn(&T, &T) -> std::cmp::Ordering) -> T {
    all.sort_by(order);
    all[all.len() / 2]
}

fn print(memory: &Figures, disk: &Figures, kubernetes: &Figures, times: &Times) {
    println!("| `sendo up` over TLS | memory | on disk | Kubernetes | times as good |");
    println!("|---|---|---|---|---|");
    let milliseconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64() * 1e3);
    type Of<'f> = &'f dyn Fn(&Figures) -> Option<f64>;
    let row = |name: &str, unit: &str, better: Better, times: Option<f64>, of: Of<'_>| {
        let shown = |figures| match of(figures) {
            Some(number) => format!("{number:.0}{unit}"),
            None => "–".to_owned(),
        };
        let times = times.or_else(|| Some(of(memory)? / of(kubernetes)?));
        let times = match (times, better) {
            (Some(times), Better::More) => format!("{times:.1}"),
            (Some(times), Better::Less) => format!("{:.1}", 1.0 / times),
            (None, _) => "–".to_owned(),
        };
        let (memory, disk, kubernetes) = (shown(memory), shown(disk), shown(kubernetes));
        println!("| {name} | {memory} | {disk} | {kubernetes} | {times} |");
    };
    use Better::{Less, More};
    row("start to first answer", " ms", Less, None, &|own| {
        milliseconds(own.start)
    });
    row("resident at rest", " MB", Less, None, &|own| own.resident);
    for (i, work) in WORKS.iter().enumerate() {
        row(work.name, "", More, times.rates[i], &|own| {
            own.rates[i].map(|rate| rate.per_second)
        });
    }
    for (i, work) in WORKS.iter().enumerate().take(2) {
        let name = format!("{}: p99", work.name);
        row(&name, " ms", Less, times.p99s[i], &|own| {
            milliseconds(own.rates[i].map(|rate| rate.p99))
        });
    }
    row("list of 10,000 pods", " ms", Less, times.list, &|own| {
        milliseconds(own.list)
    });
    let name = "events delivered a second";
    row(name, "", More, times.deliveries, &|own| own.deliveries);
    println!();
}

/// Which way a figure improves.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}
