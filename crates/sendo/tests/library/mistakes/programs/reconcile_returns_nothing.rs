//~ expected `Result<Action, Error>`, found `()`

use std::sync::Arc;

use sendo::k8s_openapi::api::core::v1::ConfigMap;
use sendo::{Context, Controller};

async fn reconcile(_: Arc<ConfigMap>, _: Context) {}

fn main() {
    Controller::new::<ConfigMap>().reconcile(reconcile);
}
