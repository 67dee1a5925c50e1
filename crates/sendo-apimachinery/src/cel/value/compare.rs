//! Which values are equal, and which comes first.

use std::cmp::Ordering;

use super::list::Identity;
use super::{List, Map, Value};

/// Compares values, and counts what it looks at.
///
/// A list may hold another many times over, so the work is not bounded by what
/// it took to make the values.
#[derive(Debug)]
pub(in crate::cel) struct Comparison {
    /// How much may still be looked at.
    left: u64,
    looked: u64,
}

impl Comparison {
    pub(in crate::cel) fn within(left: u64) -> Self {
        Comparison { left, looked: 0 }
    }

    /// How many parts were looked at.
    pub(in crate::cel) fn looked(&self) -> u64 {
        self.looked
    }

    /// Whether it gave up: its answers mean nothing then.
    pub(in crate::cel) fn gave_up(&self) -> bool {
        self.left == 0
    }

    fn look(&mut self, parts: u64) -> bool {
        self.looked = self.looked.saturating_add(parts);
        self.left = self.left.saturating_sub(parts);
        self.left > 0
    }

    /// Whether two values are equal. Numbers are, whatever their type.
    pub(in crate::cel) fn equal<'a>(&mut self, one: &Value<'a>, other: &Value<'a>) -> bool {
        if !self.look(1) {
            return false;
        }
        match (one, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Text(one), Value::Text(other)) => {
                self.look(one.len() as u64 / 64);
                **one == **other
            }
            (Value::Bytes(one), Value::Bytes(other)) => one == other,
            (Value::List(one), Value::List(other)) => self.lists_equal(one, other),
            (Value::Map(one), Value::Map(other)) => self.maps_equal(one, other),
            (Value::Duration(one), Value::Duration(other)) => one == other,
            (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
            (Value::Kind(one), Value::Kind(other)) => one == other,
            (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Optional(Some(one)), Value::Optional(Some(other))) => self.equal(one, other),
            (Value::Quantity(one), Value::Quantity(other)) => one == other,
            (Value::Ip(one), Value::Ip(other)) => one == other,
            (Value::Cidr(one), Value::Cidr(other)) => one == other,
            (Value::Url(one), Value::Url(other)) => one == other,
            (Value::Semver(one), Value::Semver(other)) => one.cmp(other) == Ordering::Equal,
            (Value::Format(one), Value::Format(other)) => one == other,
            (Value::Preserved(one), Value::Preserved(other)) => one == other,
            (Value::Made(one), Value::Made(other)) => {
                one.name == other.name
                    && one.fields.len() == other.fields.len()
                    && one
                        .fields
                        .iter()
                        .zip(&other.fields)
                        .all(|(one, other)| one.0 == other.0 && self.equal(one.1, other.1))
            }
            _ => numbers(one, other) == Some(Ordering::Equal),
        }
    }

    fn lists_equal<'a>(&mut self, one: &List<'a>, other: &List<'a>) -> bool {
        if one.len() != other.len() || !self.look(one.len() as u64) {
            return false;
        }
        let (Ok(mine), Ok(others)) = (one.values(), other.values()) else {
            return false;
        };
        match one.identity() {
            Identity::Position => mine
                .iter()
                .zip(&others)
                .all(|(one, other)| self.equal(one, other)),
            Identity::Value => others
                .iter()
                .all(|other| mine.iter().any(|own| self.equal(own, other))),
            Identity::Keys => others.iter().all(|other| {
                let keys = one.keys_of(other);
                mine.iter()
                    .find(|own| self.same_keys(&one.keys_of(own), &keys))
                    .is_some_and(|own| self.equal(own, other))
            }),
        }
    }

    pub(super) fn same_keys<'a>(
        &mut self,
        one: &[Option<Value<'a>>],
        other: &[Option<Value<'a>>],
    ) -> bool {
        one.len() == other.len()
            && one.iter().zip(other).all(|pair| match pair {
                (Some(one), Some(other)) => self.equal(one, other),
                (None, None) => true,
                _ => false,
            })
    }

    fn maps_equal<'a>(&mut self, one: &Map<'a>, other: &Map<'a>) -> bool {
        if one.len() != other.len() || !self.look(one.len() as u64) {
            return false;
        }
        if let (Map::Json(members, _), Map::Json(others, _)) = (one, other) {
            let agree = |name: &String| match (one.unknown(name), others.get(name)) {
                (Some(value), Some(other)) => value == other,
                _ => true,
            };
            if !members.keys().all(agree) {
                return false;
            }
        }
        one.keys()
            .iter()
            .all(|key| match (one.find(key), other.find(key)) {
                (Some(Ok(one)), Some(Ok(other))) => self.equal(&one, &other),
                (None, None) => true,
                _ => false,
            })
    }
}

impl<'a> Value<'a> {
    /// Which of two values comes first; none if they cannot be compared.
    pub(in crate::cel) fn order(&self, other: &Value<'a>) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
            (Value::Text(one), Value::Text(other)) => Some(one.as_bytes().cmp(other.as_bytes())),
            (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
            (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
            (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.cmp(other)),
            _ => numbers(self, other),
        }
    }
}

fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (one, other) {
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), other) => double_and_whole(*one, whole(other)?),
        (one, Value::Double(other)) => double_and_whole(*other, whole(one)?).map(Ordering::reverse),
        _ => Some(whole(one)?.cmp(&whole(other)?)),
    }
}

/// Exact, where a conversion to a double would not be.
fn double_and_whole(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Doubles beyond this are beyond every whole number of ours.
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        });
    }
    let floor = double.floor();
    Some((floor as i128).cmp(&whole).then(if double > floor {
        Ordering::Greater
    } else {
        Ordering::Equal
    }))
}
