//~ expected function signature `fn(Arc<ConfigMap>, Context) -> _`
//~ found function signature `fn(Arc<Secret>, Context) -> _`

use std::sync::Arc;

use sendo::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use sendo::{Action, Context, Controller, Result};

async fn reconcile(_: Arc<Secret>, _: Context) -> Result<Action> {
    Ok(Action::done())
}

fn main() {
    Controller::new::<ConfigMap>().reconcile(reconcile);
}
