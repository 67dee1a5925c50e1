//! Warnings for IP addresses and CIDRs that are valid but not canonical.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go`: `GetWarningsForIP`,
//!   `GetWarningsForCIDR`

use std::net::IpAddr;

use sendo_apimachinery::addresses::{Cidr, ip_text, parse_ip};
use sendo_apimachinery::field::Path;

/// The warning for a valid address that is not canonical.
pub(crate) fn ip_warnings(path: &Path, text: &str) -> Option<String> {
    let ip = parse_ip(text)?;
    let preferred = ip_text(ip);
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => None,
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => (preferred != text).then(|| {
            format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format ({preferred:?})")
        }),
        _ => Some(format!(
            "{path}: non-standard IP address {text:?} is invalid: use {preferred:?}"
        )),
    }
}

/// Warnings for a valid CIDR that is not canonical.
pub(crate) fn cidr_warnings(path: &Path, text: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse(text) else {
        return Vec::new();
    };
    let preferred = cidr.canonical();
    let mut warnings = Vec::new();
    if cidr.address != cidr.network() {
        let length = if cidr.address.is_ipv4() { 32 } else { 128 };
        let single = format!("{}/{length}", ip_text(cidr.address));
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be {preferred:?} or {single:?}?)"
        ));
    }
    let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
    let leading_zero = prefix.len() > 1 && prefix.starts_with('0');
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) if !leading_zero => {}
        Ok(IpAddr::V6(ip)) if !leading_zero && ip.to_ipv4_mapped().is_none() => {
            if warnings.is_empty() && preferred != text {
                warnings.push(format!(
                    "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({preferred:?})"
                ));
            }
        }
        _ => warnings.push(format!(
            "{path}: non-standard CIDR value {text:?} is invalid: use {preferred:?}"
        )),
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        let cases = [
            ("192.0.2.1", None),
            ("2001:db8::1", None),
            (
                "192.0.2.01",
                Some("p: non-standard IP address \"192.0.2.01\" is invalid: use \"192.0.2.1\""),
            ),
            (
                "::ffff:192.0.2.1",
                Some(
                    "p: non-standard IP address \"::ffff:192.0.2.1\" is invalid: use \"192.0.2.1\"",
                ),
            ),
            (
                "2001:DB8::1",
                Some(
                    "p: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
                ),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(ip_warnings(&Path::new("p"), text).as_deref(), expected);
        }
    }

    #[test]
    fn networks_have_one_form() {
        let cases: [(&str, &[&str]); 4] = [
            ("192.0.2.0/24", &[]),
            (
                "192.0.2.5/24",
                &[
                    "p: CIDR value \"192.0.2.5/24\" is ambiguous in this context (should be \"192.0.2.0/24\" or \"192.0.2.5/32\"?)",
                ],
            ),
            (
                "192.0.2.0/024",
                &["p: non-standard CIDR value \"192.0.2.0/024\" is invalid: use \"192.0.2.0/24\""],
            ),
            (
                "2001:DB8::/64",
                &[
                    "p: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
                ],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(cidr_warnings(&Path::new("p"), text), expected);
        }
    }
}
