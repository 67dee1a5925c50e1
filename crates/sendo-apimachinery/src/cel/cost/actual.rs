//! The price of a call that was made.

use super::size::Size;
use super::{AUTHORIZATION_CHECK, NEW_LIST, PER_CHARACTER, PER_PATTERN_CHARACTER, Price, selector};
use crate::cel::value::Value;

/// What a call cost beside its arguments.
pub(in crate::cel) fn actual(price: Price, args: &[Value<'_>], result: &Value<'_>) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, actual_size);
    match price {
        Price::Free | Price::Logic | Price::Conditional => 0,
        Price::Equality => match &args[0] {
            Value::Quantity(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Semver(_)
            | Value::Authorization(_) => 1,
            _ => up(size(0).min(size(1)) as f64 * PER_CHARACTER),
        },
        Price::Comparison => match &args[0] {
            Value::Text(_) | Value::Bytes(_) => up(size(0).min(size(1)) as f64 * PER_CHARACTER),
            _ => 1,
        },
        Price::Add => match &args[0] {
            Value::Text(_) | Value::Bytes(_) => up((size(0) + size(1)) as f64 * PER_CHARACTER),
            _ => 1,
        },
        Price::In => match &args[1] {
            Value::List(_) => size(1),
            _ => 1,
        },
        Price::Transcode => match (&args[0], result) {
            (Value::Text(_), Value::Bytes(_)) | (Value::Bytes(_), Value::Text(_)) => {
                up(size(0) as f64 * PER_CHARACTER)
            }
            _ => 1,
        },
        Price::Contains => {
            up(size(0) as f64 * PER_CHARACTER).saturating_mul(up(size(1) as f64 * PER_CHARACTER))
        }
        Price::Ends | Price::Format | Price::Quote | Price::Rewrite => {
            up(size(0) as f64 * PER_CHARACTER)
        }
        Price::Scan(_) if matches!(args[0], Value::Cidr(_)) => 1,
        Price::Scan(times) => up(size(0) as f64 * times * PER_CHARACTER),
        Price::Matches | Price::Find => up((1 + size(0)) as f64 * PER_CHARACTER)
            .saturating_mul(up(size(1) as f64 * PER_PATTERN_CHARACTER)),
        Price::ListScan => traversal(&args[0]),
        Price::Replace | Price::Split => up(size(0) as f64 * 2.0 * PER_CHARACTER),
        Price::Join => up(actual_size(result) as f64 * 2.0 * PER_CHARACTER),
        Price::Slice | Price::Range | Price::Reverse => listed(1.0, actual_size(result)),
        Price::Flatten => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => *depth as f64,
                _ => 1.0,
            };
            listed(depth, size(0))
        }
        Price::Sort | Price::Distinct => compared(&args[0]),
        Price::SortBy => compared(&args[1]),
        Price::Sets(factor) => 1 + (size(0).saturating_mul(size(1)) as f64 * factor) as u64,
        Price::ContainsIp | Price::ContainsCidr => {
            let range = size(0);
            let mut cost = up((range + range) as f64 * PER_CHARACTER);
            if price == Price::ContainsCidr {
                cost += up(range as f64 * PER_CHARACTER) + 1;
            }
            if matches!(args[1], Value::Text(_)) {
                cost += up(size(1) as f64 * PER_CHARACTER);
            }
            cost
        }
        Price::Validate => {
            let pattern = match &args[0] {
                Value::Format(format) => format.pattern_size(),
                _ => 1,
            };
            up((1 + size(1)) as f64 * PER_CHARACTER)
                .saturating_mul(up(pattern as f64 * PER_PATTERN_CHARACTER))
        }
        Price::AuthorizationCheck => AUTHORIZATION_CHECK,
        Price::Selector => selector(Size::fixed(size(1))).max,
        Price::Unit | Price::Index | Price::Dyn => 1,
    }
}

/// How large a value is: characters, items, entries or bytes.
pub(in crate::cel) fn actual_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(list) => list.len() as u64,
        Value::Map(map) => map.len() as u64,
        Value::Ip(ip) => {
            if ip.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Cidr(range) => {
            if range.address.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Optional(Some(inner)) => actual_size(inner),
        _ => 1,
    }
}

fn up(cost: f64) -> u64 {
    cost.ceil() as u64
}

fn listed(factor: f64, size: u64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + NEW_LIST)
}

/// The cost of comparing all items with each other.
fn compared(list: &Value<'_>) -> u64 {
    let Value::List(items) = list else {
        return 1;
    };
    let size = items.len() as u64;
    let of_text = matches!(items.get(0), Some(Ok(Value::Text(_) | Value::Bytes(_))));
    let factor = if of_text { 2.0 + PER_CHARACTER } else { 2.0 };
    listed(factor, size.saturating_mul(size))
}

/// The cost of looking at a value and all that is in it.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => (text.len() as f64 * PER_CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * PER_CHARACTER) as u64,
        Value::List(items) => (0..items.len())
            .filter_map(|i| items.get(i)?.ok())
            .map(|item| traversal(&item))
            .sum(),
        Value::Map(map) => map
            .entries()
            .filter_map(Result::ok)
            .map(|(key, value)| traversal(&key) + traversal(&value))
            .sum(),
        _ => 1,
    }
}
