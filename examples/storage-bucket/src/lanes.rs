//! Limits the concurrent checks of each endpoint.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A limit of concurrent checks for each endpoint. Clones share it.
///
/// Checks of a store that does not respond take until the time-out; with this limit
/// they cannot occupy all workers.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    at_once: usize,
    busy: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// A permit for a check of an endpoint, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lane {
    lanes: Lanes,
    endpoint: String,
}

impl Lanes {
    pub(crate) fn new(at_once: usize) -> Self {
        Lanes {
            at_once,
            busy: Arc::default(),
        }
    }

    /// A permit, if the limit is not reached.
    pub(crate) fn enter(&self, endpoint: &str) -> Option<Lane> {
        let mut busy = self.lock();
        let checks = busy.entry(endpoint.to_owned()).or_default();
        if *checks >= self.at_once {
            return None;
        }
        *checks += 1;
        Some(Lane {
            lanes: self.clone(),
            endpoint: endpoint.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut busy = self.lanes.lock();
        if let Some(checks) = busy.get_mut(&self.endpoint) {
            *checks -= 1;
            if *checks == 0 {
                busy.remove(&self.endpoint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_has_its_own_limit() {
        let lanes = Lanes::new(2);
        let held: Vec<_> = (0..3).map(|_| lanes.enter("a")).collect();
        let entered: Vec<_> = held.iter().map(Option::is_some).collect();
        assert_eq!(entered, [true, true, false]);
        assert!(lanes.enter("b").is_some());
        drop(held);
        assert!(lanes.enter("a").is_some());
        assert!(lanes.lock().is_empty(), "nothing is kept of what is over");
    }
}
