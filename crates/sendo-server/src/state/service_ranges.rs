//! The networks and ports that services are given addresses and node ports from.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use sendo_apimachinery::addresses::Cidr;

/// What a cluster has to give to services.
#[derive(Clone, Debug)]
pub struct ServiceRanges {
    /// The networks that cluster addresses come from: one, or one of each family,
    /// the preferred one first. 10.96.0.0/12 by default.
    pub cidrs: Vec<Cidr>,
    /// The node ports. 30000 to 32767 by default.
    pub node_ports: RangeInclusive<u16>,
}

impl Default for ServiceRanges {
    fn default() -> Self {
        ServiceRanges {
            cidrs: vec![Cidr {
                address: IpAddr::from([10, 96, 0, 0]),
                prefix: 12,
            }],
            node_ports: 30000..=32767,
        }
    }
}

impl ServiceRanges {
    /// The families of addresses, the preferred one first.
    pub(crate) fn families(&self) -> Vec<&'static str> {
        let family = |cidr: &Cidr| {
            if cidr.address.is_ipv4() {
                "IPv4"
            } else {
                "IPv6"
            }
        };
        self.cidrs.iter().map(family).collect()
    }
}
