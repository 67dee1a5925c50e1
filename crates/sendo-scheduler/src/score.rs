//! Which of the nodes that will do is best.

use sendo::ObjectExt;

use crate::filter::term_matches;
use crate::pod::Pod;
use crate::room::{Amount, Room, requested};

/// The most a scorer gives.
const FULL: i64 = 100;

/// A named scorer and its weight; each gives 0 to 100.
pub type Scorer = (&'static str, i64, fn(&Pod, &Room) -> i64);

/// All scorers.
pub const SCORERS: &[Scorer] = &[
    ("NodeAffinity", 2, preferred),
    ("NodeResourcesFit", 1, least_allocated),
    ("NodeResourcesBalancedAllocation", 1, balanced),
];

/// The weighted sum over all scorers.
pub fn score(pod: &Pod, room: &Room) -> i64 {
    SCORERS
        .iter()
        .map(|(_, weight, scorer)| weight * scorer(pod, room))
        .sum()
}

/// The share of the pod's preferences, by weight, that the node meets.
fn preferred(pod: &Pod, room: &Room) -> i64 {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let preferences = affinity.and_then(|a| {
        a.preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let weigh = |met_only: bool| -> i64 {
        let terms = preferences.into_iter().flatten();
        let counted = terms.filter(|term| !met_only || term_matches(&term.preference, room));
        counted.map(|term| i64::from(term.weight)).sum()
    };
    match weigh(false) {
        0 => 0,
        all => FULL * weigh(true) / all,
    }
}

/// What would be taken with the pod on the node. A pod that asks for nothing
/// counts as a small one, so that such pods spread too.
fn taken_with(pod: &Pod, room: &Room) -> Amount {
    let nonzero = |pod: &Pod| {
        let asks = requested(pod);
        Amount {
            milli_cpu: if asks.milli_cpu == 0 {
                100
            } else {
                asks.milli_cpu
            },
            memory: if asks.memory == 0 {
                200 << 20
            } else {
                asks.memory
            },
        }
    };
    let all = room
        .pods
        .iter()
        .map(|pod| nonzero(pod))
        .chain([nonzero(pod)]);
    all.fold(Amount::default(), |sum, one| Amount {
        milli_cpu: sum.milli_cpu + one.milli_cpu,
        memory: sum.memory + one.memory,
    })
}

fn least_allocated(pod: &Pod, room: &Room) -> i64 {
    let taken = taken_with(pod, room);
    let free = |has: i64, taken: i64| match has {
        has if has <= 0 || taken > has => 0,
        has => (i128::from(has - taken) * i128::from(FULL) / i128::from(has)) as i64,
    };
    (free(room.has.milli_cpu, taken.milli_cpu) + free(room.has.memory, taken.memory)) / 2
}

/// Full marks when processors and memory are taken to the same degree.
fn balanced(pod: &Pod, room: &Room) -> i64 {
    let taken = taken_with(pod, room);
    let share = |has: i64, taken: i64| match has {
        has if has <= 0 => 1.0,
        has => (taken as f64 / has as f64).min(1.0),
    };
    let difference =
        share(room.has.milli_cpu, taken.milli_cpu) - share(room.has.memory, taken.memory);
    FULL - (difference.abs() / 2.0 * FULL as f64) as i64
}

/// The best room: the highest score, and of equals the one with the fewest pods, then by name.
pub(crate) fn best<'a>(pod: &Pod, rooms: &[&'a Room]) -> Option<&'a Room> {
    let rank = |room: &&&Room| {
        let name = std::cmp::Reverse(room.node.name().to_owned());
        (score(pod, room), std::cmp::Reverse(room.pods.len()), name)
    };
    rooms.iter().max_by_key(rank).copied()
}
