//! IP addresses and networks as fields of objects.
//!
//! Old fields take addresses with leading zeros and IPv4 written as IPv6; new
//! ones insist on one form for each address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::{Error, Path};
use crate::go_text::go_quote;

/// Reads an address as Kubernetes does: leading zeros are ignored.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    // The standard library refuses leading zeros; without them it decides.
    without_leading_zeros(text)?.parse().ok()
}

fn without_leading_zeros(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    for (i, b) in text.bytes().chain([b'.']).enumerate() {
        if b.is_ascii_hexdigit() {
            continue;
        }
        if b != b'.' && b != b':' {
            return None;
        }
        let digits = &text[start..i];
        let trimmed = digits.trim_start_matches('0');
        out.push_str(if trimmed.is_empty() && !digits.is_empty() {
            "0"
        } else {
            trimmed
        });
        if i < text.len() {
            out.push(b as char);
        }
        start = i + 1;
    }
    Some(out)
}

/// The text Go prints for an address: an IPv4 one written as IPv6 becomes plain.
pub fn ip_text(ip: IpAddr) -> String {
    ip.to_canonical().to_string()
}

/// A network: an address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address as it was written.
    pub address: IpAddr,
    /// How many leading bits name the network.
    pub prefix: u8,
}

impl Cidr {
    /// Reads `address/prefix` as Kubernetes does: leading zeros are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_ip(address)?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let prefix: u8 = prefix
            .trim_start_matches('0')
            .parse()
            .or_else(|e| {
                // Nothing left but zeros is zero.
                if prefix.bytes().all(|b| b == b'0') {
                    Ok(0)
                } else {
                    Err(e)
                }
            })
            .ok()?;
        (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(Cidr { address, prefix })
    }

    /// The address with all bits behind the prefix cleared.
    pub fn network(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix))
                    .unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix))
                    .unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        }
    }

    /// Whether an address lies in this network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        if ip.is_ipv4() != self.address.is_ipv4() {
            return false;
        }
        Cidr {
            address: ip,
            prefix: self.prefix,
        }
        .network()
            == self.network()
    }

    /// The one text of this network, its address masked.
    pub fn canonical(&self) -> String {
        let network = self.network();
        match network {
            // Go shortens such a network together with its address.
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() && self.prefix >= 96 => {
                format!("{}/{}", ip_text(network), self.prefix - 96)
            }
            _ => format!("{network}/{}", self.prefix),
        }
    }
}

/// How strictly an address is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Leading zeros and IPv4 in IPv6 are taken, as fields do that always took them.
    Sloppy,
    /// They are refused.
    Strict,
    /// Only the one canonical text of an address is taken.
    Canonical,
}

/// Checks an address.
pub fn validate_ip(path: &Path, value: &str, form: Form) -> Vec<Error> {
    let Some(ip) = parse_ip(value) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        return vec![Error::invalid(path, value, detail)];
    };
    if form == Form::Sloppy {
        return Vec::new();
    }
    if value.parse::<IpAddr>().is_err() {
        return vec![Error::invalid(path, value, "must not have leading 0s")];
    }
    if is_mapped(ip) {
        return vec![Error::invalid(
            path,
            value,
            "must not be an IPv4-mapped IPv6 address",
        )];
    }
    canonical_form(path, value, &ip_text(ip), form)
}

/// Checks a network.
pub fn validate_cidr(path: &Path, value: &str, form: Form) -> Vec<Error> {
    let Some(cidr) = Cidr::parse(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return vec![Error::invalid(path, value, detail)];
    };
    if form == Form::Sloppy {
        return Vec::new();
    }
    let (address, prefix) = value.split_once('/').expect("it was read as a network");
    let leading_zero = prefix.len() > 1 && prefix.starts_with('0');
    if address.parse::<IpAddr>().is_err() || leading_zero {
        return vec![Error::invalid(
            path,
            value,
            "must not have leading 0s in IP or prefix length",
        )];
    }
    if is_mapped(cidr.address) {
        return vec![Error::invalid(
            path,
            value,
            "must not have an IPv4-mapped IPv6 address",
        )];
    }
    if cidr.address != cidr.network() {
        let detail = "must not have bits set beyond the prefix length";
        return vec![Error::invalid(path, value, detail)];
    }
    canonical_form(path, value, &cidr.canonical(), form)
}

fn canonical_form(path: &Path, value: &str, canonical: &str, form: Form) -> Vec<Error> {
    if form == Form::Canonical && value != canonical {
        let detail = format!("must be in canonical form ({})", go_quote(canonical));
        return vec![Error::invalid(path, value, detail)];
    }
    Vec::new()
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(errors: Vec<Error>) -> Vec<String> {
        errors.into_iter().map(|e| e.detail).collect()
    }

    #[test]
    fn addresses_by_form() {
        let p = Path::new("ip");
        let invalid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        let cases = [
            ("10.0.0.1", [None, None, None]),
            ("2001:db8::1", [None, None, None]),
            (
                "010.0.0.1",
                [
                    None,
                    Some("must not have leading 0s"),
                    Some("must not have leading 0s"),
                ],
            ),
            (
                "::ffff:1.2.3.4",
                [
                    None,
                    Some("must not be an IPv4-mapped IPv6 address"),
                    Some("must not be an IPv4-mapped IPv6 address"),
                ],
            ),
            (
                "2001:DB8::1",
                [
                    None,
                    None,
                    Some("must be in canonical form (\"2001:db8::1\")"),
                ],
            ),
            ("10.0.0", [Some(invalid); 3]),
            ("10.0.0.256", [Some(invalid); 3]),
            ("fe80::1%eth0", [Some(invalid); 3]),
            ("", [Some(invalid); 3]),
        ];
        for (value, expected) in cases {
            for (form, expected) in [Form::Sloppy, Form::Strict, Form::Canonical]
                .into_iter()
                .zip(expected)
            {
                let found = faults(validate_ip(&p, value, form));
                assert_eq!(
                    found.first().map(String::as_str),
                    expected,
                    "{value} {form:?}"
                );
            }
        }
    }

    #[test]
    fn networks_by_form() {
        let p = Path::new("cidr");
        let cases = [
            ("10.0.0.0/8", Form::Canonical, None),
            ("::/0", Form::Canonical, None),
            ("10.0.0.1/8", Form::Sloppy, None),
            (
                "10.0.0.1/8",
                Form::Strict,
                Some("must not have bits set beyond the prefix length"),
            ),
            ("10.0.0.0/08", Form::Sloppy, None),
            (
                "10.0.0.0/08",
                Form::Strict,
                Some("must not have leading 0s in IP or prefix length"),
            ),
            (
                "2001:DB8::/32",
                Form::Canonical,
                Some("must be in canonical form (\"2001:db8::/32\")"),
            ),
            (
                "10.0.0.0/33",
                Form::Sloppy,
                Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ),
            (
                "10.0.0.0",
                Form::Sloppy,
                Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ),
        ];
        for (value, form, expected) in cases {
            let found = faults(validate_cidr(&p, value, form));
            assert_eq!(
                found.first().map(String::as_str),
                expected,
                "{value} {form:?}"
            );
        }
    }

    #[test]
    fn a_network_knows_its_addresses() {
        let cidr = Cidr::parse("10.96.0.0/12").unwrap();
        assert!(cidr.contains("10.111.255.255".parse().unwrap()));
        assert!(!cidr.contains("10.112.0.0".parse().unwrap()));
        assert!(!cidr.contains("::1".parse().unwrap()));
        assert!(
            Cidr::parse("0.0.0.0/0")
                .unwrap()
                .contains("1.2.3.4".parse().unwrap())
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = parse_ip(&text);
            let _ = Cidr::parse(&text).map(|c| c.canonical());
        }

        #[test]
        fn what_the_standard_library_reads_is_read_the_same(bits: u128) {
            let ip = IpAddr::V6(Ipv6Addr::from_bits(bits));
            proptest::prop_assert_eq!(parse_ip(&ip.to_string()), Some(ip));
        }
    }
}
