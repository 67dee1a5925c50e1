//! The rights that a controller needs, as its declaration implies and says them.

use crate::object::{Kind, Typed};
use crate::reader::DeclaredRead;
use crate::rights::{Right, Verb, Verbs};

/// What owning a kind takes beside its watch, unless `writes` says otherwise: any
/// method of the client, one that reads what the cache does not have included.
const OWNING: [Verb; 5] = [
    Verb::Get,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
];

/// The rights of a controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControllerRights {
    /// Of its reads and writes, but for those of its status.
    pub(crate) rights: Vec<Right>,
    /// The kind that it controls. Whether it writes its status follows from who
    /// defines the kind.
    pub(crate) primary: Option<Kind>,
    /// Where it records events.
    pub(crate) events: EventsOf,
    /// Whether it watches kinds that are known only at run time.
    pub(crate) is_of_any_kind: bool,
}

/// Which objects a controller records events about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventsOf {
    /// Any: the events are in their namespaces.
    #[default]
    Anything,
    /// Objects of no namespace: their events are in `default`.
    ClusterScoped,
    /// None.
    Nothing,
}

/// What a builder gathers for [`ControllerRights`].
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) needs: Vec<Right>,
    writes: Vec<(Kind, Right)>,
    owned: Vec<(Kind, Right)>,
    /// The kind of a controller of objects, with the rights on it and on its finalizers.
    primary: Option<Primary>,
    finalizer: bool,
    silent: bool,
}

struct Primary {
    kind: Kind,
    is_namespaced: bool,
    patch: Right,
}

impl Gathered {
    pub(super) fn controls<K: Typed>(&mut self) {
        self.primary = Some(Primary {
            kind: Kind::of::<K>(),
            is_namespaced: K::is_namespaced(),
            patch: Right::of::<K>(Verb::Patch),
        });
    }

    pub(super) fn owns<C: Typed>(&mut self) {
        let verbs = OWNING
            .into_iter()
            .fold(Verbs::default(), |all, one| all | one);
        self.owned.push((Kind::of::<C>(), Right::of::<C>(verbs)));
    }

    pub(super) fn writes<K: Typed>(&mut self, verbs: Verbs) {
        self.writes.push((Kind::of::<K>(), Right::of::<K>(verbs)));
    }

    pub(super) fn has_finalizer(&mut self) {
        self.finalizer = true;
    }

    pub(super) fn records_no_events(&mut self) {
        self.silent = true;
    }

    pub(super) fn rights(self, reads: &[DeclaredRead], is_of_any_kind: bool) -> ControllerRights {
        let mut rights: Vec<Right> = reads.iter().map(DeclaredRead::right).collect();
        let owns_some = !self.owned.is_empty();
        for (kind, owning) in self.owned {
            if !self.writes.iter().any(|(written, _)| *written == kind) {
                rights.push(owning);
            }
        }
        rights.extend(self.writes.into_iter().map(|(_, right)| right));
        rights.extend(self.needs);
        let (mut primary, mut events) = (None, EventsOf::Anything);
        if let Some(Primary {
            kind,
            is_namespaced,
            patch,
        }) = self.primary
        {
            if owns_some {
                // A reference that blocks the deletion of the owner.
                let mut finalizers = patch.clone().subresource("finalizers");
                finalizers.verbs = Verb::Update.into();
                rights.push(finalizers);
            }
            if self.finalizer {
                rights.push(patch);
            }
            if !is_namespaced {
                events = EventsOf::ClusterScoped;
            }
            primary = Some(kind);
        }
        if self.silent {
            events = EventsOf::Nothing;
        }
        ControllerRights {
            rights,
            primary,
            events,
            is_of_any_kind,
        }
    }
}
