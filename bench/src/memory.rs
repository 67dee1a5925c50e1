//! The memory of a queued key, and of a cached Pod with its keys and two indexes: by how much a
//! process with nothing else grows.

use std::hint::black_box;
use std::process::Command;

use anyhow::bail;
use k8s_openapi::api::core::v1::Pod;
use sendo::cache::{Cache, CacheOptions, Index, KindOptions, Selection};
use sendo::{Kind, ObjectExt, Uid, World};

use crate::{pods, queue};

const KEYS: u32 = 1_000_000;
const PODS: u64 = 20_000;

static BY_NODE: Index<Pod, String> =
    Index::new("by-node", |pod| pod.spec.as_ref()?.node_name.clone());
static BY_OWNER: Index<Pod, Uid> = Index::new("by-owner", |pod| pod.controller());

/// What a process holds while it is measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Measured {
    Keys,
    Compact,
    Stripped,
    Whole,
}

pub(crate) fn measure() -> anyhow::Result<()> {
    println!("| memory: queue | bytes a key |");
    println!("|---|---|");
    measure_in_process("keys")?;
    println!();
    let sizes = (0..100).map(|number| pods::pod(number).to_string().len());
    let json = sizes.sum::<usize>() / 100;
    println!(
        "| memory: {PODS} Pods of {json} bytes of JSON, two indexes | bytes a Pod | get | list by index |"
    );
    println!("|---|---|---|---|");
    for held in ["compact", "stripped", "whole"] {
        measure_in_process(held)?;
    }
    println!();
    Ok(())
}

/// Measures in a process of its own, because memory that another measurement freed stays with the
/// process and would be used again.
fn measure_in_process(held: &str) -> anyhow::Result<()> {
    let itself = std::env::current_exe()?;
    let status = Command::new(itself).args(["--held", held]).status()?;
    if !status.success() {
        bail!("the measurement of {held} ended with {status}");
    }
    Ok(())
}

pub(crate) async fn hold(held: Measured) -> anyhow::Result<()> {
    match held {
        Measured::Keys => keys(),
        Measured::Compact => pods("compact", KindOptions::new().compact()).await,
        Measured::Stripped => pods("as it is, without managedFields", KindOptions::new()).await,
        Measured::Whole => pods("as it is, whole", KindOptions::new().keep_managed_fields()).await,
    }
    Ok(())
}

/// The memory of this process that is in use, in bytes: all of its data, with
/// what the allocator keeps for later, and without pages of the program's file.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

fn keys() {
    let before = resident();
    let held = black_box(queue::full(KEYS, queue::object_key));
    let bytes = resident().saturating_sub(before) / u64::from(KEYS);
    println!("| {KEYS} object keys, the keys themselves included | {bytes} |");
    drop(held);
}

async fn pods(name: &str, options: KindOptions<Pod>) {
    let world = World::real();
    let options = CacheOptions::default().kind(options);
    let before = resident();
    let cache = Cache::new(pods::api_with(PODS), world.clone(), options);
    let informer = cache.informer::<Pod>(Kind::of::<Pod>(), Selection::default());
    informer.add_index(&BY_NODE);
    informer.add_index(&BY_OWNER);
    informer.synced().await;
    let bytes = resident().saturating_sub(before) / PODS;

    let clock = world.clock();
    let snapshot = informer.snapshot();
    let keys = snapshot.list().keys();
    let started = clock.now();
    for key in keys.iter().step_by(7) {
        black_box(snapshot.get(key));
    }
    let get = (clock.now() - started) / (keys.len() / 7) as u32;
    let started = clock.now();
    let found = snapshot
        .list()
        .by(&BY_NODE, "node-007")
        .iter()
        .count()
        .max(1);
    let list = (clock.now() - started) / found as u32;
    println!("| {name} | {bytes} | {get:.1?} | {list:.1?} an object |");
    world.tasks().stop().await;
}
