//! Work started by time: a ticker finds the ConfigMaps that have expired, and
//! each of them is deleted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::handler::map;
use sendo::source::{self, Tick};
use sendo::{Action, Context, Controller, Manager, ObjectExt, Result, Timestamp, Verb};

/// When an object expires, such as `2026-01-01T12:00:00Z`.
const EXPIRES: &str = "example.dev/expires";

/// The program, which looks for what has expired once every so often.
pub fn manager(every: Duration) -> Manager {
    let controller = Controller::new::<ConfigMap>()
        // A source delivers events of any type, here beats of a clock; the
        // handler names the objects that each event concerns, by the cache.
        .watches(
            source::ticker(every),
            map(|tick: Tick, cx| {
                let expired = move |map: &ConfigMap| has_expired(map, tick.at);
                cx.list::<ConfigMap>().filter(expired).keys()
            }),
        )
        .writes::<ConfigMap>(Verb::Delete)
        .reconcile(reconcile);
    Manager::new("expiry").controller(controller)
}

/// Also called when a ConfigMap is created or changed, so it looks at the time again.
async fn reconcile(map: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    // The time comes from the context: in a test it is virtual.
    if has_expired(&map, cx.now()) && !map.is_being_deleted() {
        // Fails if another object has taken the name meanwhile: the deletion
        // has the uid of this one as its condition.
        cx.delete(&map).await?;
    }
    Ok(Action::done())
}

fn has_expired(map: &ConfigMap, now: Timestamp) -> bool {
    let expires = map.annotation(EXPIRES).and_then(|text| text.parse().ok());
    expires.is_some_and(|expires: Timestamp| expires <= now)
}

// For one object there is a shorter way: `Action::after(duration)` brings its
// key back. To reconcile all objects every so often: `--resync SECONDS`.

#[tokio::main]
async fn main() -> Result<()> {
    manager(Duration::from_secs(60)).run_from_args().await
}
