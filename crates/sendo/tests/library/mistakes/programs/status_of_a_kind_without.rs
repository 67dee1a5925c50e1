//~ `ConfigMap` has no status
//~ give a kind of your own a status with `#[kube(status = "…")]`

use std::sync::Arc;

use sendo::k8s_openapi::api::core::v1::ConfigMap;
use sendo::{Context, Result};

async fn write(map: Arc<ConfigMap>, cx: Context) -> Result<()> {
    cx.status(&*map, |_| {}).await?;
    Ok(())
}

fn main() {}
