//! The `Bar` resource, field by field as its users see it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::CustomResource;
use schemars::JsonSchema;
use sendo::{ObjectExt, ObjectKey};
use serde::{Deserialize, Serialize};

/// Which Deployment to keep, and at what size.
// `kubectl explain` and the CRD show the comments below, so they speak to the
// users of the resource; comments to readers of the code have two slashes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "samplecontroller.example.dev",
    version = "v1",
    kind = "Bar",
    namespaced,
    status = "BarStatus",
    derive = "PartialEq",
    doc = "Keeps one Deployment at a number of replicas.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.availableReplicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Deployment", "type": "string", "jsonPath": ".spec.deployment"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct BarSpec {
    /// Name of the Deployment, in the namespace of the Bar. One that this Bar
    /// does not control is left alone. When the name changes, the Deployment of
    /// the former name is deleted.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub deployment: String,

    /// How many replicas the Deployment is to have. Left out, the Deployment
    /// begins with one, and whoever scales it then is not overruled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
}

/// What the controller found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BarStatus {
    /// How many replicas of the Deployment serve.
    #[serde(default)]
    pub available_replicas: i32,

    /// The selector of the pods, as text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Bar {
    /// The key of the Deployment that it names.
    pub(crate) fn deployment_key(&self) -> ObjectKey {
        self.key_beside(&self.spec.deployment)
    }

    /// The labels of the Deployment's pods, by its name: those of a former name
    /// are not taken for its own.
    fn pod_labels(&self) -> BTreeMap<String, String> {
        let labels = [("app", "nginx"), ("deployment", &self.spec.deployment)];
        labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    /// The pods' selector as text.
    pub(crate) fn selector(&self) -> String {
        let labels = self.pod_labels().into_iter();
        let terms: Vec<_> = labels
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        terms.join(",")
    }

    /// Whether a size is asked for, and the Deployment has another.
    pub(crate) fn wants_other_size_than(&self, deployment: &Deployment) -> bool {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        self.spec.replicas.is_some() && self.spec.replicas != replicas
    }

    /// The Deployment as this Bar creates it.
    pub(crate) fn deployment(&self) -> Deployment {
        let labels = self.pod_labels();
        Deployment {
            metadata: ObjectMeta {
                name: Some(self.spec.deployment.clone()),
                namespace: self.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            spec: Some(DeploymentSpec {
                replicas: self.spec.replicas,
                selector: LabelSelector {
                    match_labels: Some(labels.clone()),
                    ..LabelSelector::default()
                },
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta {
                        labels: Some(labels),
                        ..ObjectMeta::default()
                    }),
                    spec: Some(PodSpec {
                        containers: vec![Container {
                            name: "nginx".to_owned(),
                            image: Some("nginx:1.29".to_owned()),
                            ..Container::default()
                        }],
                        ..PodSpec::default()
                    }),
                },
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }
}
