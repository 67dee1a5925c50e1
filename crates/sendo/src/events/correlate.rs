//! Correlates an occurrence with earlier ones: it becomes a new event, a higher count of a known
//! one, or is dropped.
//!
//! Pure: time comes with the occurrence. The figures are those of Kubernetes' own
//! components (client-go `tools/record/events_cache.go`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use sendo_world::{Moment, Timestamp};

use super::Occurrence;

/// More distinct messages than this in [`SIMILAR_TIME`] are combined into one event.
const SIMILAR: usize = 10;
const SIMILAR_TIME: Duration = Duration::from_secs(600);

/// What one object may cause at once, and how many seconds earn it one more.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;

/// How many events, groups and objects are remembered of each.
const MEMORY: usize = 4096;

/// An event that is to be written: a new one if it happened for the first time,
/// else its new count.
#[derive(Debug, PartialEq)]
pub(super) struct ToWrite {
    pub(super) id: Id,
    pub(super) message: String,
    pub(super) event: Known,
}

/// An event that was given out to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
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
    events: Remembered<Id, Known>,
    objects: Remembered<Object, Allowance>,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Moment,
}

#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Moment,
}

impl Correlator {
    /// Counts an occurrence, also one that is then dropped: the count of the next write includes
    /// it. A new event is named by `name`. Returns `None` if there are too many about its object.
    pub(super) fn correlate(
        &mut self,
        occurrence: &Occurrence,
        name: impl FnOnce() -> String,
    ) -> Option<ToWrite> {
        let group = Group::new(occurrence);
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
        let known = self.events.get(&id).map(|event| {
            event.count = event.count.saturating_add(1);
            event.clone()
        });
        if !self.allows(&object, occurrence.moment) {
            return None;
        }
        let event = known.unwrap_or_else(|| {
            let event = Known {
                name: name(),
                count: 1,
                first: occurrence.at,
            };
            self.events.put(id.clone(), event.clone());
            event
        });
        Some(ToWrite { id, message, event })
    }

    /// Forgets an event that was never written: the next occurrence is the first.
    pub(super) fn forget(&mut self, id: &Id) {
        self.events.remove(id);
    }

    fn is_one_of_many(&mut self, group: &Group, occurrence: &Occurrence) -> bool {
        let fresh = || Similar {
            messages: BTreeSet::new(),
            last: occurrence.moment,
        };
        let similar = self.groups.get_or_put(group, fresh);
        if occurrence.moment - similar.last > SIMILAR_TIME {
            similar.messages.clear();
        }
        similar.last = occurrence.moment;
        similar.messages.insert(occurrence.message.clone());
        if similar.messages.len() < SIMILAR {
            return false;
        }
        // Room for the next, which is then one of many, too.
        similar.messages.pop_first();
        true
    }

    fn allows(&mut self, object: &Object, at: Moment) -> bool {
        let full = || Allowance { left: BURST, at };
        let allowance = self.objects.get_or_put(object, full);
        let earned = (at - allowance.at).as_secs_f64() / REFILL_SECONDS;
        allowance.left = (allowance.left + earned).min(BURST);
        allowance.at = at;
        if allowance.left < 1.0 {
            return false;
        }
        allowance.left -= 1.0;
        true
    }
}

impl Group {
    fn new(occurrence: &Occurrence) -> Self {
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

    /// Slow, for what is rare: it looks at all keys.
    fn remove(&mut self, key: &K) {
        if self.values.remove(key).is_some() {
            self.order.retain(|known| known != key);
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
    use crate::events::EventSeverity;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn at(object: &str, message: &str, second: i64) -> Occurrence {
        Occurrence {
            about: ObjectReference {
                name: Some(object.to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            kind: EventSeverity::Normal,
            reason: "Reason".to_owned(),
            action: "Reason".to_owned(),
            message: message.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
            moment: Moment::START + Duration::from_secs(second.unsigned_abs()),
        }
    }

    fn correlate(correlator: &mut Correlator, occurrence: &Occurrence) -> Option<ToWrite> {
        correlator.correlate(occurrence, || format!("event {}", occurrence.message))
    }

    /// How often it has happened; 0 for one that is not written.
    fn count(written: &Option<ToWrite>) -> i32 {
        written.as_ref().map_or(0, |written| written.event.count)
    }

    #[test]
    fn an_equal_event_counts_up() {
        let mut correlator = Correlator::default();
        let mut counts = Vec::new();
        for (object, message) in [("a", "m"), ("a", "m"), ("b", "m"), ("a", "m"), ("a", "n")] {
            counts.push(count(&correlate(&mut correlator, &at(object, message, 0))));
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
        assert_eq!(count(&correlate(&mut correlator, &one)), 1);
        assert_eq!(count(&correlate(&mut correlator, &other)), 1);
        assert_eq!(count(&correlate(&mut correlator, &one)), 2);
    }

    #[test]
    fn many_similar_events_are_combined() {
        let mut correlator = Correlator::default();
        let mut new = 0;
        for number in 0..20 {
            let written = correlate(&mut correlator, &at("a", &number.to_string(), number));
            let ToWrite { message, event, .. } = written.expect("not a flood yet");
            let is_new = event.count == 1;
            new += i32::from(is_new);
            let is_combined = message.starts_with("(combined");
            assert_eq!(is_combined, !is_new || number == 9, "{message}");
        }
        assert_eq!(new, 10);
    }

    #[test]
    fn similar_events_far_apart_stay_apart() {
        let mut correlator = Correlator::default();
        for number in 0..20 {
            let written = correlate(
                &mut correlator,
                &at("a", &number.to_string(), number * 1000),
            );
            assert_eq!(count(&written), 1, "{written:?}");
        }
    }

    #[test]
    fn an_event_that_was_never_written_begins_again() {
        let mut correlator = Correlator::default();
        let first = correlate(&mut correlator, &at("a", "m", 0)).expect("the first is written");
        correlator.forget(&first.id);
        assert_eq!(count(&correlate(&mut correlator, &at("a", "m", 1))), 1);
        assert_eq!(count(&correlate(&mut correlator, &at("a", "m", 2))), 2);
    }

    #[test]
    fn a_flood_about_one_object_is_cut_off_and_others_are_not() {
        let mut correlator = Correlator::default();
        for _ in 0..25 {
            assert_ne!(count(&correlate(&mut correlator, &at("a", "m", 0))), 0);
        }
        assert_eq!(count(&correlate(&mut correlator, &at("a", "m", 0))), 0);
        assert_ne!(count(&correlate(&mut correlator, &at("b", "m", 0))), 0);
        assert_eq!(count(&correlate(&mut correlator, &at("a", "m", 299))), 0);
        let next = correlate(&mut correlator, &at("a", "m", 301));
        assert_eq!(count(&next), 28, "those that were cut off count");
    }
}
