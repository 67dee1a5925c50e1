//! Events from outside the cluster, through a channel: somebody pushed to a
//! repository, and the ConfigMaps that follow that repository are brought up to date.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use sendo::handler::map;
use sendo::source::{self, Sender};
use sendo::{
    Action, Context, Controller, Index, Manager, ObjectExt, Patch, Result, Verb, on_leader,
};
use serde_json::json;

/// An event of any type. It need not carry the state: `reconcile` reads that.
pub struct Push {
    /// The URL of the repository.
    pub repository: String,
}

/// ConfigMaps by the repository they follow.
static FOLLOWERS: Index<ConfigMap, String> = Index::new("followers", |map| {
    map.annotation("example.dev/repository").map(str::to_owned)
});

/// The program, and where it is told of pushes.
pub fn manager() -> (Manager, Sender<Push>) {
    // Has room for 16 events that are not handled yet.
    let (pushes, source) = source::channel(16);
    let followers = map(|push: Push, cx| {
        let followers = cx.list::<ConfigMap>().by(&FOLLOWERS, push.repository);
        followers.keys()
    });
    let controller = Controller::new::<ConfigMap>()
        .watches(source, followers)
        .index(&FOLLOWERS)
        .writes::<ConfigMap>(Verb::Patch)
        .reconcile(reconcile);
    (Manager::new("followers").controller(controller), pushes)
}

async fn reconcile(map: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    let Some(repository) = map.annotation("example.dev/repository") else {
        return Ok(Action::done());
    };
    let revision = newest_revision(repository, &cx).await?;
    let known = map.data.as_ref().and_then(|data| data.get("revision"));
    if known != Some(&revision) {
        let change = Patch::Merge(json!({"data": {"revision": revision}}));
        cx.patch(&map, change).await?;
    }
    Ok(Action::done())
}

/// In a real program: a request to the repository.
async fn newest_revision(repository: &str, cx: &Context) -> Result<String> {
    Ok(format!("{repository} at {}", cx.now()))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (manager, pushes) = manager();
    // In a real program this serves a webhook or reads a message queue. `send`
    // waits while the channel is full; `offer` drops the event and counts it.
    let listen = on_leader("pushes", move |cx| async move {
        let mut beat = cx.interval(Duration::from_secs(60));
        while cx.still_running(beat.tick()).await {
            let repository = "https://example.dev/pages".to_owned();
            pushes.send(Push { repository }).await?;
        }
        Ok(())
    });
    manager.runnable(listen).run_from_args().await
}
