//! What becomes of an occurrence: a new event, one more of a known one, or nothing.
//!
//! Pure: time comes with the occurrence. The figures are those of Kubernetes' own components.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sendo_world::Timestamp;

use super::Occurrence;

/// More distinct messages than this in [`SIMILAR_SECONDS`] are combined into one event.
const SIMILAR: usize = 10;
const SIMILAR_SECONDS: i64 = 600;

/// What one object may cause at once, and how many seconds earn it one more.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;

/// How many events, groups and objects are remembered of each.
const MEMORY: usize = 4096;

/// What is to be done with an occurrence.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Write a new event.
    New { id: Id, message: String },
    /// An event that was written has happened once more.
    Again {
        id: Id,
        message: String,
        written: Written,
    },
    /// One too many about this object.
    Drop,
}

/// An event that was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    /// Its name.
    pub(super) name: String,
    /// How often it has happened.
    pub(super) count: i32,
    /// When it happened first.
    pub(super) first: Timestamp,
}

/// What makes two occurrences one event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    group: Group,
    /// Which part of the object it is about.
    field: Option<String>,
    /// `None`: the combined event of its group.
    message: Option<String>,
}

/// Occurrences that differ only in their message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    object: Object,
    kind: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    api_version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

/// What has been seen.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    groups: Remembered<Group, Similar>,
    events: Remembered<Id, Written>,
    objects: Remembered<Object, Allowance>,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Timestamp,
}

impl Correlator {
    /// Counts an occurrence, also one that is then dropped: the next one that
    /// is written tells of all.
    pub(super) fn judge(&mut self, occurrence: &Occurrence) -> Verdict {
        let group = Group::of(occurrence);
        let object = group.object.clone();
        let combined = self.is_one_of_many(&group, occurrence);
        let message = match combined {
            true => format!("(combined from similar events): {}", occurrence.message),
            false => occurrence.message.clone(),
        };
        let id = Id {
            group,
            field: occurrence.about.field_path.clone(),
            message: (!combined).then(|| occurrence.message.clone()),
        };
        let written = self.events.get(&id).map(|written| {
            written.count = written.count.saturating_add(1);
            written.clone()
        });
        if !self.allows(&object, occurrence.at) {
            return Verdict::Drop;
        }
        match written {
            Some(written) => Verdict::Again {
                id,
                message,
                written,
            },
            None => Verdict::New { id, message },
        }
    }

    /// Remembers how an event was written.
    pub(super) fn written(&mut self, id: Id, event: Written) {
        self.events.put(id, event);
    }

    fn is_one_of_many(&mut self, group: &Group, occurrence: &Occurrence) -> bool {
        let fresh = || Similar {
            messages: BTreeSet::new(),
            last: occurrence.at,
        };
        let similar = self.groups.get_or_put(group, fresh);
        if seconds_between(similar.last, occurrence.at) > SIMILAR_SECONDS as f64 {
            similar.messages.clear();
        }
        similar.last = occurrence.at;
        similar.messages.insert(occurrence.message.clone());
        if similar.messages.len() < SIMILAR {
            return false;
        }
        // Room for the next, which is then one of many, too.
        similar.messages.pop_first();
        true
    }

    fn allows(&mut self, object: &Object, at: Timestamp) -> bool {
        let full = || Allowance { left: BURST, at };
        let allowance = self.objects.get_or_put(object, full);
        let earned = seconds_between(allowance.at, at) / REFILL_SECONDS;
        allowance.left = (allowance.left + earned).min(BURST);
        allowance.at = at;
        if allowance.left < 1.0 {
            return false;
        }
        allowance.left -= 1.0;
        true
    }
}

fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64().max(0.0)
}

impl Group {
    fn of(occurrence: &Occurrence) -> Self {
        let about = occurrence.about.clone();
        Group {
            object: Object {
                api_version: about.api_version,
                kind: about.kind,
                namespace: about.namespace,
                name: about.name,
                uid: about.uid,
            },
            kind: occurrence.kind.as_str(),
            reason: occurrence.reason.clone(),
        }
    }
}

/// A map that forgets what came first when it grows too large.
#[derive(Debug)]
struct Remembered<K, V> {
    values: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Remembered {
            values: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Ord + Clone, V> Remembered<K, V> {
    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key)
    }

    fn put(&mut self, key: K, value: V) {
        if self.values.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.values.len() > MEMORY {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            self.values.remove(&oldest);
        }
    }

    fn get_or_put(&mut self, key: &K, value: impl FnOnce() -> V) -> &mut V {
        if !self.values.contains_key(key) {
            self.put(key.clone(), value());
        }
        self.values.get_mut(key).expect("it was there or put there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventType;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn at(object: &str, message: &str, second: i64) -> Occurrence {
        Occurrence {
            about: ObjectReference {
                name: Some(object.to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            kind: EventType::Normal,
            reason: "Reason".to_owned(),
            action: "Reason".to_owned(),
            message: message.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    fn write(correlator: &mut Correlator, occurrence: &Occurrence) -> Verdict {
        let verdict = correlator.judge(occurrence);
        if let Verdict::New { id, .. } = &verdict {
            let event = Written {
                name: format!("event {}", occurrence.message),
                count: 1,
                first: occurrence.at,
            };
            correlator.written(id.clone(), event);
        }
        verdict
    }

    fn count(verdict: &Verdict) -> i32 {
        match verdict {
            Verdict::New { .. } => 1,
            Verdict::Again { written, .. } => written.count,
            Verdict::Drop => 0,
        }
    }

    #[test]
    fn an_equal_event_counts_up() {
        let mut correlator = Correlator::default();
        let mut counts = Vec::new();
        for (object, message) in [("a", "m"), ("a", "m"), ("b", "m"), ("a", "m"), ("a", "n")] {
            counts.push(count(&write(&mut correlator, &at(object, message, 0))));
        }
        assert_eq!(counts, [1, 2, 1, 3, 1]);
    }

    #[test]
    fn events_about_two_parts_of_one_object_are_two() {
        let mut correlator = Correlator::default();
        let about = |field: &str| {
            let mut occurrence = at("pod", "Started", 0);
            occurrence.about.field_path = Some(field.to_owned());
            occurrence
        };
        let (one, other) = (about("spec.containers{a}"), about("spec.containers{b}"));
        assert_eq!(count(&write(&mut correlator, &one)), 1);
        assert_eq!(count(&write(&mut correlator, &other)), 1);
        assert_eq!(count(&write(&mut correlator, &one)), 2);
    }

    #[test]
    fn many_similar_events_are_combined() {
        let mut correlator = Correlator::default();
        let mut new = 0;
        for number in 0..20 {
            match write(&mut correlator, &at("a", &number.to_string(), number)) {
                Verdict::New { message, .. } => {
                    new += 1;
                    assert_eq!(message.starts_with("(combined"), number == 9, "{message}");
                }
                Verdict::Again { message, .. } => assert!(message.starts_with("(combined")),
                Verdict::Drop => panic!("not a flood yet"),
            }
        }
        assert_eq!(new, 10);
    }

    #[test]
    fn similar_events_far_apart_stay_apart() {
        let mut correlator = Correlator::default();
        for number in 0..20 {
            let verdict = write(
                &mut correlator,
                &at("a", &number.to_string(), number * 1000),
            );
            assert!(matches!(verdict, Verdict::New { .. }), "{verdict:?}");
        }
    }

    #[test]
    fn a_flood_about_one_object_is_cut_off_and_others_are_not() {
        let mut correlator = Correlator::default();
        for _ in 0..25 {
            assert_ne!(write(&mut correlator, &at("a", "m", 0)), Verdict::Drop);
        }
        assert_eq!(write(&mut correlator, &at("a", "m", 0)), Verdict::Drop);
        assert_ne!(write(&mut correlator, &at("b", "m", 0)), Verdict::Drop);
        assert_eq!(write(&mut correlator, &at("a", "m", 299)), Verdict::Drop);
        let next = write(&mut correlator, &at("a", "m", 301));
        assert_eq!(count(&next), 28, "those that were cut off count");
    }
}
