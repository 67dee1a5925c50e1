//! What can be wrong with the declaration of a controller.

use std::fmt;

use crate::object::Kind;

/// A mistake, found before anything runs. Written out, it is the end of a sentence
/// that begins with the controller, and names the fix.
#[derive(Debug)]
pub(crate) enum Problem {
    /// It has nothing that could start a reconcile.
    NoSource,
    /// A reconcile may take no time at all.
    NoTime,
    /// It keeps an index over a kind of which it has no objects.
    IndexOfUndeclared {
        index: &'static str,
        kind: Kind,
        type_name: String,
    },
    /// An object in a namespace cannot own one outside of any.
    OwnsAcrossNamespaces { owner: Kind, owned: Kind },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoSource => {
                f.write_str("has no source and would never start: add `.watches(…)`")
            }
            Problem::NoTime => {
                f.write_str("has a time-out of zero, in which no reconcile can end: give it longer")
            }
            Problem::IndexOfUndeclared {
                index,
                kind,
                type_name,
            } => write!(
                f,
                "keeps the index `{index}` over {kind}, which it neither watches nor reads: \
                 add `.reads::<{type_name}>()`",
            ),
            Problem::OwnsAcrossNamespaces { owner, owned } => write!(
                f,
                "says that {owner} own {owned}, but what is in a namespace cannot own what is in \
                 none: use `.watches(…)` with a handler of your own",
            ),
        }
    }
}
