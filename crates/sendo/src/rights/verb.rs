//! The verbs of requests, and sets of them.

use std::fmt;
use std::ops::BitOr;

/// What a request does with a resource, as RBAC has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Is told of changes.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces one.
    Update,
    /// Changes a part of one; server-side apply, too, which may also create.
    Patch,
    /// Deletes one.
    Delete,
    /// Deletes many.
    DeleteCollection,
    /// Binds a role whose rights the program does not have itself; checked within
    /// the creation of the binding.
    Bind,
    /// Writes a role with rights that the program does not have itself; checked
    /// within that write.
    Escalate,
    /// Acts as another user.
    Impersonate,
    /// Approves certificate requests of a signer; checked within the approval.
    Approve,
    /// Signs certificates of a signer; checked within the write of the certificate.
    Sign,
}

/// All verbs in the order in which they are printed, with their names.
const NAMES: [(Verb, &str); 13] = [
    (Verb::Get, "get"),
    (Verb::List, "list"),
    (Verb::Watch, "watch"),
    (Verb::Create, "create"),
    (Verb::Update, "update"),
    (Verb::Patch, "patch"),
    (Verb::Delete, "delete"),
    (Verb::DeleteCollection, "deletecollection"),
    (Verb::Bind, "bind"),
    (Verb::Escalate, "escalate"),
    (Verb::Impersonate, "impersonate"),
    (Verb::Approve, "approve"),
    (Verb::Sign, "sign"),
];

impl Verb {
    /// The name in lower case, as in a role.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some verbs: `Create | Patch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verbs(u32);

impl Verbs {
    /// Every verb, those that are not in [`Verb`] included: `*` in a role.
    pub const ALL: Verbs = Verbs(u32::MAX);

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The verb of a name, or every verb for `*`.
    #[cfg(feature = "args")]
    pub(crate) fn of_name(name: &str) -> Self {
        let known = NAMES.iter().find(|known| known.1 == name);
        known.map_or(Verbs::ALL, |(verb, _)| Verbs::from(*verb))
    }

    /// Those that are not among `others`.
    pub fn without(self, others: Verbs) -> Self {
        Verbs(self.0 & !others.0)
    }

    /// Those that are among `others` too.
    pub fn only(self, others: Verbs) -> Self {
        Verbs(self.0 & others.0)
    }

    /// Whether this verb is among them.
    pub fn contains(self, verb: Verb) -> bool {
        self.0 & bit(verb) != 0
    }

    /// The names as in a role: `*` for every verb.
    pub fn names(self) -> Vec<&'static str> {
        if self == Verbs::ALL {
            return vec!["*"];
        }
        self.iter().map(Verb::name).collect()
    }

    /// The verbs in the order in which they are printed.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        let verbs = NAMES.iter().map(|(verb, _)| *verb);
        verbs.filter(move |verb| self.contains(*verb))
    }
}

fn bit(verb: Verb) -> u32 {
    1 << verb as u32
}

impl From<Verb> for Verbs {
    fn from(verb: Verb) -> Self {
        Verbs(bit(verb))
    }
}

impl<V: Into<Verbs>> BitOr<V> for Verb {
    type Output = Verbs;

    fn bitor(self, other: V) -> Verbs {
        Verbs::from(self) | other
    }
}

impl<V: Into<Verbs>> BitOr<V> for Verbs {
    type Output = Verbs;

    fn bitor(self, other: V) -> Verbs {
        Verbs(self.0 | other.into().0)
    }
}

#[cfg(test)]
mod tests {
    use super::Verb::*;
    use super::*;

    #[test]
    fn verbs_are_named_in_the_order_of_a_role() {
        for (place, (verb, name)) in NAMES.iter().enumerate() {
            assert_eq!((*verb as usize, verb.name()), (place, *name));
        }
        let verbs = Patch | Get | (Watch | List);
        assert_eq!(verbs.names(), ["get", "list", "watch", "patch"]);
        assert_eq!(Verbs::ALL.names(), ["*"]);
        assert!(verbs.contains(Get) && !verbs.contains(Create));
    }
}
