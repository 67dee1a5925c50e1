//! The cache of owners that are known to be deleted.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/garbagecollector/uid_cache.go`

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use sendo::Uid;

/// How many uids are kept; for an owner that is not among them the API server is asked.
const CAPACITY: usize = 10_000;

/// The uids of objects whose deletion was watched. Clones share them.
///
/// For these owners the API server need not be asked. It could not be asked for custom resources
/// whose definition is deleted: its objects are deleted first, and their kind is not served then.
#[derive(Clone, Debug, Default)]
pub(super) struct AbsentOwners(Arc<Mutex<Uids>>);

#[derive(Debug, Default)]
struct Uids {
    uids: BTreeSet<Uid>,
    oldest_first: VecDeque<Uid>,
}

impl AbsentOwners {
    pub(super) fn insert(&self, uid: Uid) {
        let mut known = self.0.lock();
        if !known.uids.insert(uid.clone()) {
            return;
        }
        known.oldest_first.push_back(uid);
        if known.oldest_first.len() > CAPACITY
            && let Some(oldest) = known.oldest_first.pop_front()
        {
            known.uids.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        let known = self.0.lock();
        known.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_removed() {
        let absent = AbsentOwners::default();
        let uid = |number: usize| Uid::from(number.to_string().as_str());
        for number in 0..=CAPACITY {
            absent.insert(uid(number));
            absent.insert(uid(number));
        }
        assert!(!absent.contains(&uid(0)));
        assert!(absent.contains(&uid(1)) && absent.contains(&uid(CAPACITY)));
    }
}
