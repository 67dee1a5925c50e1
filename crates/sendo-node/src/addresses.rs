//! The addresses of a node and of its pods.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use sendo::Uid;

/// The address of node `number`.
pub(crate) fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number.wrapping_add(1))
}

/// The range the pods of node `number` live in.
pub(crate) fn pod_range(number: u8) -> String {
    format!("10.244.{number}.0/24")
}

/// The pod addresses of one node: given out in turn, given back when a pod is gone.
#[derive(Debug)]
pub(crate) struct PodAddresses {
    number: u8,
    taken: BTreeMap<Uid, u8>,
    last: u8,
}

impl PodAddresses {
    pub(crate) fn new(number: u8) -> Self {
        PodAddresses {
            number,
            taken: BTreeMap::new(),
            last: 1,
        }
    }

    /// The address of a pod: the one it has, else the next one free. `None` if all are taken.
    pub(crate) fn of(&mut self, pod: &Uid) -> Option<Ipv4Addr> {
        if let Some(host) = self.taken.get(pod) {
            return Some(self.address(*host));
        }
        let free = |host: &u8| !self.taken.values().any(|taken| taken == host);
        let host = (self.last + 1..=254).chain(2..=self.last).find(free)?;
        self.last = host;
        self.taken.insert(pod.clone(), host);
        Some(self.address(host))
    }

    /// Keeps the address a pod had before this agent started.
    pub(crate) fn keep(&mut self, pod: &Uid, address: Ipv4Addr) {
        let [10, 244, number, host] = address.octets() else {
            return;
        };
        if number == self.number {
            self.taken.insert(pod.clone(), host);
        }
    }

    /// Gives an address back.
    pub(crate) fn release(&mut self, pod: &Uid) {
        self.taken.remove(pod);
    }

    fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, self.number, host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_keeps_its_address_and_others_get_others() {
        let mut addresses = PodAddresses::new(3);
        let first = addresses.of(&"a".into());
        assert_eq!(first, Some(Ipv4Addr::new(10, 244, 3, 2)));
        assert_eq!(addresses.of(&"a".into()), first);
        assert_ne!(addresses.of(&"b".into()), first);
    }

    #[test]
    fn addresses_are_given_back_and_then_given_out_again() {
        let mut addresses = PodAddresses::new(0);
        for pod in 0..253 {
            assert!(addresses.of(&pod.to_string().as_str().into()).is_some());
        }
        assert_eq!(addresses.of(&"late".into()), None);
        addresses.release(&"7".into());
        assert_eq!(
            addresses.of(&"late".into()),
            Some(Ipv4Addr::new(10, 244, 0, 9))
        );
    }
}
