//! Requests and limits of compute resources.

use serde_json::Value;

use super::value::{Read, Write};

/// A container that limits a resource without requesting it requests the limit.
pub(super) fn requests_from_limits(resources: &mut Value) {
    let limits: Vec<(String, Value)> = resources
        .entries("limits")
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    for (name, value) in limits {
        resources.object("requests").default_to(&name, value);
    }
}

/// A quantity in billionths; 0 for what is none.
pub(super) fn amount(quantity: &Value) -> i128 {
    let text = match quantity {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return 0,
    };
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let scale: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => 1_000_000_000,
        "k" => 1_000_000_000_000,
        "M" => 1_000_000_000_000_000,
        "G" => 1_000_000_000_000_000_000,
        "T" => 1_000_000_000_000_000_000_000,
        "Ki" => 1_000_000_000 << 10,
        "Mi" => 1_000_000_000 << 20,
        "Gi" => 1_000_000_000 << 30,
        "Ti" => 1_000_000_000 << 40,
        _ => return 0,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = whole.parse().unwrap_or(0);
    let divisor = 10_i128.pow(fraction.len() as u32);
    let fraction: i128 = fraction.parse().unwrap_or(0);
    whole * scale + fraction * scale / divisor
}
