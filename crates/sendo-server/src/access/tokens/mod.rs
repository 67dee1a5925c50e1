//! Bearer tokens: static ones, and those that the server signs for service accounts.
//!
//! `key` signs tokens, `request` issues them, `check` authenticates them, and `openid` publishes
//! what other programs need to verify them.

mod check;
mod key;

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use ring::digest::{SHA256, digest};
use sendo_apimachinery::Status;
use sendo_store::{At, Error, Store, Transaction};
use serde_json::Value;

pub(crate) use key::{SigningKey, secret};

use crate::access::Access;
use crate::access::authenticate::Tokens;
use crate::catalog::storage::backend;
use crate::request::user::User;

/// The issuer of tokens, which is also their default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The store key of the signing key, which is stored so that tokens stay valid after a restart.
const KEY: &str = "/sendo/service-account-key";

/// The maximum number of tokens whose verified signature is cached.
const REMEMBERED: usize = 1024;

/// Static tokens and the signing key. Tokens are indexed by their digest, so that the duration of a
/// lookup reveals nothing about them.
pub(crate) struct Credentials {
    store: Arc<dyn Store>,
    given: RwLock<HashMap<[u8; 32], User>>,
    key: tokio::sync::OnceCell<Arc<SigningKey>>,
    /// The claims of tokens whose signature was verified.
    verified: Mutex<HashMap<[u8; 32], Arc<Value>>>,
}

fn digest_of(token: &str) -> [u8; 32] {
    let digest = digest(&SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

impl Credentials {
    pub(crate) fn new(store: Arc<dyn Store>, given: Tokens) -> Self {
        let given = given.into_iter();
        Credentials {
            store,
            given: RwLock::new(
                given
                    .map(|(token, user)| (digest_of(&token), user))
                    .collect(),
            ),
            key: tokio::sync::OnceCell::new(),
            verified: Mutex::default(),
        }
    }

    /// Adds a static token for `user`.
    pub(crate) fn give(&self, token: &str, user: User) {
        let mut given = self.given.write();
        given.insert(digest_of(token), user);
    }

    fn given(&self, token: &str) -> Option<User> {
        let given = self.given.read();
        given.get(&digest_of(token)).cloned()
    }

    /// The signing key: the one in the store, or a new one, which is stored.
    pub(crate) async fn key(&self) -> Result<&Arc<SigningKey>, Status> {
        self.key.get_or_try_init(|| self.find_key()).await
    }

    async fn find_key(&self) -> Result<Arc<SigningKey>, Status> {
        loop {
            let found = self.store.get(KEY, At::Latest).await.map_err(backend)?;
            if let Some(entry) = found.entry {
                let key = SigningKey::read(&entry.value).map_err(Status::internal_error)?;
                return Ok(Arc::new(key));
            }
            let key = SigningKey::generate().map_err(Status::internal_error)?;
            let keep = Transaction::new().absent(KEY).put(KEY, key.document());
            match self.store.commit(keep).await {
                Ok(_) => return Ok(Arc::new(key)),
                // Another server stored a key first: read it.
                Err(Error::Conflict { .. }) => {}
                Err(other) => return Err(backend(other)),
            }
        }
    }

    /// The claims of a token that this cluster signed.
    async fn claims(&self, token: &str) -> Result<Arc<Value>, String> {
        let digest = digest_of(token);
        let remembered = || self.verified.lock();
        if let Some(claims) = remembered().get(&digest) {
            return Ok(Arc::clone(claims));
        }
        let key = self.key().await.map_err(|status| status.message)?;
        let claims = Arc::new(key.verify(token)?);
        let mut verified = remembered();
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(digest, Arc::clone(&claims));
        Ok(claims)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Tokens and keys are secret.
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Signs tokens of service accounts with the cluster's key.
#[derive(Clone, Debug)]
pub struct TokenSigner {
    access: Arc<Access>,
}

impl TokenSigner {
    pub(crate) fn new(access: Arc<Access>) -> Self {
        TokenSigner { access }
    }

    /// Signs a token with `claims`. The error says why the key could not be read from the store or
    /// could not sign.
    pub fn sign(&self, claims: Value) -> BoxFuture<'static, Result<String, String>> {
        let access = Arc::clone(&self.access);
        Box::pin(async move {
            let key = access.credentials.key().await;
            key.map_err(|status| status.message)?.sign(&claims)
        })
    }
}
