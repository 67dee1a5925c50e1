//! Members of decoded objects, by name.

use std::borrow::Borrow;
use std::cmp::Ordering;

use ref_cast::RefCast;
use serde_json::{Map, Value};

/// A name that is looked up, in the order of texts.
///
/// Rules ask for hundreds of members of each object, nearly all of which are not
/// there. Of two names the first letter decides most often, so it is compared here,
/// before a function is called that compares the rest.
#[derive(PartialEq, Eq, Hash, RefCast)]
#[repr(transparent)]
struct Name(str);

impl Ord for Name {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other) = (self.0.as_bytes(), other.0.as_bytes());
        match (one.first(), other.first()) {
            (Some(one), Some(other)) if one != other => one.cmp(other),
            _ => one.cmp(other),
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
        fn names_are_in_the_order_of_texts(one in "[ab\u{e9}]{0,4}", other in "[ab\u{e9}]{0,4}") {
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
