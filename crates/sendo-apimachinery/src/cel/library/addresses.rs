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

/// Why Go does not read an address.
fn unreadable_ip(text: &str) -> &'static str {
    match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        None | Some(b'%') => "unable to parse IP",
        Some(b'.') => {
            let fields: Vec<&str> = text.split('.').collect();
            let value = |field: &&str| field.parse::<u32>().ok();
            if text.bytes().any(|b| b != b'.' && !b.is_ascii_digit()) {
                "unexpected character"
            } else if fields.iter().any(|field| field.is_empty()) {
                "IPv4 field must have at least one digit"
            } else if fields
                .iter()
                .any(|field| field.len() > 1 && field.starts_with('0'))
            {
                "IPv4 field has octet with leading zero"
            } else if fields
                .iter()
                .any(|field| value(field).is_none_or(|value| value > 255))
            {
                "IPv4 field has value >255"
            } else if fields.len() > 4 {
                "IPv4 address too long"
            } else {
                "IPv4 address too short"
            }
        }
        Some(_) => {
            let groups = text.split(':').count();
            if text
                .bytes()
                .any(|b| b != b':' && b != b'.' && !b.is_ascii_hexdigit())
            {
                "unexpected character"
            } else if text.matches("::").count() > 1 {
                "multiple :: in address"
            } else if text
                .split(':')
                .any(|group| group.len() > 4 && !group.contains('.'))
            {
                "each group must have 4 or fewer digits"
            } else if groups > 8 {
                "trailing garbage after address"
            } else {
                "address string too short"
            }
        }
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
        // Kubernetes does not tell what is wrong with an address here.
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
