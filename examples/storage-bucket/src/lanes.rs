//! How many checks of one endpoint go on at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for so many checks of each endpoint. Clones share it.
///
/// A store that does not answer holds each of its checks up until the time-out;
/// with a limit of its own it cannot take all the workers from the others.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    at_once: usize,
    busy: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// A place among the checks of an endpoint, until it is dropped.
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

    /// A place, if there is one.
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
    fn each_endpoint_has_its_own_room() {
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
