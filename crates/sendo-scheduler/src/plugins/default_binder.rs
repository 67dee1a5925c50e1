//! The binding of a pod.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/scheduler/framework/plugins/defaultbinder/default_binder.go`: `Bind`

use k8s_openapi::api::core::v1::{Binding as ApiBinding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sendo::{Context, Result};
use serde_json::Value;

use crate::framework::{Binding, Bound, BoxFuture, Plugin};

/// Binds pods through their subresource `binding`.
#[derive(Clone, Copy, Debug)]
pub struct DefaultBinder;

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        "DefaultBinder"
    }

    fn bind<'a>(&'a self, binding: &'a Binding, cx: &'a Context) -> BoxFuture<'a, Result<Bound>> {
        Box::pin(async move {
            let pod = &*binding.pod.pod;
            let body = ApiBinding {
                metadata: ObjectMeta {
                    name: pod.metadata.name.clone(),
                    namespace: pod.metadata.namespace.clone(),
                    uid: pod.metadata.uid.clone(),
                    ..ObjectMeta::default()
                },
                target: ObjectReference {
                    kind: Some("Node".to_owned()),
                    name: Some(binding.node.clone()),
                    ..ObjectReference::default()
                },
            };
            let subresource = cx.client().subresource(pod, "binding")?;
            subresource.create::<Value>(&body).await?;
            Ok(Bound::Done)
        })
    }
}
