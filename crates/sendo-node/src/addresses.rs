//! The addresses of a node and of its pods.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use sendo::Uid;

/// The address of node `number`.
pub(crate) fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number.wrapping_add(1))
}

/// The range of the pod addresses of node `number`.
pub(crate) fn pod_range(number: u8) -> String {
    format!("10.244.{number}.0/24")
}

/// The pod addresses of one node: allocated in order, released when a pod is deleted.
#[derive(Debug)]
pub(crate) struct PodAddresses {
    number: u8,
    allocated: BTreeMap<Uid, u8>,
    last: u8,
}

impl PodAddresses {
    pub(crate) fn new(number: u8) -> Self {
        PodAddresses {
            number,
            allocated: BTreeMap::new(),
            last: 1,
        }
    }

    /// The address of a pod: the one it has, else the next free one. `None` if all are allocated.
    pub(crate) fn allocate(&mut self, pod: &Uid) -> Option<Ipv4Addr> {
        if let Some(host) = self.allocated.get(pod) {
            return Some(self.address(*host));
        }
        let free = |host: &u8| !self.allocated.values().any(|allocated| allocated == host);
        let host = (self.last + 1..=254).chain(2..=self.last).find(free)?;
        self.last = host;
        self.allocated.insert(pod.clone(), host);
        Some(self.address(host))
    }

    /// Keeps the address that a pod had before this agent started.
    pub(crate) fn keep(&mut self, pod: &Uid, address: Ipv4Addr) {
        let [10, 244, number, host] = address.octets() else {
            return;
        };
        if number == self.number {
            self.allocated.insert(pod.clone(), host);
        }
    }

    /// Releases the address of a pod.
    pub(crate) fn release(&mut self, pod: &Uid) {
        self.allocated.remove(pod);
    }

    fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, self.number, host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_keeps_an_address_of_its_own() {
        let mut addresses = PodAddresses::new(3);
        let first = addresses.allocate(&"a".into());
        assert_eq!(first, Some(Ipv4Addr::new(10, 244, 3, 2)));
        assert_eq!(addresses.allocate(&"a".into()), first);
        assert_ne!(addresses.allocate(&"b".into()), first);
    }

    #[test]
    fn a_released_address_is_allocated_again() {
        let mut addresses = PodAddresses::new(0);
        for pod in 0..253 {
            assert!(
                addresses
                    .allocate(&pod.to_string().as_str().into())
                    .is_some()
            );
        }
        assert_eq!(addresses.allocate(&"late".into()), None);
        addresses.release(&"7".into());
        assert_eq!(
            addresses.allocate(&"late".into()),
            Some(Ipv4Addr::new(10, 244, 0, 9))
        );
    }
}
