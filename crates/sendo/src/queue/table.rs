//! Where entries are found by their keys. Never iterated, so its random order is
//! never seen.

/// Numbers by hash: what is looked for lies in one line of memory, mostly, and
/// nothing is looked up elsewhere to find or to move a place.
///
/// Open addressing with linear probing; a removal closes the gap it leaves, so
/// there is nothing to clean up.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// A power of two of them, or none.
    slots: Box<[Slot]>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: u32,
}

const FREE: Slot = Slot {
    hash: 0,
    at: u32::MAX,
};

/// How few slots there are at least.
const FEWEST: usize = 16;

impl Slot {
    fn is_free(self) -> bool {
        self.at == u32::MAX
    }
}

impl Table {
    /// The number with this hash that `is_it`.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place(hash, is_it).map(|place| self.slots[place].at)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a number that is not there.
    pub(super) fn insert(&mut self, hash: u32, at: u32) {
        // At most seven of eight are taken, so every search ends.
        if self.len + 1 > self.slots.len() / 8 * 7 {
            self.grow();
        }
        self.put(Slot { hash, at });
        self.len += 1;
    }

    /// Takes out a number that is there.
    pub(super) fn remove(&mut self, hash: u32, at: u32) {
        let Some(mut gap) = self.place(hash, |found| found == at) else {
            return;
        };
        self.len -= 1;
        let last = self.slots.len() - 1;
        let mut next = (gap + 1) & last;
        // Whoever is not at home and would be nearer in the gap moves there.
        while !self.slots[next].is_free() {
            let from_home = next.wrapping_sub(self.home(self.slots[next].hash)) & last;
            if from_home >= (next.wrapping_sub(gap) & last) {
                self.slots[gap] = self.slots[next];
                gap = next;
            }
            next = (next + 1) & last;
        }
        self.slots[gap] = FREE;
    }

    fn place(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut place = self.home(hash);
        loop {
            let slot = self.slots[place];
            if slot.is_free() {
                return None;
            }
            if slot.hash == hash && is_it(slot.at) {
                return Some(place);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn put(&mut self, slot: Slot) {
        let mut place = self.home(slot.hash);
        while !self.slots[place].is_free() {
            place = (place + 1) & (self.slots.len() - 1);
        }
        self.slots[place] = slot;
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FEWEST);
        let before = std::mem::replace(&mut self.slots, vec![FREE; size].into());
        for slot in before {
            if !slot.is_free() {
                self.put(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sendo_world::Random;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_there_is_found_whatever_was_taken_out() {
        let random = Random::from_seed(1);
        let mut table = Table::default();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..20_000 {
            let at = random.below(0..300) as u32;
            match model.remove(&at) {
                Some(hash) => table.remove(hash, at),
                None => {
                    // Many share a home, and some a hash.
                    let hash = random.below(0..64) as u32;
                    table.insert(hash, at);
                    model.insert(at, hash);
                }
            }
            assert_eq!(table.len, model.len());
            for (at, hash) in model.iter().take(20) {
                assert_eq!(table.find(*hash, |found| found == *at), Some(*at));
            }
        }
        let absent = table.find(7, |_| false);
        assert_eq!(absent, None);
    }
}
