//! Names of events.

use sendo_world::{Random, Timestamp};

/// The longest name that an event can have (`NameIsDNSSubdomain`).
const LONGEST: usize = 253;

/// Gives every event a name of its own.
#[derive(Debug)]
pub(super) struct Names {
    random: Random,
    /// The number in the last name given.
    last: u64,
}

impl Names {
    pub(super) fn new(random: Random) -> Self {
        Names { random, last: 0 }
    }

    /// The name of an event that happened to `object` at `at`: the object's with
    /// a number that grows, so that a list has the events of an object in their order.
    ///
    /// The names of some objects, `system:node` say, are none that an event may
    /// have, or too long to add to: then the number comes first and chance after
    /// it, as client-go takes a uuid there (`util.GenerateEventName`).
    pub(super) fn name(&mut self, object: &str, at: Timestamp) -> String {
        let number = self.number(at);
        let name = format!("{object}.{number:016x}");
        match is_dns_subdomain(&name) {
            true => name,
            false => format!("{number:016x}.{}", self.random.name_suffix(8)),
        }
    }

    /// A number that distinguishes the event from others about the same object: its time in
    /// nanoseconds. The part below a millisecond is random, so that no two components choose the
    /// same. It grows even when the wall clock runs backwards.
    fn number(&mut self, at: Timestamp) -> u64 {
        const MILLISECOND: u64 = 1_000_000;
        let milliseconds = at.as_millisecond().max(0).unsigned_abs();
        let number = milliseconds * MILLISECOND + self.random.below(0..MILLISECOND);
        self.last = number.max(self.last + 1);
        self.last
    }
}

/// Whether a text is a DNS subdomain as Kubernetes has it (RFC 1123, in lower
/// case; apimachinery `pkg/util/validation`, `IsDNS1123Subdomain`).
fn is_dns_subdomain(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let [Some(first), Some(last)] = [bytes.first(), bytes.last()] else {
            return false;
        };
        is_inner(*first) && is_inner(*last) && bytes.iter().all(|b| is_inner(*b) || *b == b'-')
    };
    name.len() <= LONGEST && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_that_an_event_may_have() {
        let mut names = Names::new(Random::from_seed(1));
        let longest = "a".repeat(236);
        let at = Timestamp::UNIX_EPOCH;
        for (object, keeps_its_name) in [
            ("pod", true),
            ("node-1.example.com", true),
            (&longest, true),
            (&format!("{longest}a"), false),
            ("system:node", false),
            ("system:serviceaccount:a:b", false),
            ("Upper", false),
            ("-a", false),
            ("a-", false),
            ("a..b", false),
            ("", false),
        ] {
            let name = names.name(object, at);
            assert!(is_dns_subdomain(&name), "{name}");
            assert_eq!(
                name.starts_with(&format!("{object}.")),
                keeps_its_name,
                "{name}"
            );
        }
    }

    #[test]
    fn names_grow_when_the_clock_is_set_back() {
        let mut names = Names::new(Random::from_seed(1));
        let number = |name: String| name.split('.').next().unwrap().to_owned();
        let later = number(names.name("system:x", Timestamp::from_second(1000).unwrap()));
        let earlier = number(names.name("system:x", Timestamp::from_second(10).unwrap()));
        assert!(later < earlier, "{later} {earlier}");
    }
}
