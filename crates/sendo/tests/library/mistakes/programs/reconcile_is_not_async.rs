//~ `Result<Action, Error>` is not a future

use std::sync::Arc;

use sendo::k8s_openapi::api::core::v1::ConfigMap;
use sendo::{Action, Context, Controller, Result};

fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> {
    Ok(Action::done())
}

fn main() {
    Controller::new::<ConfigMap>().reconcile(reconcile);
}
