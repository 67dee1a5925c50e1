//! Why a key is in the queue.

use std::fmt;

/// Why a key was added. Compared by its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason(&'static str);

impl Reason {
    /// The object, or one that maps to it, changed.
    pub const EVENT: Reason = Reason("event");
    /// The object was there when its watch began.
    pub const INITIAL: Reason = Reason("initial");
    /// The cache delivered the object again with no change.
    pub const RESYNC: Reason = Reason("resync");
    /// The last attempt failed.
    pub const RETRY: Reason = Reason("retry");
    /// The last reconcile returned [`Action::after`](crate::Action::after).
    pub const AFTER: Reason = Reason("after");
    /// Stands for the rest, once a queue has seen more different reasons than it can number.
    const OTHER: Reason = Reason("other");

    /// A reason of one's own: a word or two, such as `"tick"`.
    pub const fn new(text: &'static str) -> Self {
        Reason(text)
    }

    /// The text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How many different reasons an entry keeps.
const KEPT: usize = 4;

/// Why an entry was in the queue: its first four different reasons, in the order they came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reasons {
    kept: [Reason; KEPT],
    len: u8,
    adds: u32,
}

impl Reasons {
    /// The reasons kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Reason> + '_ {
        self.kept[..usize::from(self.len)].iter().copied()
    }

    /// How many additions were merged into the entry, itself included: up to 65,535 are counted.
    pub fn adds(&self) -> u32 {
        self.adds
    }
}

/// `event, retry`
impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, reason) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{reason}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The reasons of an entry, as numbers: six bytes instead of a list of texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReasonSet {
    /// From the first on, until [`NONE`].
    kept: [u8; KEPT],
    /// The counter stops at 65,535.
    adds: u16,
}

/// No reason has this number.
const NONE: u8 = u8::MAX;

impl Default for ReasonSet {
    fn default() -> Self {
        ReasonSet {
            kept: [NONE; KEPT],
            adds: 0,
        }
    }
}

impl ReasonSet {
    pub(super) fn add(&mut self, number: u8) {
        self.adds = self.adds.saturating_add(1);
        let mut kept = self.kept.iter_mut();
        if let Some(place) = kept.find(|kept| **kept == number || **kept == NONE) {
            *place = number;
        }
    }
}

/// Numbers for the reasons a queue has seen: a handful, as they are texts of the program.
#[derive(Debug, Default)]
pub(super) struct ReasonNumbers(Vec<Reason>);

impl ReasonNumbers {
    pub(super) fn number(&mut self, reason: Reason) -> u8 {
        if let Some(at) = self.0.iter().position(|known| *known == reason) {
            return at as u8;
        }
        match self.0.len() {
            254 => self.0.push(Reason::OTHER),
            255.. => return 254,
            _ => self.0.push(reason),
        }
        (self.0.len() - 1) as u8
    }

    pub(super) fn decode(&self, set: ReasonSet) -> Reasons {
        let (mut kept, mut len) = ([Reason::OTHER; KEPT], 0);
        for number in set.kept.into_iter().take_while(|number| *number != NONE) {
            kept[usize::from(len)] = self.0[usize::from(number)];
            len += 1;
        }
        Reasons {
            kept,
            len,
            adds: set.adds.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_kept_once_in_order_and_counted() {
        let mut numbers = ReasonNumbers::default();
        let mut set = ReasonSet::default();
        let retry = Reason::new("retry");
        for reason in [Reason::EVENT, retry, Reason::EVENT, Reason::RETRY] {
            set.add(numbers.number(reason));
        }
        let reasons = numbers.decode(set);
        assert_eq!(reasons.to_string(), "event, retry");
        assert_eq!(reasons.adds(), 4);
    }

    #[test]
    fn more_reasons_than_fit_are_left_out() {
        let mut numbers = ReasonNumbers::default();
        let mut set = ReasonSet::default();
        for text in ["a", "b", "c", "d", "e"] {
            set.add(numbers.number(Reason::new(text)));
        }
        assert_eq!(numbers.decode(set).to_string(), "a, b, c, d");
    }

    #[test]
    fn a_queue_that_has_seen_too_many_reasons_calls_the_next_other() {
        let mut numbers = ReasonNumbers::default();
        let text = |n: usize| Reason::new(Box::leak(n.to_string().into_boxed_str()));
        let last: Vec<u8> = (0..400).map(|n| numbers.number(text(n))).collect();
        assert_eq!((last[253], last[254], last[399]), (253, 254, 254));
        let mut set = ReasonSet::default();
        set.add(numbers.number(text(399)));
        assert_eq!(numbers.decode(set).to_string(), "other");
    }
}
