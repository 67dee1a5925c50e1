//! Whether the cluster still sends calls to this replica.
//!
//! A pod that stops gets calls for as long as its Service leads to it: the API server, or what
//! forwards for it, learns of its end from the EndpointSlices, a moment later. Who closes its port
//! before that refuses them (kubernetes-sigs/controller-runtime#2607).

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use sendo_world::Clock;

use crate::cache::{Selection, Selector};
use crate::client::Client;

/// How often it is looked at.
const POLL: Duration = Duration::from_millis(500);

/// How long whoever forwards to endpoints takes to hear of a change of them.
const FORWARDED: Duration = Duration::from_secs(1);

/// The label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The endpoints of a program's Service, as far as they lead to this replica.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) service: String,
    /// The name of the pod that this is.
    pub(crate) pod: String,
}

impl Endpoints {
    /// Waits until no endpoint leads to this replica.
    pub(crate) async fn let_go(&self, clock: &Clock) {
        let mut led_here = false;
        loop {
            match self.lead_here().await {
                Ok(false) => break,
                Ok(true) => led_here = true,
                Err(error) => {
                    tracing::warn!(%error, "cannot see whether the webhooks are still called here");
                    return;
                }
            }
            clock.sleep(POLL).await;
        }
        if led_here {
            clock.sleep(FORWARDED).await;
        }
    }

    async fn lead_here(&self) -> Result<bool, crate::client::Error> {
        let selection = Selection {
            labels: Selector::labels([(SERVICE_NAME, self.service.as_str())]),
            ..Selection::in_namespace(&self.namespace)
        };
        let slices = self.client.live().list::<EndpointSlice>(&selection).await?;
        // Whether a slice may be without endpoints differs between the releases of its type.
        let slices = serde_json::to_value(slices).unwrap_or_default();
        let slices = slices.as_array().into_iter().flatten();
        let mut endpoints = slices.flat_map(|slice| slice["endpoints"].as_array());
        Ok(endpoints.any(|endpoints| {
            let mut endpoints = endpoints.iter();
            endpoints.any(|endpoint| {
                endpoint["conditions"]["ready"] != false
                    && endpoint["targetRef"]["name"] == self.pod
            })
        }))
    }
}
