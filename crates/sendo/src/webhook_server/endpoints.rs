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
    /// Waits until no endpoint leads to this replica. Who may not see them does not wait.
    pub(crate) async fn let_go(&self, clock: &Clock) {
        let (mut led_here, mut told) = (false, false);
        loop {
            match self.lead_here().await {
                Ok(false) => break,
                Ok(true) => led_here = true,
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "cannot see whether the webhooks are still called here");
                        told = true;
                    }
                    if error.is_forbidden() || error.is_not_served() {
                        return;
                    }
                    // While nothing is known, calls may come.
                    led_here = true;
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

#[cfg(test)]
mod tests {
    use sendo_world::World;
    use serde_json::json;

    use super::*;
    use crate::cache::{Cache, CacheOptions};
    use crate::client::ClientOptions;
    use crate::transport::fake_api::{Call, FakeApi};

    const PATH: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

    fn replica() -> (Endpoints, Clock, FakeApi) {
        let (kube, api) = FakeApi::new();
        let world = World::seeded(1);
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        let endpoints = Endpoints {
            client: Client::new(kube, cache, world.clone(), ClientOptions::default()),
            namespace: "default".to_owned(),
            service: "guard-webhooks".to_owned(),
            pod: "guard-0".to_owned(),
        };
        (endpoints, world.clock().clone(), api)
    }

    fn leads(call: Call, ready: bool) {
        let slice = json!({
            "metadata": {"name": "s", "namespace": "default"},
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.0.0.1"], "conditions": {"ready": ready},
                "targetRef": {"name": "guard-0"},
            }],
        });
        let list = json!({
            "kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"resourceVersion": "1"}, "items": [slice],
        });
        call.answer(200, list);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_seen_for_a_moment_is_looked_at_again() {
        let (endpoints, clock, mut api) = replica();
        let began = clock.now();
        let served = async {
            leads(api.expect_list(PATH).await, true);
            let call = api.expect_list(PATH).await;
            call.fail(500, "InternalError", "the leader has changed");
            leads(api.expect_list(PATH).await, true);
            leads(api.expect_list(PATH).await, false);
        };
        futures::future::join(endpoints.let_go(&clock), served).await;
        assert_eq!(clock.now() - began, 3 * POLL + FORWARDED);
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_see_it_does_not_wait() {
        let (endpoints, clock, mut api) = replica();
        let began = clock.now();
        let refused = async {
            let call = api.expect_list(PATH).await;
            call.fail(403, "Forbidden", "no");
        };
        futures::future::join(endpoints.let_go(&clock), refused).await;
        assert_eq!(clock.now(), began);
    }
}
