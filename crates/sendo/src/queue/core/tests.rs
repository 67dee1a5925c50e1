//! The rules of the queue, without a lock or a clock.

use super::super::Backoff;
use super::*;
use sendo_world::Random;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

fn at(ms: u64) -> Moment {
    Moment::START + Duration::from_millis(ms)
}

fn after(ms: u64) -> Add {
    Add::because(Reason::AFTER).after(Duration::from_millis(ms))
}

fn urgent(priority: i32) -> Add {
    Add::because(Reason::EVENT).priority(Priority(priority))
}

const EVENT: Add = Add::because(Reason::EVENT);

fn core<K: Hash + Eq + Clone + Debug>() -> Core<K> {
    Core::new(Options::default())
}

/// Picks and finishes everything that is ready.
fn drain<K: Hash + Eq + Clone + Debug>(core: &mut Core<K>, now: Moment) -> Vec<K> {
    let mut keys = Vec::new();
    while let Some(pick) = core.pick(now) {
        core.done(now, pick.ticket);
        keys.push(pick.key);
    }
    keys
}

#[test]
fn a_key_added_twice_is_picked_once() {
    let mut core = core();
    assert_eq!(core.add(at(0), "a", EVENT), Added::New);
    assert_eq!(core.add(at(1), "a", EVENT), Added::Merged);
    let pick = core.pick(at(3)).unwrap();
    assert_eq!((pick.key, pick.reasons.adds()), ("a", 2));
    assert_eq!(pick.waited, Duration::from_millis(3));
    assert!(core.pick(at(3)).is_none());
    assert_eq!(core.stats(at(3)).adds, 1);
}

#[test]
fn a_key_in_work_comes_back_only_when_done() {
    let mut core = core();
    core.add(at(0), "a", EVENT);
    let pick = core.pick(at(0)).unwrap();
    assert_eq!(core.add(at(1), "a", EVENT), Added::New);
    assert_eq!(core.add(at(1), "a", EVENT), Added::Merged);
    assert!(core.pick(at(2)).is_none());
    assert_eq!(core.done(at(5), pick.ticket), Duration::from_millis(5));
    let again = core.pick(at(5)).unwrap();
    assert_eq!((again.key, again.reasons.adds()), ("a", 2));
    assert_eq!(again.waited, Duration::from_millis(4));
    core.done(at(6), again.ticket);
    assert!(core.is_idle());
}

#[test]
fn inside_a_priority_the_order_is_that_of_arrival() {
    let mut core = core();
    for key in ["c", "a", "b"] {
        core.add(at(0), key, urgent(-100));
    }
    for key in ["z", "y"] {
        core.add(at(0), key, EVENT);
    }
    assert_eq!(drain(&mut core, at(0)), ["z", "y", "c", "a", "b"]);
}

#[test]
fn merged_additions_take_the_higher_priority_and_the_earlier_time() {
    let mut core = core();
    core.add(at(0), "low", urgent(-1));
    core.add(at(0), "mid", urgent(0));
    core.add(at(0), "low", urgent(1));
    core.add(at(0), "mid", urgent(-5));
    core.add(at(0), "later", after(50));
    core.add(at(0), "later", after(20));
    core.add(at(0), "later", after(90));
    assert_eq!(drain(&mut core, at(19)), ["low", "mid"]);
    assert_eq!(core.next_due(), Some(at(20)));
    assert_eq!(drain(&mut core, at(20)), ["later"]);
    core.add(at(30), "soon", after(50).priority(Priority(7)));
    core.add(at(30), "soon", EVENT);
    assert_eq!(core.pick(at(30)).unwrap().priority, Priority(7));
    assert_eq!(core.next_due(), None);
}

#[test]
fn delayed_entries_come_in_the_order_of_their_times_and_then_of_arrival() {
    let mut core = core();
    core.add(at(0), "b", after(10));
    core.add(at(0), "a", after(10));
    core.add(at(5), "first", after(1));
    core.add(at(11), "last", EVENT);
    assert_eq!(drain(&mut core, at(11)), ["first", "b", "a", "last"]);
}

#[test]
fn the_wait_of_a_delayed_entry_counts_from_when_it_was_due() {
    let mut core = core();
    core.add(at(0), "a", after(10));
    assert_eq!(core.pick(at(14)).unwrap().waited, Duration::from_millis(4));
}

#[test]
fn a_flood_of_urgent_entries_does_not_starve_the_others() {
    let fairness = NonZeroU32::new(5).unwrap();
    let mut core = Core::new(Options {
        fairness,
        ..Options::default()
    });
    for low in 0..20 {
        core.add(at(0), low, urgent(-100));
    }
    let mut next = 1000;
    let mut served = BTreeMap::new();
    for turn in 1..=100_u32 {
        while core.len() < 60 {
            core.add(at(0), next, urgent(10));
            next += 1;
        }
        let pick = core.pick(at(0)).unwrap();
        core.done(at(0), pick.ticket);
        served.insert(pick.key, turn);
    }
    for low in 0..20 {
        assert!(served[&low] <= 5 * (low + 1), "{low}: {}", served[&low]);
    }
}

#[test]
fn an_entry_that_becomes_urgent_keeps_its_age() {
    let mut core = core();
    core.add(at(0), 0, urgent(-100));
    for key in 1..20 {
        core.add(at(0), key, urgent(10));
    }
    core.add(at(0), 0, urgent(10));
    let order = drain(&mut core, at(0));
    assert!(order.iter().position(|key| *key == 0).unwrap() < 8);
}

#[test]
fn the_oldest_alone_in_its_lane_does_not_change_the_order() {
    let mut core = core();
    for key in 0..50 {
        core.add(at(0), key, EVENT);
    }
    assert_eq!(drain(&mut core, at(0)), (0..50).collect::<Vec<_>>());
}

#[test]
fn retries_back_off_until_forgotten() {
    let mut core = core();
    core.add(at(0), "a", urgent(3));
    let mut now = at(0);
    for (attempts, ms) in [5, 10, 20, 40].into_iter().enumerate() {
        let pick = core.pick(now).unwrap();
        assert_eq!(pick.attempts, attempts as u32);
        assert_eq!(pick.priority, Priority(3));
        let delay = Duration::from_millis(ms);
        assert_eq!(core.retry_picked(now, pick.ticket), Some(delay));
        core.done(now, pick.ticket);
        assert!(core.pick(now).is_none());
        now = now + delay;
    }
    core.forget(&"a");
    let pick = core.pick(now).unwrap();
    assert_eq!(pick.attempts, 0);
    let delay = core.retry(now, "a");
    assert_eq!(delay, Some(Duration::from_millis(5)));
    assert_eq!(core.stats(now).retries, 5);
}

#[test]
fn an_event_does_not_wait_for_a_backoff() {
    let mut core = core();
    core.retry(at(0), "a");
    core.retry(at(0), "a");
    core.add(at(1), "a", EVENT);
    let pick = core.pick(at(1)).unwrap();
    assert_eq!(pick.attempts, 1);
    assert_eq!(pick.reasons.to_string(), "retry, event");
}

#[test]
fn a_failure_before_the_backoff_was_over_waits_for_the_rest_of_it() {
    let mut core = core();
    let delays = [5, 10, 20].map(Duration::from_millis);
    let mut now = at(0);
    core.add(now, "a", EVENT);
    for delay in delays {
        let pick = core.pick(now).unwrap();
        assert_eq!(core.retry_picked(now, pick.ticket), Some(delay));
        core.done(now, pick.ticket);
        now = now + delay;
    }
    // Of the 20 ms that it is to wait after its third failure, 15 are left.
    let early = at(5 + 10 + 5);
    core.add(early, "a", EVENT);
    let pick = core.pick(early).unwrap();
    assert_eq!(pick.attempts, 3);
    let rest = Duration::from_millis(15);
    assert_eq!(core.retry_picked(early, pick.ticket), Some(rest));
    core.done(early, pick.ticket);
    assert_eq!(core.next_due(), Some(now));
    let pick = core.pick(now).unwrap();
    assert_eq!(pick.attempts, 3);
    let next = Duration::from_millis(40);
    assert_eq!(core.retry_picked(now, pick.ticket), Some(next));
    // Forgotten, it waits for nothing that was before.
    core.forget_picked(pick.ticket);
    let first = Duration::from_millis(5);
    assert_eq!(core.retry_picked(now, pick.ticket), Some(first));
}

#[test]
fn eighteen_events_in_a_second_do_not_put_off_the_next_retry() {
    let mut core = core();
    let mut now = at(0);
    for event in 0..18 {
        now = at(event * 55);
        core.add(now, "a", EVENT);
        while let Some(pick) = core.pick(now) {
            core.retry_picked(now, pick.ticket);
            core.done(now, pick.ticket);
        }
    }
    let next = core.next_due().unwrap();
    assert!(next - now <= Duration::from_secs(1), "{:?}", next - now);
}

#[test]
fn attempts_grow_no_faster_than_time_whatever_adds_the_key() {
    for seed in 0..100 {
        let random = Random::from_seed(seed);
        let backoff = Backoff::default();
        let mut core = core();
        let (mut now, mut counted, mut waited) = (at(0), 0, Duration::ZERO);
        core.add(now, "a", EVENT);
        for _ in 0..200 {
            if random.below(0..2) == 0 {
                core.add(now, "a", EVENT);
            }
            if let Some(pick) = core.pick(now) {
                // Some fail after a while, with events meanwhile.
                now = now + Duration::from_millis(random.below(0..3));
                if random.below(0..4) == 0 {
                    core.add(now, "a", EVENT);
                }
                if pick.attempts > counted {
                    waited += backoff.after(counted);
                    counted += 1;
                }
                assert_eq!(pick.attempts, counted, "seed {seed}");
                let delay = core.retry_picked(now, pick.ticket).unwrap();
                assert!(delay <= backoff.after(counted), "seed {seed}");
                core.done(now, pick.ticket);
            }
            now = now + Duration::from_millis(random.below(0..40));
            let last = counted.checked_sub(1).map(|last| backoff.after(last));
            let before_last = waited - last.unwrap_or_default();
            assert!(
                now - at(0) >= before_last,
                "seed {seed}: {counted} by {now:?}"
            );
        }
        assert!(counted > 5, "seed {seed}: {counted}");
    }
}

#[test]
fn a_key_that_leaves_the_queue_is_forgotten() {
    let mut core = core();
    core.retry(at(0), "a");
    assert_eq!(drain(&mut core, at(5)), ["a"]);
    assert_eq!(core.retry(at(6), "a"), Some(Duration::from_millis(5)));
}

#[test]
fn what_comes_again_has_the_priority_it_is_given_or_that_of_an_event_meanwhile() {
    let mut core = core();
    core.add(at(0), "a", urgent(4));
    let pick = core.pick(at(0)).unwrap();
    core.add_picked(at(0), pick.ticket, after(10).priority(Priority(1)));
    core.done(at(0), pick.ticket);
    let pick = core.pick(at(10)).unwrap();
    assert_eq!(pick.priority, Priority(1));
    core.add_picked(at(10), pick.ticket, after(10).priority(Priority(1)));
    core.add(at(11), "a", urgent(7));
    core.done(at(12), pick.ticket);
    assert_eq!(core.pick(at(12)).unwrap().priority, Priority(7));
}

#[test]
fn a_shutdown_hands_out_what_is_ready_and_drops_the_rest() {
    let mut core = core();
    for key in ["again", "later", "ready"] {
        core.add(at(0), key, EVENT);
    }
    let again = core.pick(at(0)).unwrap();
    let later = core.pick(at(0)).unwrap();
    core.add(at(0), "again", EVENT);
    core.add(at(0), "later", after(5));
    core.add(at(0), "waiting", after(5));
    core.shut_down(at(0));
    assert_eq!(core.add(at(0), "new", EVENT), Added::Refused);
    assert_eq!(core.retry_picked(at(0), later.ticket), None);
    core.done(at(0), again.ticket);
    core.done(at(0), later.ticket);
    assert_eq!(drain(&mut core, at(100)), ["ready", "again"]);
    assert!(core.is_idle());
}

#[test]
fn an_abandoned_queue_hands_out_nothing() {
    let mut core = core();
    core.add(at(0), "working", EVENT);
    let pick = core.pick(at(0)).unwrap();
    core.add(at(0), "working", EVENT);
    core.add(at(0), "ready", EVENT);
    core.add(at(0), "waiting", after(5));
    core.abandon(at(0));
    core.done(at(0), pick.ticket);
    assert!(core.pick(at(10)).is_none() && core.is_idle());
}

#[test]
fn stats_count_what_is_where_and_for_how_long() {
    let mut core = core();
    for key in 0..4 {
        core.add(at(0), key, EVENT);
    }
    core.add(at(0), 4, after(1000));
    core.add(at(0), 5, urgent(-100));
    let first = core.pick(at(0)).unwrap();
    core.pick(at(100)).unwrap();
    let stats = Stats {
        ready: vec![(Priority::LOW, 1), (Priority::NORMAL, 2)],
        waiting: 1,
        working: 2,
        longest_running: Duration::from_millis(300),
        unfinished: Duration::from_millis(500),
        adds: 6,
        retries: 1,
    };
    assert_eq!(core.stats(at(300)), stats);
    core.done(at(300), first.ticket);
    let stats = core.stats(at(300));
    assert_eq!(stats.longest_running, Duration::from_millis(200));
    assert_eq!(stats.unfinished, Duration::from_millis(200));
}

#[test]
fn an_empty_queue_gives_back_the_memory_of_a_burst() {
    let mut core = core();
    for key in 0..100_000 {
        core.add(at(0), key, EVENT);
    }
    drain(&mut core, at(0));
    assert!(core.entries.capacity() <= KEEP_CAPACITY);
    core.add(at(0), 1, EVENT);
    assert_eq!(drain(&mut core, at(0)), [1]);
}

/// The queue's rules without its lists: everything is found by looking at all entries.
#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, ModelEntry>,
    turn: u64,
    passed_over: u32,
}

#[derive(Default)]
struct ModelEntry {
    pending: Option<(Moment, u64, i32)>,
    /// Its place by age, and by arrival in its lane, once it is ready.
    ready: Option<(u64, u64)>,
    working: Option<i32>,
    attempts: u32,
    /// Until when it was to wait after its last failure that counted.
    backing_off: Option<Moment>,
}

impl Model {
    fn turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    fn add(&mut self, now: Moment, key: u64, due: Moment, priority: i32) {
        self.advance(now);
        let turn = self.turn();
        let entry = self.entries.entry(key).or_default();
        entry.pending = Some(match entry.pending {
            None => (due, turn, priority),
            Some((old, _, held)) if entry.ready.is_some() => {
                if priority > held {
                    entry.ready = entry.ready.map(|(age, _)| (age, turn));
                }
                (old, turn, held.max(priority))
            }
            Some((old, old_turn, held)) if old <= due => (old, old_turn, held.max(priority)),
            Some((_, _, held)) => (due, turn, held.max(priority)),
        });
        self.advance(now);
    }

    fn advance(&mut self, now: Moment) {
        let mut due: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.working.is_none() && entry.ready.is_none())
            .filter_map(|(key, entry)| entry.pending.map(|(due, turn, _)| (due, turn, *key)))
            .filter(|(due, ..)| *due <= now)
            .collect();
        due.sort();
        for (_, _, key) in due {
            let turn = self.turn();
            self.entries.get_mut(&key).unwrap().ready = Some((turn, turn));
        }
    }

    fn pick(&mut self, now: Moment) -> Option<u64> {
        self.advance(now);
        let ready = || {
            self.entries.iter().filter_map(|(key, entry)| {
                let (age, place) = entry.ready?;
                let (_, _, priority) = entry.pending?;
                Some((*key, age, place, priority))
            })
        };
        let oldest = ready().min_by_key(|(_, age, ..)| *age)?.0;
        let best = ready()
            .min_by_key(|(.., place, priority)| (-priority, *place))?
            .0;
        let key = if self.passed_over + 1 >= 8 {
            oldest
        } else {
            best
        };
        self.passed_over = if key == oldest {
            0
        } else {
            self.passed_over + 1
        };
        let entry = self.entries.get_mut(&key).unwrap();
        entry.ready = None;
        entry.working = entry.pending.take().map(|(_, _, priority)| priority);
        Some(key)
    }

    fn done(&mut self, now: Moment, key: u64) {
        self.advance(now);
        let turn = self.turn();
        let entry = self.entries.get_mut(&key).unwrap();
        entry.working = None;
        match &mut entry.pending {
            // What was added during the work takes its turn now.
            Some((_, place, _)) => *place = turn,
            None => drop(self.entries.remove(&key)),
        }
        self.advance(now);
    }
}

#[test]
fn it_behaves_as_its_rules_say_whatever_is_done_to_it() {
    for seed in 0..300 {
        let random = Random::from_seed(seed);
        let (mut core, mut model) = (core(), Model::default());
        let mut working: Vec<(u64, Ticket)> = Vec::new();
        let mut now = at(0);
        for _ in 0..400 {
            now = now + Duration::from_millis(random.below(0..4));
            let key = random.below(0..12);
            match random.below(0..10) {
                0..4 => {
                    let delay = Duration::from_millis(random.below(0..3) * 7);
                    let priority = random.below(0..4) as i32 - 2;
                    core.add(now, key, urgent(priority).after(delay));
                    model.add(now, key, now + delay, priority);
                }
                4 => {
                    let delay = core.retry(now, key).unwrap();
                    let entry = model.entries.entry(key).or_default();
                    let expected = match entry.backing_off {
                        Some(until) if until > now => until - now,
                        _ => {
                            let expected = Backoff::default().after(entry.attempts);
                            entry.attempts += 1;
                            entry.backing_off = Some(now + expected);
                            expected
                        }
                    };
                    assert_eq!(delay, expected, "seed {seed}");
                    let held = entry.pending.map(|(_, _, held)| held);
                    let priority = entry.working.or(held).unwrap_or_default();
                    model.add(now, key, now + delay, priority);
                }
                5..8 => {
                    let pick = core.pick(now);
                    let key = pick.as_ref().map(|pick| pick.key);
                    assert_eq!(key, model.pick(now), "seed {seed}");
                    working.extend(pick.map(|pick| (pick.key, pick.ticket)));
                }
                _ => {
                    if working.is_empty() {
                        continue;
                    }
                    let which = random.below(0..working.len() as u64) as usize;
                    let (key, ticket) = working.remove(which);
                    core.done(now, ticket);
                    model.done(now, key);
                }
            }
        }
        assert_eq!(core.stats(now).working, working.len());
        assert_eq!(core.entries.len(), model.entries.len(), "seed {seed}");
        assert_eq!(core.by_key.len(), core.entries.len());
    }
}

#[test]
fn an_entry_of_an_object_fills_one_line_of_memory() {
    assert_eq!(size_of::<Option<Entry<crate::ObjectKey>>>(), 64);
}
