//! The addresses to which endpoints may resolve.
//!
//! A user who may write a StorageBucket chooses where this program connects to,
//! from inside the cluster's network. Addresses that can be reached only from the same
//! machine or link, such as the metadata service of a cloud, which has credentials,
//! are refused. The address is checked and not the name, because any name can
//! resolve to any address.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// Metadata services that have addresses of the ordinary kind.
const METADATA: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// The rule for addresses to connect to: all but link-local, multicast,
/// unspecified and known metadata addresses, unless they are allowed.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    allowed: Vec<Network>,
}

/// An address that must not be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} leads to {address}, where no endpoint may be")]
pub struct Refused {
    /// The host of the endpoint.
    pub host: String,
    /// The address.
    pub address: IpAddr,
}

impl Egress {
    /// The rule, with these networks allowed whatever they are.
    pub fn allowing(networks: impl IntoIterator<Item = Network>) -> Self {
        Egress {
            allowed: networks.into_iter().collect(),
        }
    }

    /// Whether an address may be connected to.
    pub fn permits(&self, address: IpAddr) -> bool {
        // An IPv4 address may be mapped to an IPv6 address.
        let address = address.to_canonical();
        let allowed = self.allowed.iter().any(|net| net.contains(address));
        allowed || !is_local(address)
    }

    /// Refuses a host that is an address itself, which is not resolved.
    pub(crate) fn check_literal(&self, host: &str) -> Result<(), Refused> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse() {
            Ok(address) if !self.permits(address) => Err(Refused {
                host: host.to_owned(),
                address,
            }),
            _ => Ok(()),
        }
    }
}

fn is_local(address: IpAddr) -> bool {
    let near = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    near || address.is_multicast() || address.is_unspecified() || METADATA.contains(&address)
}

/// A network, written `169.254.7.0/24`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The error for text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network: write an address, or one such as 10.0.0.0/8")]
pub struct NoNetwork(String);

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let no = || NoNetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| no())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.trim().parse().map_err(|_| no())?,
            None => longest,
        };
        match prefix <= longest {
            true => Ok(Network { address, prefix }),
            false => Err(no()),
        }
    }
}

impl Network {
    fn contains(&self, other: IpAddr) -> bool {
        let same = |ours: u128, theirs: u128, bits: u8| {
            let rest = u32::from(bits - self.prefix);
            ours.checked_shr(rest) == theirs.checked_shr(rest)
        };
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// Resolves names with the system's resolver, and refuses addresses by the rule. A
/// name with several addresses keeps those that are permitted.
#[derive(Clone)]
pub(crate) struct GuardedResolver {
    pub(crate) egress: Egress,
    pub(crate) inner: GaiResolver,
}

impl fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedResolver").finish_non_exhaustive()
    }
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let host = name.as_str().to_owned();
        let resolving = self.inner.call(name);
        let egress = self.egress.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = resolving.await?.collect();
            let (good, bad): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|at| egress.permits(at.ip()));
            match bad.first() {
                Some(bad) if good.is_empty() => Err(io::Error::other(Refused {
                    host,
                    address: bad.ip(),
                })),
                _ => Ok(good.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_metadata_addresses_are_refused() {
        let egress = Egress::default();
        for bad in [
            "169.254.169.254",
            "169.254.1.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!egress.permits(bad.parse().unwrap()), "{bad}");
        }
        for good in [
            "10.0.0.1",
            "192.168.1.1",
            "127.0.0.1",
            "52.218.0.1",
            "fd00::1",
        ] {
            assert!(egress.permits(good.parse().unwrap()), "{good}");
        }
    }

    #[test]
    fn allowed_networks_are_permitted() {
        let egress = Egress::allowing(["169.254.7.0/24".parse().unwrap()]);
        assert!(egress.permits("169.254.7.9".parse().unwrap()));
        assert!(!egress.permits("169.254.8.9".parse().unwrap()));
        let all = Egress::allowing(["0.0.0.0/0".parse().unwrap()]);
        assert!(all.permits("169.254.169.254".parse().unwrap()));
        assert!(!all.permits("fe80::1".parse().unwrap()));
    }

    #[test]
    fn networks_read_as_they_are_written() {
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "a/8", "::/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        assert!("::1".parse::<Network>().is_ok());
    }

    #[test]
    fn an_address_in_place_of_a_name_is_checked_too() {
        let egress = Egress::default();
        assert!(egress.check_literal("169.254.169.254").is_err());
        assert!(egress.check_literal("[fe80::1]").is_err());
        assert!(egress.check_literal("127.0.0.1").is_ok());
        assert!(egress.check_literal("s3.example.dev").is_ok());
    }

    #[tokio::test]
    async fn a_name_is_refused_by_its_address() {
        let resolver = GuardedResolver {
            egress: Egress::default(),
            inner: GaiResolver::new(),
        };
        // The resolver of the machine reads an address as a name, too.
        let resolve = |name: &str| resolver.clone().call(name.parse().unwrap());
        assert!(
            resolve("localhost")
                .await
                .is_ok_and(|found| found.count() > 0)
        );
        let refused = resolve("169.254.169.254").await.unwrap_err();
        assert!(
            refused.to_string().contains("no endpoint may be"),
            "{refused}"
        );
    }
}
