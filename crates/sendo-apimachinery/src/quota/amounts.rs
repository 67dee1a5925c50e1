//! Lists of resources, and sums of them.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go`

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::quantity::{Format, Quantity};

/// An amount of each resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts of a list of resources in an object; what cannot be read is zero.
pub fn read(list: &Value) -> Amounts {
    let members = list.as_object().into_iter().flatten();
    members
        .map(|(name, value)| (name.clone(), amount(value)))
        .collect()
}

/// An amount in an object, in thousandths at least, as the API keeps it.
pub(super) fn amount(value: &Value) -> Quantity {
    let read = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    let mut amount: Quantity = read.unwrap_or(Quantity::ZERO);
    amount.round_up_to_milli();
    amount
}

/// The list of resources for an object.
pub fn list(amounts: &Amounts) -> Value {
    let members = amounts.iter();
    let members: Map<String, Value> = members
        .map(|(name, amount)| (name.clone(), amount.to_string().into()))
        .collect();
    Value::Object(members)
}

/// Adds to a sum.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(known) => known.add(amount),
            None => {
                sum.insert(name.clone(), amount.clone());
            }
        }
    }
}

/// Raises amounts to at least these.
pub(super) fn raise(amounts: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if amounts.get(name).is_none_or(|known| known < amount) {
            amounts.insert(name.clone(), amount.clone());
        }
    }
}

/// What is left of amounts, at least nothing, without what is nothing.
pub fn subtract_to_zero(mut from: Amounts, less: &Amounts) -> Amounts {
    for (name, amount) in &mut from {
        if let Some(less) = less.get(name) {
            amount.sub(less);
        }
    }
    from.retain(|_, amount| !amount.is_zero() && !amount.is_negative());
    from
}

/// The amounts with these names.
pub fn mask<'n>(amounts: &Amounts, names: impl IntoIterator<Item = &'n str>) -> Amounts {
    let named = names.into_iter();
    named
        .filter_map(|name| Some((name.to_owned(), amounts.get(name)?.clone())))
        .collect()
}

/// The names of the amounts that are above their limits.
pub fn exceeding<'n>(amounts: &'n Amounts, limits: &Amounts) -> Vec<&'n str> {
    let is_above = |(name, amount): &(&String, &Quantity)| {
        limits.get(*name).is_some_and(|limit| *amount > limit)
    };
    let above = amounts.iter().filter(is_above);
    above.map(|(name, _)| name.as_str()).collect()
}

pub(super) fn count(objects: usize) -> Quantity {
    Quantity::from_units(i64::try_from(objects).unwrap_or(i64::MAX), Format::Decimal)
}

pub(super) fn one(name: &str) -> (String, Quantity) {
    (name.to_owned(), count(1))
}
