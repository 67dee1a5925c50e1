//! A first controller: every namespace gets a label unless it has one already.
//!
//! Run it against the cluster of the current kubeconfig, such as that of
//! `sendo up`: `cargo run -p sendo --example first_controller`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use sendo::{Action, Context, Controller, Manager, ObjectExt, Patch, Result, Verb};
use serde_json::json;

const LABEL: &str = "pod-security.kubernetes.io/enforce";

/// The program as a value. Nothing connects before it runs, so a test can run
/// the same value on an embedded cluster.
pub fn manager() -> Manager {
    // Watches all namespaces. Each event puts the key of its namespace into the
    // queue, and a worker calls `reconcile` for that key.
    let controller = Controller::new::<Namespace>()
        // What it writes is declared: the program's role is printed from here.
        .writes::<Namespace>(Verb::Patch)
        .without_events()
        .reconcile(reconcile);
    Manager::new("namespace-labels").controller(controller)
}

/// Called with the namespace as the cache has it. It looks at the present state
/// only, never at what the event was: it must be right after any event, after a
/// restart, and when it is called twice.
async fn reconcile(namespace: Arc<Namespace>, cx: Context) -> Result<Action> {
    if namespace.is_being_deleted() || namespace.label(LABEL).is_some() {
        return Ok(Action::done()); // nothing to do until the next event
    }
    let change = json!({"metadata": {"labels": {LABEL: "baseline"}}});
    // `?` on any error: the key is tried again, later each time.
    cx.patch(&namespace, Patch::Merge(change)).await?;
    Ok(Action::done())
}

/// `run_from_args` reads the common flags (`--help` lists them), connects, and
/// runs until Ctrl-C or SIGTERM.
#[tokio::main]
async fn main() -> Result<()> {
    manager().run_from_args().await
}
