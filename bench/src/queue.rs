//! The work queue: add, get, done, with many keys waiting.

use std::hint::black_box;

use sendo::queue::{Add, Core, Options, Queue, Reason};
use sendo::{ObjectKey, World};

/// How many keys are processed in each measurement.
const ROUNDS: u32 = 2_000_000;

pub(crate) async fn measure() {
    println!("| queue: add + get + done | 1,000 keys | 1,000,000 keys | ratio |");
    println!("|---|---|---|---|");
    row("state alone, number keys", |keys| core(keys, u64::from));
    row("state alone, object keys", |keys| core(keys, object_key));
    row("shared queue, object keys", shared);
    println!();
}

fn row(name: &str, nanos: impl Fn(u32) -> f64) {
    let (few, many) = (nanos(1_000), nanos(1_000_000));
    println!(
        "| {name} | {few:.0} ns | {many:.0} ns | {:.2} |",
        many / few
    );
}

pub(crate) fn object_key(number: u32) -> ObjectKey {
    ObjectKey::namespaced("production", &format!("web-7d4b9c5f8-{number:06}"))
}

const EVENT: Add = Add::because(Reason::EVENT);

/// A queue in which `keys` keys are ready.
pub(crate) fn full<K: Clone + Eq + std::hash::Hash + std::fmt::Debug>(
    keys: u32,
    key: impl Fn(u32) -> K,
) -> Core<K> {
    let mut core = Core::new(Options::default());
    let now = sendo::Moment::START;
    for number in 0..keys {
        core.add(now, key(number), EVENT);
    }
    core
}

/// Nanoseconds to take a key out, finish it and put it in again at the end.
fn core<K: Clone + Eq + std::hash::Hash + std::fmt::Debug>(
    keys: u32,
    key: impl Fn(u32) -> K,
) -> f64 {
    let mut core = full(keys, key);
    let clock = World::real().clock().clone();
    let now = clock.now();
    for _ in 0..keys {
        turn(&mut core, now);
    }
    let started = clock.now();
    for _ in 0..ROUNDS {
        turn(&mut core, now);
    }
    let took = clock.now() - started;
    black_box(core);
    took.as_nanos() as f64 / f64::from(ROUNDS)
}

fn turn<K: Clone + Eq + std::hash::Hash + std::fmt::Debug>(core: &mut Core<K>, now: sendo::Moment) {
    if let Some(pick) = core.pick(now) {
        core.done(now, pick.ticket);
        core.add(now, pick.key, EVENT);
    }
}

/// The same through the lock and the clock that workers share.
fn shared(keys: u32) -> f64 {
    let world = World::real();
    let queue = Queue::new(&world, Options::default());
    for number in 0..keys {
        queue.add(object_key(number), Reason::EVENT);
    }
    let rounds = ROUNDS / 4;
    let turns = |rounds: u32| {
        let queue = queue.clone();
        tokio::task::block_in_place(move || {
            tokio::runtime::Handle::current().block_on(async move {
                for _ in 0..rounds {
                    let Some(picked) = queue.next().await else {
                        return;
                    };
                    let key = picked.key().clone();
                    picked.done();
                    queue.add(key, Reason::EVENT);
                }
            });
        });
    };
    turns(keys);
    let clock = world.clock();
    let started = clock.now();
    turns(rounds);
    (clock.now() - started).as_nanos() as f64 / f64::from(rounds)
}
