//! CEL functions of IP addresses and CIDRs.

use std::fmt;
use std::net::IpAddr;

use crate::addresses::{Cidr, ip_text};
use crate::cel::eval::{Fault, Machine, Result};
use crate::cel::value::Value;
use crate::go_quote;

fn text<'v>(args: &'v [Value<'_>]) -> Result<&'v str> {
    match args.first() {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

fn address(args: &[Value<'_>]) -> Result<IpAddr> {
    match args.first() {
        Some(Value::Ip(ip)) => Ok(*ip),
        _ => Err(Fault::no_such_overload()),
    }
}

fn range(args: &[Value<'_>]) -> Result<Cidr> {
    match args.first() {
        Some(Value::Cidr(range)) => Ok(*range),
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Reads an address; one with a zone, or IPv4 written as IPv6, is none here.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = go_quote(text);
    let Ok(ip) = text.parse::<IpAddr>() else {
        if let Some((address, zone)) = text.split_once('%')
            && !zone.is_empty()
            && matches!(address.parse(), Ok(IpAddr::V6(_)))
        {
            return Err(format!(
                "IP address {quoted} with zone value is not allowed"
            ));
        }
        let why = unreadable_ip(text);
        return Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {why}"
        ));
    };
    if is_mapped(ip) {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(ip)
}

/// What is wrong with an address, and where, as Go reports it.
struct Unreadable<'t> {
    why: &'static str,
    at: &'t str,
}

impl fmt::Display for Unreadable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)?;
        if self.at.is_empty() {
            return Ok(());
        }
        write!(f, " (at {})", go_quote(self.at))
    }
}

/// Why Go does not read an address that is none.
fn unreadable_ip(text: &str) -> Unreadable<'_> {
    let fault = match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        None => Err(whole("unable to parse IP")),
        Some(b'%') => Err(whole("missing IPv6 address")),
        Some(b'.') => read_v4(text),
        Some(_) => read_v6(text),
    };
    fault.err().unwrap_or(whole("unable to parse IP"))
}

/// A fault of no particular place.
fn whole(why: &'static str) -> Unreadable<'static> {
    Unreadable { why, at: "" }
}

fn read_v4(text: &str) -> Result<(), Unreadable<'_>> {
    let (mut value, mut digits, mut dots) = (0u32, 0, 0);
    for (i, byte) in text.bytes().enumerate() {
        let fault = |why| {
            Err(Unreadable {
                why,
                at: &text[i..],
            })
        };
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(whole("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(whole("IPv4 field has value >255"));
                }
            }
            b'.' if digits == 0 || i + 1 == text.len() => {
                return fault("IPv4 field must have at least one digit");
            }
            b'.' if dots == 3 => return Err(whole("IPv4 address too long")),
            b'.' => (value, digits, dots) = (0, 0, dots + 1),
            _ => return fault("unexpected character"),
        }
    }
    if dots < 3 {
        return Err(whole("IPv4 address too short"));
    }
    Ok(())
}

fn read_v6(text: &str) -> Result<(), Unreadable<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    if zone == Some("") {
        return Err(whole("zone must be a non-empty string"));
    }
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
    }
    let mut bytes = 0;
    while bytes < 16 && !(rest.is_empty() && gap == Some(bytes)) {
        let at = rest;
        let fault = |why| Err(Unreadable { why, at });
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return fault("each group must have 4 or less digits");
        }
        if digits == 0 {
            return fault("each colon-separated field must have at least one digit");
        }
        if rest[digits..].starts_with('.') {
            if gap.is_none() && bytes != 12 {
                return fault(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                );
            }
            if bytes + 4 > 16 {
                return fault(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                );
            }
            read_v4(rest)?;
            (rest, bytes) = ("", bytes + 4);
            break;
        }
        bytes += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let at = rest;
        let fault = |why| Err(Unreadable { why, at });
        let Some(after) = rest.strip_prefix(':') else {
            return fault("unexpected character, want colon");
        };
        if after.is_empty() {
            return fault("colon must be followed by more characters");
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                let why = "multiple :: in address";
                return Err(Unreadable { why, at: rest });
            }
            gap = Some(bytes);
            rest = after;
        }
    }
    if !rest.is_empty() {
        let why = "trailing garbage after address";
        return Err(Unreadable { why, at: rest });
    }
    match gap {
        None if bytes < 16 => Err(whole("address string too short")),
        Some(_) if bytes == 16 => Err(whole("the :: must expand to at least one field of zeros")),
        _ => Ok(()),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let quoted = go_quote(text);
    let failed = |why: &str| {
        Err(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({quoted}): {why}"
        ))
    };
    let Some((address, prefix)) = text.rsplit_once('/') else {
        return failed("no '/'");
    };
    let Ok(ip) = address.parse::<IpAddr>() else {
        let why = unreadable_ip(address);
        return failed(&format!("ParseAddr({}): {why}", go_quote(address)));
    };
    if is_mapped(ip) {
        return Err(format!(
            "network address parse error during conversion from string: IPv4-mapped IPv6 address {quoted} is not allowed"
        ));
    }
    let digits = prefix.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = prefix.len() > 1 && prefix.starts_with('0');
    let bits = prefix
        .parse::<u8>()
        .ok()
        .filter(|_| digits && !leading_zero);
    let Some(bits) = bits else {
        return failed(&format!("bad bits after slash: {}", go_quote(prefix)));
    };
    if bits > if ip.is_ipv4() { 32 } else { 128 } {
        return failed("prefix length out of range");
    }
    Ok(Cidr {
        address: ip,
        prefix: bits,
    })
}

pub(in crate::cel) fn ip<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args.first() {
        Some(Value::Cidr(range)) => Ok(Value::Ip(range.address)),
        Some(Value::Text(text)) => parse_ip(text).map(Value::Ip).map_err(Fault::new),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(in crate::cel) fn is_ip<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(parse_ip(text(args)?).is_ok()))
}

pub(in crate::cel) fn is_canonical<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let text = text(args)?;
    let ip = parse_ip(text).map_err(Fault::new)?;
    Ok(Value::Bool(ip_text(ip) == text))
}

pub(in crate::cel) fn family<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(if address(args)?.is_ipv4() { 4 } else { 6 }))
}

pub(in crate::cel) fn is_unspecified<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(address(args)?.is_unspecified()))
}

pub(in crate::cel) fn is_loopback<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(address(args)?.is_loopback()))
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(in crate::cel) fn is_link_local_multicast<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(link_local_multicast(address(args)?)))
}

pub(in crate::cel) fn is_link_local_unicast<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Bool(link_local_unicast(address(args)?)))
}

pub(in crate::cel) fn is_global_unicast<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let ip = address(args)?;
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    Ok(Value::Bool(
        !broadcast
            && !ip.is_unspecified()
            && !ip.is_loopback()
            && !ip.is_multicast()
            && !link_local_unicast(ip),
    ))
}

pub(in crate::cel) fn cidr<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    parse_cidr(text(args)?).map(Value::Cidr).map_err(Fault::new)
}

pub(in crate::cel) fn is_cidr<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(parse_cidr(text(args)?).is_ok()))
}

pub(in crate::cel) fn contains_ip<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let ip = match args.get(1) {
        Some(Value::Ip(ip)) => *ip,
        // Kubernetes does not report what is wrong with an address here.
        Some(Value::Text(text)) => parse_ip(text).map_err(|_| Fault::no_such_overload())?,
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Bool(range(args)?.contains(ip)))
}

pub(in crate::cel) fn contains_cidr<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    let inner = match args.get(1) {
        Some(Value::Cidr(inner)) => *inner,
        Some(Value::Text(text)) => parse_cidr(text).map_err(Fault::new)?,
        _ => return Err(Fault::no_such_overload()),
    };
    let outer = range(args)?;
    let holds = outer.prefix <= inner.prefix && outer.contains(inner.address);
    Ok(Value::Bool(holds))
}

pub(in crate::cel) fn prefix_length<'a>(
    _: &mut Machine<'a>,
    args: &[Value<'a>],
) -> Result<Value<'a>> {
    Ok(Value::Int(i64::from(range(args)?.prefix)))
}

pub(in crate::cel) fn masked<'a>(_: &mut Machine<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let range = range(args)?;
    Ok(Value::Cidr(Cidr {
        address: range.network(),
        prefix: range.prefix,
    }))
}
