//! Work beside the controllers, on the leader only: a report every minute.
//!
//! Run two replicas with `--leader-elect`: one of them writes, and when it ends
//! the other goes on.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use sendo::manager::RunContext;
use sendo::{Manager, Result, Right, Verb, on_leader};
use serde_json::json;

/// The program: no controller, one runnable.
pub fn manager() -> Manager {
    Manager::new("node-report")
        // Runnables read what the manager declares. They start when it is there.
        .reads::<Node>()
        // What is written is declared, too: here one object.
        .needs(
            Right::of::<ConfigMap>(Verb::Create | Verb::Patch)
                .in_namespace("default")
                .named("node-report"),
        )
        // Controllers are on the leader too, unless they say otherwise. For work
        // on every replica there is `everywhere`.
        .runnable(on_leader("report", report))
}

/// An error, or a panic, stops the program: its restart is the clean way back.
/// What may fail for a while is therefore logged here.
async fn report(cx: RunContext) -> Result<()> {
    let mut beat = cx.interval(Duration::from_secs(60));
    // Ends when the program is to stop, or is no longer the leader.
    while cx.still_running(beat.tick()).await {
        if let Err(error) = write(&cx).await {
            eprintln!("the report is tried again in a minute: {error}");
        }
    }
    Ok(())
}

async fn write(cx: &RunContext) -> Result<()> {
    let nodes = cx.list::<Node>().count();
    let report: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "node-report", "namespace": "default"},
        "data": {"nodes": nodes.to_string(), "at": cx.now().to_string()},
    }))?;
    // Writes of leader-only work pass the write gate: a replica that may have
    // lost its lease sends nothing any more.
    cx.client().apply(&report).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
