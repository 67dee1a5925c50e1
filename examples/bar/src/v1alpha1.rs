//! The first version of `Bar`, which clients may still use: its `deploymentName` is called
//! `deployment` now.

use kube::CustomResource;
use schemars::JsonSchema;
use sendo::Result;
use sendo::webhook::Convert;
use serde::{Deserialize, Serialize};

use crate::api::{self, BarStatus};

/// Which Deployment to keep, and at what size.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "samplecontroller.example.dev",
    version = "v1alpha1",
    kind = "Bar",
    namespaced,
    storage = false,
    deprecated = "samplecontroller.example.dev/v1alpha1 Bar is deprecated: use v1, where deploymentName is called deployment",
    status = "BarStatus",
    derive = "PartialEq",
    doc = "Keeps one Deployment at a number of replicas.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.availableReplicas",
        label_selector_path = ".status.selector"
    )
)]
pub struct BarSpec {
    /// Name of the Deployment, in the namespace of the Bar.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub deployment_name: String,

    /// How many replicas the Deployment is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
}

impl Convert for Bar {
    type Hub = api::Bar;

    fn to_hub(self) -> Result<api::Bar> {
        Ok(api::Bar {
            metadata: self.metadata,
            spec: api::BarSpec {
                deployment: self.spec.deployment_name,
                replicas: self.spec.replicas,
            },
            status: self.status,
        })
    }

    fn from_hub(hub: api::Bar) -> Result<Bar> {
        Ok(Bar {
            metadata: hub.metadata,
            spec: BarSpec {
                deployment_name: hub.spec.deployment,
                replicas: hub.spec.replicas,
            },
            status: hub.status,
        })
    }
}
