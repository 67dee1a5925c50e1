//! Members of decoded objects, by name.

use std::borrow::Borrow;
use std::cmp::Ordering;

use ref_cast::RefCast;
use serde_json::{Map, Value};

/// A name that is looked up, in the order of texts.
///
/// Rules ask for hundreds of members of each object, nearly all of which are not
/// there. Names are so short that the call of a comparison function takes longest, so they are
/// compared inline: the first bytes, which most often differ, then eight bytes at a time. A search
/// among the members of a pod's spec takes 6 ns, in the order of `str` 10 ns.
#[derive(PartialEq, Eq, Hash, RefCast)]
#[repr(transparent)]
struct Name(str);

impl Ord for Name {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut other) = (self.0.as_bytes(), other.0.as_bytes());
        if let (Some(byte), Some(other_byte)) = (one.first(), other.first())
            && byte != other_byte
        {
            return byte.cmp(other_byte);
        }
        while let (Some((eight, rest)), Some((other_eight, other_rest))) =
            (one.split_first_chunk(), other.split_first_chunk())
        {
            match u64::from_be_bytes(*eight).cmp(&u64::from_be_bytes(*other_eight)) {
                Ordering::Equal => (one, other) = (rest, other_rest),
                order => return order,
            }
        }
        let differ = one.iter().zip(other).find(|(one, other)| one != other);
        match differ {
            Some((one, other)) => one.cmp(other),
            None => one.len().cmp(&other.len()),
        }
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Borrow<Name> for String {
    fn borrow(&self) -> &Name {
        Name::ref_cast(self)
    }
}

/// The member of that name, if the value is an object that has one.
pub fn member<'o>(object: &'o Value, name: &str) -> Option<&'o Value> {
    among(object.as_object()?, name)
}

/// The same, to change it.
pub fn member_mut<'o>(object: &'o mut Value, name: &str) -> Option<&'o mut Value> {
    object.as_object_mut()?.get_mut(Name::ref_cast(name))
}

/// The one of that name among some members.
pub(crate) fn among<'o>(members: &'o Map<String, Value>, name: &str) -> Option<&'o Value> {
    members.get(Name::ref_cast(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_in_the_order_of_texts(same in "[ab]{0,16}", one in "[ab\u{e9}]{0,12}", other in "[ab\u{e9}]{0,12}") {
            let (one, other) = (same.clone() + &one, same + &other);
            let order = Name::ref_cast(&one).cmp(Name::ref_cast(&other));
            prop_assert_eq!(order, one.cmp(&other));
        }

        #[test]
        fn what_is_there_is_found(names: std::collections::BTreeSet<String>, other: String) {
            let mut object: Value = names.iter().map(|name| (name.clone(), Value::from(name.as_str()))).collect();
            for name in names.iter().chain([&other]) {
                let expected = names.contains(name).then(|| Value::from(name.as_str()));
                prop_assert_eq!(member(&object, name), expected.as_ref());
                prop_assert_eq!(member_mut(&mut object, name).cloned(), expected);
            }
            prop_assert_eq!(member(&Value::Null, &other), None);
        }
    }
}
