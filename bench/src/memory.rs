//! What a cached Pod costs, keys and two indexes included.

use k8s_openapi::api::core::v1::Pod;
use sendo::cache::{Cache, CacheOptions, Index, KindOptions, Selection};
use sendo::{Kind, ObjectExt, Uid, World};

use crate::pods;

const PODS: u64 = 20_000;

static BY_NODE: Index<Pod, String> =
    Index::new("by-node", |pod| pod.spec.as_ref()?.node_name.clone());
static BY_OWNER: Index<Pod, Uid> = Index::new("by-owner", |pod| pod.controller());

/// The memory of this process that is in use, in bytes.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

pub(crate) async fn measure() -> anyhow::Result<()> {
    let sizes = (0..100).map(|number| pods::pod(number).to_string().len());
    let json = sizes.sum::<usize>() / 100;
    println!(
        "| {PODS} Pods of {json} bytes of JSON, two indexes | bytes a Pod | get | list by index |"
    );
    println!("|---|---|---|---|");
    // The small one first: what it leaves behind does not count for the other.
    one("compact", KindOptions::new().compact()).await;
    one("as it is, without managedFields", KindOptions::new()).await;
    one("as it is, whole", KindOptions::new().keep_managed_fields()).await;
    println!();
    Ok(())
}

async fn one(name: &str, options: KindOptions<Pod>) {
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
        std::hint::black_box(snapshot.get(key));
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
