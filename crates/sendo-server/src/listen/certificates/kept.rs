//! Keeps the authorities of a cluster in its store, so that they outlive the process.

use bytes::Bytes;
use jiff::Timestamp;
use sendo_store::{At, Error, Store, Transaction};
use serde_json::{Value, json};

use super::{Authority, CLUSTER, CertificateError, FRONT_PROXY};

/// Beside the objects, where no request reaches.
const KEY: &str = "/sendo/certificate-authority";
const FRONT_PROXY_KEY: &str = "/sendo/front-proxy-certificate-authority";

/// Why the authority of a store cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// It cannot be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The store fails.
    #[error("cannot keep the cluster's certificate authority: {0}")]
    Store(#[from] Error),
    /// What the store holds is not what was put there.
    #[error("the cluster's certificate authority in the store cannot be read: {0}")]
    Damaged(String),
}

impl Authority {
    /// The authority that `store` keeps; a new one is made and kept there the first time.
    ///
    /// Certificates that it signed, and copies of its own, stay valid when the cluster is
    /// started again on the same store.
    ///
    /// # Errors
    /// If the store fails, or what it keeps cannot be read.
    pub async fn kept_in(store: &dyn Store, now: Timestamp) -> Result<Self, AuthorityError> {
        kept(store, KEY, CLUSTER, now).await
    }

    /// The same for the authority of the certificate that the server shows to other API
    /// servers.
    ///
    /// # Errors
    /// If the store fails, or what it keeps cannot be read.
    pub(crate) async fn of_front_proxy(
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Self, AuthorityError> {
        kept(store, FRONT_PROXY_KEY, FRONT_PROXY, now).await
    }
}

async fn kept(
    store: &dyn Store,
    key: &'static str,
    name: &str,
    now: Timestamp,
) -> Result<Authority, AuthorityError> {
    loop {
        if let Some(entry) = store.get(key, At::Latest).await?.entry {
            return restore(name, &entry.value, now);
        }
        let made = Authority::named(name, now)?;
        let kept = json!({ "certificate": made.pem(), "key": made.key_pem() });
        let keep = Transaction::new()
            .absent(key)
            .put(key, Bytes::from(kept.to_string()));
        match store.commit(keep).await {
            Ok(_) => return Ok(made),
            // Another process has stored one meanwhile: it is used.
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn restore(name: &str, bytes: &[u8], now: Timestamp) -> Result<Authority, AuthorityError> {
    let damaged = |cause: String| AuthorityError::Damaged(cause);
    let kept: Value = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let (Some(certificate), Some(key)) = (kept["certificate"].as_str(), kept["key"].as_str())
    else {
        return Err(damaged("certificate or key is missing".to_owned()));
    };
    let restored = Authority::from_pem(name, certificate, key, now);
    restored.map_err(|error| damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sendo_store::{Memory, Retention};
    use sendo_world::World;

    fn store(world: &World) -> Memory {
        Memory::new(world.clock().clone(), Retention::default())
    }

    #[tokio::test]
    async fn the_same_store_gives_the_same_authority() {
        let world = World::seeded(1);
        let (store, now) = (store(&world), world.clock().wall());
        let first = Authority::kept_in(&store, now).await.unwrap();
        let again = Authority::kept_in(&store, now).await.unwrap();
        assert_eq!(first.pem(), again.pem());
        assert_eq!(first.key_pem(), again.key_pem());
        assert_eq!(first.der(), again.der());
    }

    #[tokio::test]
    async fn a_damaged_one_is_reported_and_not_replaced() {
        let world = World::seeded(1);
        let store = store(&world);
        let put = Transaction::new().put(KEY, "{}");
        store.commit(put).await.unwrap();
        let refused = Authority::kept_in(&store, world.clock().wall()).await;
        assert!(matches!(refused, Err(AuthorityError::Damaged(_))));
    }
}
