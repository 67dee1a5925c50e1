//! Kinds known only at run time: objects of any kind that have the annotation
//! `example.dev/team` get a label of that name, to be selected by.

use std::fmt;

use sendo::source::{self, AnyMeta};
use sendo::{Action, Context, Controller, Event, Kind, Manager, ObjectExt, ObjectKey, Patch};
use sendo::{Result, Right, Verb, handler};
use serde_json::json;

const TEAM: &str = "example.dev/team";

/// What is reconciled: an object of some kind. Keys are shown in logs, so they
/// implement `Display`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Id {
    kind: Kind,
    key: ObjectKey,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

/// The program: objects of every kind, but for those with too many changes.
pub fn manager() -> Manager {
    // The metadata of all objects there are, of kinds that are installed later too.
    let everything =
        source::every_kind().except(|kind| matches!(&*kind.kind, "Event" | "Lease" | "Node"));
    let controller = Controller::keyed::<Id>("teams")
        .watches(
            everything,
            handler::map(|(kind, event): (Kind, Event<AnyMeta>), _| {
                let object = event.object();
                let key = object.key();
                object.annotation(TEAM).map(|_| Id { kind, key })
            }),
        )
        // Kinds that cannot be named are declared all at once.
        .needs(Right::resource(
            "*",
            "*",
            Verb::List | Verb::Watch | Verb::Patch,
        ))
        .reconcile(reconcile);
    Manager::new("teams").controller(controller)
}

async fn reconcile(id: Id, cx: Context) -> Result<Action> {
    let Some(object) = cx.get_of::<AnyMeta>(&id.kind, &id.key) else {
        return Ok(Action::done()); // it is gone
    };
    let team = object.annotation(TEAM);
    if object.is_being_deleted() || team.is_none() || object.label(TEAM) == team {
        return Ok(Action::done());
    }
    let change = Patch::Merge(json!({"metadata": {"labels": {TEAM: team}}}));
    // The client of one kind: the same methods as for types known beforehand.
    let client = cx.client().of_kind::<AnyMeta>(id.kind);
    client.patch(&object, change).await?;
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
