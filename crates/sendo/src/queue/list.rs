//! First-in-first-out lists threaded through a slab: an entry joins and leaves
//! from anywhere in constant time, and nothing is allocated.

use slab::Slab;

/// No entry.
const NONE: u32 = u32::MAX;

/// An entry's neighbours in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: u32,
    after: u32,
}

impl Link {
    pub(super) const LOOSE: Link = Link {
        before: NONE,
        after: NONE,
    };
}

/// An entry that can be in several lists at once, one per link.
pub(super) trait Linked {
    fn link(&mut self, which: usize) -> &mut Link;
}

/// A list that uses its entries' link number `WHICH`.
#[derive(Debug)]
pub(super) struct List<const WHICH: usize> {
    first: u32,
    last: u32,
    len: usize,
}

impl<const WHICH: usize> List<WHICH> {
    pub(super) const EMPTY: Self = List {
        first: NONE,
        last: NONE,
        len: 0,
    };

    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push_back<E: Linked>(&mut self, entries: &mut Slab<E>, at: u32) {
        *entries[at as usize].link(WHICH) = Link {
            before: self.last,
            after: NONE,
        };
        match self.last {
            NONE => self.first = at,
            last => entries[last as usize].link(WHICH).after = at,
        }
        self.last = at;
        self.len += 1;
    }

    /// Takes out `at`, which is in this list.
    pub(super) fn remove<E: Linked>(&mut self, entries: &mut Slab<E>, at: u32) {
        let link = std::mem::replace(entries[at as usize].link(WHICH), Link::LOOSE);
        match link.before {
            NONE => self.first = link.after,
            before => entries[before as usize].link(WHICH).after = link.after,
        }
        match link.after {
            NONE => self.last = link.before,
            after => entries[after as usize].link(WHICH).before = link.before,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Entry([Link; 2]);

    impl Linked for Entry {
        fn link(&mut self, which: usize) -> &mut Link {
            &mut self.0[which]
        }
    }

    fn drain<const WHICH: usize>(list: &mut List<WHICH>, entries: &mut Slab<Entry>) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(at) = list.first() {
            list.remove(entries, at);
            order.push(at);
        }
        order
    }

    #[test]
    fn entries_leave_from_anywhere_and_the_rest_keep_their_order() {
        let mut entries = Slab::new();
        for _ in 0..6 {
            entries.insert(Entry([Link::LOOSE; 2]));
        }
        let mut list = List::<0>::EMPTY;
        let mut other = List::<1>::EMPTY;
        for at in 0..6 {
            list.push_back(&mut entries, at);
            other.push_back(&mut entries, 5 - at);
        }
        for gone in [0, 3, 5] {
            list.remove(&mut entries, gone);
        }
        list.push_back(&mut entries, 0);
        assert_eq!(list.len(), 4);
        assert_eq!(drain(&mut list, &mut entries), [1, 2, 4, 0]);
        assert_eq!(drain(&mut other, &mut entries), [5, 4, 3, 2, 1, 0]);
        assert_eq!((list.len(), list.first()), (0, None));
    }
}
