//! What a request does, as the rules of a webhook name it.

use std::fmt;
use std::ops::BitOr;

/// What a request does. Several are joined by `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed: by an update, a patch or an apply, of a subresource too.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection is made, such as `kubectl exec`.
    Connect,
}

impl Operation {
    const ALL: [Operation; 4] = [
        Operation::Create,
        Operation::Update,
        Operation::Delete,
        Operation::Connect,
    ];

    /// The operation as rules and reviews write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Operation::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of operations: `Create | Update`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations(u8);

impl Operations {
    /// Whether it has this one.
    pub fn contains(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }

    /// Those it has, in order.
    pub fn iter(self) -> impl Iterator<Item = Operation> {
        let all = Operation::ALL.into_iter();
        all.filter(move |operation| self.contains(*operation))
    }
}

impl From<Operation> for Operations {
    fn from(operation: Operation) -> Self {
        Operations(1 << operation as u8)
    }
}

impl BitOr for Operation {
    type Output = Operations;

    fn bitor(self, other: Operation) -> Operations {
        Operations::from(self) | other
    }
}

impl BitOr<Operation> for Operations {
    type Output = Operations;

    fn bitor(self, other: Operation) -> Operations {
        Operations(self.0 | Operations::from(other).0)
    }
}

#[cfg(test)]
mod tests {
    use super::Operation::*;
    use super::*;

    #[test]
    fn operations_are_joined_and_listed_in_order() {
        let names = |all: Operations| all.iter().map(Operation::as_str).collect::<Vec<_>>();
        assert_eq!(names(Delete | Create | Delete), ["CREATE", "DELETE"]);
        assert_eq!(names(Connect.into()), ["CONNECT"]);
        assert_eq!(Operation::named("UPDATE"), Some(Update));
        assert_eq!(Operation::named("*"), None);
    }
}
