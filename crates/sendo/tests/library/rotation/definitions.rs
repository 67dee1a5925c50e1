//! The `caBundle` of the definition of a kind that a program converts: the program puts its
//! authority in, keeps it right, and has its successor trusted before it is used.

use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use sendo::webhook::{Convert, Lifetimes};
use sendo::{Manager, ObjectKey};
use serde_json::json;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::PATIENCE;
use super::place::Place;

const LIFETIMES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(2 * 3600),
    certificate: Duration::from_secs(3600),
    settle: Duration::from_secs(1),
};

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.dev", version = "v1", kind = "Pool", namespaced)]
    pub(super) struct PoolSpec {
        pub(super) size: u32,
    }
}

mod v1alpha1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "example.dev",
        version = "v1alpha1",
        kind = "Pool",
        namespaced,
        storage = false
    )]
    pub(super) struct PoolSpec {
        pub(super) count: u32,
    }
}

impl Convert for v1alpha1::Pool {
    type Hub = v1::Pool;

    fn to_hub(self) -> sendo::Result<v1::Pool> {
        let size = self.spec.count;
        Ok(v1::Pool {
            metadata: self.metadata,
            spec: v1::PoolSpec { size },
        })
    }

    fn from_hub(hub: v1::Pool) -> sendo::Result<Self> {
        let count = hub.spec.size;
        Ok(Self {
            metadata: hub.metadata,
            spec: v1alpha1::PoolSpec { count },
        })
    }
}

fn converter() -> Manager {
    super::guard()
        .defines::<v1::Pool>()
        .serves::<v1alpha1::Pool>()
}

fn definition() -> ObjectKey {
    ObjectKey::cluster("pools.example.dev")
}

/// Where a definition says that its kind is converted.
fn client_config(definition: &mut CustomResourceDefinition) -> &mut WebhookClientConfig {
    let conversion = definition.spec.conversion.as_mut().unwrap();
    let webhook = conversion.webhook.as_mut().unwrap();
    webhook.client_config.as_mut().unwrap()
}

impl Place {
    async fn ca_bundle(&self) -> Option<Vec<u8>> {
        let live = self.client.live();
        let found = live.get::<CustomResourceDefinition>(definition()).await;
        let mut found = found.unwrap().unwrap();
        client_config(&mut found).ca_bundle.take().map(|it| it.0)
    }

    async fn set_ca_bundle(&self, bundle: Option<&[u8]>) {
        let change = |found: &mut CustomResourceDefinition| {
            client_config(found).ca_bundle = bundle.map(|pem| ByteString(pem.to_vec()));
        };
        let key = definition();
        let client = &self.client;
        let modified = client.modify::<CustomResourceDefinition, ()>(&key, change);
        modified.await.unwrap();
    }

    /// Waits until the definition has a bundle that is as it should.
    async fn until_bundle(&self, is_right: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let began = Instant::now();
        loop {
            match self.ca_bundle().await {
                Some(bundle) if is_right(&bundle) => return bundle,
                found => assert!(began.elapsed() < PATIENCE, "{found:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reads the stored Pool in the other version: the API server has it converted.
    async fn count(&self) -> Result<u32, String> {
        let key = ObjectKey::namespaced("work", "blue");
        let found = self.client.live().get::<v1alpha1::Pool>(key).await;
        let pool = found.map_err(|error| error.to_string())?.unwrap();
        Ok(pool.spec.count)
    }

    async fn until_converted(&self) {
        let began = Instant::now();
        while let Err(error) = self.count().await {
            assert!(began.elapsed() < PATIENCE, "{error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ca_bundle_of_a_definition_is_put_in_kept_right_and_rotated() {
    let place = Place::new(LIFETIMES, converter).await;
    for definition in converter().definitions_in("default") {
        place.client.create(&definition).await.unwrap();
    }
    assert_eq!(place.ca_bundle().await, None);
    let replica = place.start("replica-0").await;
    let right = place.until_bundle(|_| true).await;
    assert_eq!(right, place.kept("ca.crt").await);
    let pool: v1::Pool = serde_json::from_value(json!({
        "metadata": {"name": "blue", "namespace": "work"}, "spec": {"size": 7},
    }))
    .unwrap();
    let began = Instant::now();
    while let Err(error) = place.client.create(&pool).await {
        assert!(began.elapsed() < PATIENCE, "{error}"); // served a moment after it is defined
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    place.until_converted().await;
    assert_eq!(place.count().await, Ok(7));

    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    let other = other.cert.pem();
    let both = [&right[..], other.as_bytes()].concat();
    for wrong in [None, Some(other.as_bytes()), Some(&both[..])] {
        place.set_ca_bundle(wrong).await;
        place.until_bundle(|bundle| bundle == right).await;
        place.until_converted().await;
    }

    // Nothing else fails while the authority is replaced, which is due with the second certificate.
    let before = place.kept("ca.key").await;
    while place.kept("ca.key").await == before {
        let certificate = place.kept("tls.crt").await;
        place.set_ahead(LIFETIMES.certificate * 2 / 3 + Duration::from_secs(1));
        let began = Instant::now();
        loop {
            assert_eq!(place.count().await, Ok(7));
            let now = place.kept("tls.crt").await;
            let leaf = CertificateDer::from_pem_slice(&now).unwrap();
            let shown = place.shake_hands(replica.port).await;
            if now != certificate && shown.unwrap() == leaf.as_ref() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "it was not renewed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let bundle = place.ca_bundle().await.unwrap();
    assert_eq!(bundle, place.kept("ca.crt").await);
    let authorities = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).count();
    assert_eq!((authorities(&right), authorities(&bundle)), (1, 2));
    place.terminate(replica).await;
    place.server.shutdown().await;
}
