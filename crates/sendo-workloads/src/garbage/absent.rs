//! Owners that were seen to go.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use sendo::Uid;

/// How many are remembered; an owner forgotten is looked up instead.
const REMEMBERED: usize = 10_000;

/// The uids of objects whose deletion was watched. Clones share them.
///
/// What is known to be gone needs no look-up. More than that: when a definition
/// is deleted its objects go first, and then nobody can be asked for them any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Absent(Arc<Mutex<Remembered>>);

#[derive(Debug, Default)]
struct Remembered {
    uids: BTreeSet<Uid>,
    oldest_first: VecDeque<Uid>,
}

impl Absent {
    pub(super) fn remember(&self, uid: Uid) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.uids.insert(uid.clone()) {
            return;
        }
        known.oldest_first.push_back(uid);
        if known.oldest_first.len() > REMEMBERED
            && let Some(oldest) = known.oldest_first.pop_front()
        {
            known.uids.remove(&oldest);
        }
    }

    pub(super) fn knows(&self, uid: &Uid) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let absent = Absent::default();
        let uid = |number: usize| Uid::from(number.to_string().as_str());
        for number in 0..=REMEMBERED {
            absent.remember(uid(number));
            absent.remember(uid(number));
        }
        assert!(!absent.knows(&uid(0)));
        assert!(absent.knows(&uid(1)) && absent.knows(&uid(REMEMBERED)));
    }
}
