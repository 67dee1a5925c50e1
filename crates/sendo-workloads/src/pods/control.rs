//! Creates and deletes the pods of a controller object, with the events about it.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/controller_utils.go`: `RealPodControl`, `GetPodFromTemplate`

use k8s_openapi::api::core::v1::{self, PodTemplateSpec};
use sendo::client::{self, controller_reference};
use sendo::{Context, EventSeverity::*, ObjectExt, Typed};

use super::Pod;

/// The failure to create or delete a pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot create a pod: {0}")]
    Create(#[source] client::Error),
    #[error("cannot delete a pod: {0}")]
    Delete(#[source] client::Error),
}

/// A pod from a template, controlled by `owner`, with a name that the server generates.
pub(crate) fn from_template<O: Typed>(owner: &O, template: &PodTemplateSpec) -> v1::Pod {
    let wanted = template.metadata.clone().unwrap_or_default();
    let mut pod = v1::Pod {
        spec: template.spec.clone(),
        ..v1::Pod::default()
    };
    pod.metadata.generate_name = Some(format!("{}-", owner.name()));
    pod.metadata.namespace = owner.namespace().map(str::to_owned);
    pod.metadata.labels = wanted.labels;
    pod.metadata.annotations = wanted.annotations;
    pod.metadata.finalizers = wanted.finalizers;
    pod.metadata.owner_references = Some(vec![controller_reference(owner)]);
    pod
}

/// Creates a pod of the object that is being reconciled. `None` if its namespace is being deleted:
/// nothing can be created there, and that is no failure.
pub(crate) async fn create(pod: &v1::Pod, cx: &Context) -> Result<Option<v1::Pod>, Failure> {
    match cx.client().create(pod).await {
        Ok(pod) => {
            let message = format!("Created pod: {}", pod.name());
            cx.event(Normal, "SuccessfulCreate", message);
            Ok(Some(pod))
        }
        Err(error) if error.is_namespace_gone() => Ok(None),
        Err(error) => {
            cx.event(Warning, "FailedCreate", format!("Error creating: {error}"));
            Err(Failure::Create(error))
        }
    }
}

/// Deletes a pod of the object that is being reconciled. One that is gone is no failure.
pub(crate) async fn delete(pod: &Pod, cx: &Context) -> Result<(), Failure> {
    match cx.client().delete(pod).await {
        Ok(_) => {
            let message = format!("Deleted pod: {}", pod.name());
            cx.event(Normal, "SuccessfulDelete", message);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => {
            tracing::debug!(pod = %pod.key(), %error, "a pod could not be deleted");
            cx.event(Warning, "FailedDelete", format!("Error deleting: {error}"));
            Err(Failure::Delete(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use serde_json::json;

    #[test]
    fn a_pod_of_a_template_is_controlled_by_the_owner() {
        let owner: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "1"},
        }))
        .unwrap();
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"b": "c"}, "finalizers": ["d/e"]},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }))
        .unwrap();
        assert_eq!(
            json!(from_template(&owner, &template)),
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "generateName": "web-", "namespace": "a",
                    "labels": {"app": "web"}, "annotations": {"b": "c"}, "finalizers": ["d/e"],
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                        "uid": "1", "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": {"containers": [{"name": "main", "image": "i"}]},
            })
        );
    }
}
