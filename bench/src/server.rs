//! Figures of `sendo up` over TLS, beside those of a real API server.
//!
//! The real ones are of kube-apiserver 1.36 with etcd (without fsync) on two
//! cores that the client shares, or measured in the same run, if a kubeconfig
//! of one is given.

mod client;
mod load;
mod process;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use sendo::World;

use client::Target;
use load::{Load, Rate};
pub(crate) use process::{Keeps, Process};

/// What was measured of one server; what was not is left out.
#[derive(Default)]
struct Figures {
    start: Option<Duration>,
    resident: Option<f64>,
    creates: Option<Rate>,
    creates_of_sixteen: Option<Rate>,
    hellos: Option<Rate>,
    gets: Option<Rate>,
    gets_of_sixteen: Option<Rate>,
    patches: Option<Rate>,
    patches_of_sixteen: Option<Rate>,
    applies: Option<Rate>,
    applies_of_sixteen: Option<Rate>,
    list: Option<Duration>,
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
    Figures {
        start: Some(Duration::from_millis(1300)),
        resident: Some(46.0 + 283.0),
        creates: rate(346.0, 7.5),
        creates_of_sixteen: rate(648.0, 59.0),
        gets: rate(1992.0, 0.0),
        patches: rate(462.0, 0.0),
        applies: rate(991.0, 0.0),
        list: Some(Duration::from_millis(370)),
        deliveries: Some(49_000.0),
        ..Figures::default()
    }
}

/// Measures `sendo up`, and the server of `real` too if there is one.
pub(crate) async fn measure(real: Option<&Path>) -> anyhow::Result<()> {
    let world = World::real();
    let memory = of_process(&world, Keeps::Memory).await?;
    let disk = of_process(&world, Keeps::Disk).await?;
    let kubernetes = match real {
        None => known(),
        Some(file) => {
            let text = std::fs::read_to_string(file).context("read the kubeconfig")?;
            of_server(&world, &Target::read(&text)?).await?
        }
    };
    print(&memory, &disk, &kubernetes);
    world.tasks().stop().await;
    Ok(())
}

async fn of_process(world: &World, keeps: Keeps) -> anyhow::Result<Figures> {
    let mut starts = Vec::new();
    for _ in 0..4 {
        starts.push(Process::start(world, keeps).await?.started_in);
    }
    let process = Process::start(world, keeps).await?;
    starts.push(process.started_in);
    starts.sort();
    world.clock().sleep(Duration::from_secs(2)).await;
    let resident = process.resident_bytes()? as f64 / f64::from(1 << 20);
    Ok(Figures {
        start: Some(starts[starts.len() / 2]),
        resident: Some(resident),
        ..of_server(world, &process.target).await?
    })
}

async fn of_server(world: &World, target: &Target) -> anyhow::Result<Figures> {
    let load = Load::begin(world, target).await?;
    // Both sides warm up first.
    load.create_pods(4, 200).await?;
    let creates = load.create_pods(1, 1500).await?;
    let creates_of_sixteen = load.create_pods(16, 5000).await?;
    let hellos = load.say_hello(5000).await?;
    let gets = load.get_pods(1, 5000).await?;
    let gets_of_sixteen = load.get_pods(16, 20_000).await?;
    let patches = load.patch_pods(1, 2000).await?;
    let patches_of_sixteen = load.patch_pods(16, 5000).await?;
    let applies = load.apply_maps(1, 2000).await?;
    let applies_of_sixteen = load.apply_maps(16, 5000).await?;
    let (list, _) = load.list_pods(10_000).await?;
    let deliveries = load.fan_out(1000, 1000).await?;
    Ok(Figures {
        creates: Some(creates),
        creates_of_sixteen: Some(creates_of_sixteen),
        hellos: Some(hellos),
        gets: Some(gets),
        gets_of_sixteen: Some(gets_of_sixteen),
        patches: Some(patches),
        patches_of_sixteen: Some(patches_of_sixteen),
        applies: Some(applies),
        applies_of_sixteen: Some(applies_of_sixteen),
        list: Some(list),
        deliveries: Some(deliveries),
        ..Figures::default()
    })
}

fn print(memory: &Figures, disk: &Figures, kubernetes: &Figures) {
    println!("| `sendo up` over TLS | memory | on disk | Kubernetes | times as good |");
    println!("|---|---|---|---|---|");
    let span = |figures: &Figures, of: fn(&Figures) -> Option<Duration>| {
        of(figures).map(|own| own.as_secs_f64() * 1e3)
    };
    let row = |name: &str, unit: &str, better: Better, of: &dyn Fn(&Figures) -> Option<f64>| {
        let shown = |figures| match of(figures) {
            Some(number) => format!("{number:.0}{unit}"),
            None => "–".to_owned(),
        };
        let times = match (of(memory), of(kubernetes), better) {
            (Some(here), Some(there), Better::More) => format!("{:.1}", here / there),
            (Some(here), Some(there), Better::Less) => format!("{:.1}", there / here),
            _ => "–".to_owned(),
        };
        let (memory, disk, kubernetes) = (shown(memory), shown(disk), shown(kubernetes));
        println!("| {name} | {memory} | {disk} | {kubernetes} | {times} |");
    };
    use Better::{Less, More};
    row("start to first answer", " ms", Less, &|own| {
        span(own, |own| own.start)
    });
    row("resident at rest", " MB", Less, &|own| own.resident);
    let rates: [(&str, RateOf); 9] = [
        ("pods created a second", |own| own.creates),
        ("the same by sixteen", |own| own.creates_of_sixteen),
        ("`/livez` answered a second", |own| own.hellos),
        ("pods read a second", |own| own.gets),
        ("the same by sixteen", |own| own.gets_of_sixteen),
        ("pods patched a second", |own| own.patches),
        ("the same by sixteen", |own| own.patches_of_sixteen),
        ("small objects applied a second", |own| own.applies),
        ("the same by sixteen", |own| own.applies_of_sixteen),
    ];
    for (name, of) in rates {
        row(name, "", More, &|own| of(own).map(|rate| rate.per_second));
    }
    for (name, of) in &rates[..2] {
        let p99 = |own: &Figures| of(own).map(|rate| rate.p99.as_secs_f64() * 1e3);
        row(&format!("{name}: p99"), " ms", Less, &p99);
    }
    row("list of 10,000 pods", " ms", Less, &|own| {
        span(own, |own| own.list)
    });
    row("events delivered a second", "", More, &|own| own.deliveries);
    println!();
}

/// Picks one of the rates.
type RateOf = fn(&Figures) -> Option<Rate>;

/// Which way a figure improves.
#[derive(Clone, Copy)]
enum Better {
    More,
    Less,
}
