//! The credentials for requests to a bucket.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use sendo::{Context, ObjectExt, ObjectKey, Result};

use crate::api::{DeletionPolicy, StorageBucket};
use crate::store::{Credentials, Problem, Reason};

/// The credentials in a bucket's Secret.
pub(crate) enum Keys {
    /// These credentials; none if the bucket names no Secret.
    Usable(Option<Credentials>),
    /// The Secret does not exist.
    Missing(Problem),
    /// The Secret has no credentials.
    Unusable(Problem),
}

/// Reads credentials, and keeps those of buckets that are to be deleted with their resource, because
/// in a deleted namespace the Secret is deleted before them.
#[derive(Default)]
pub(crate) struct CredentialStore {
    last: Mutex<BTreeMap<ObjectKey, Credentials>>,
}

impl CredentialStore {
    /// The credentials that the Secret of a bucket has now.
    pub(crate) async fn read(&self, bucket: &StorageBucket, cx: &Context) -> Result<Keys> {
        let Some(reference) = &bucket.spec.credentials_secret_ref else {
            return Ok(Keys::Usable(None));
        };
        let key = bucket.key_beside(&reference.name);
        let problem = |cause: &str| {
            Reason::BadCredentials.because(format!("the Secret {key} cannot be used: {cause}"))
        };
        // Read for each check rather than watched: a watch would keep every Secret
        // of the cluster in memory, and need the right to see them all.
        let Some(secret) = cx.live().get::<Secret>(&key).await? else {
            return Ok(Keys::Missing(problem("it does not exist")));
        };
        Ok(match from_secret(&secret) {
            Ok(credentials) => {
                if bucket.spec.deletion_policy == DeletionPolicy::Delete {
                    self.lock().insert(bucket.key(), credentials.clone());
                }
                Keys::Usable(Some(credentials))
            }
            Err(cause) => Keys::Unusable(problem(&cause)),
        })
    }

    /// The credentials that it had last.
    pub(crate) fn last(&self, bucket: &ObjectKey) -> Option<Credentials> {
        self.lock().get(bucket).cloned()
    }

    pub(crate) fn forget(&self, bucket: &ObjectKey) {
        self.lock().remove(bucket);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Credentials>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn from_secret(secret: &Secret) -> Result<Credentials, String> {
    let value = |name: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        let value = data.and_then(|value| String::from_utf8(value.0.clone()).ok());
        value.ok_or_else(|| format!("it has no text under the key {name:?}"))
    };
    Ok(Credentials::new(
        value("accessKeyID")?,
        value("secretAccessKey")?,
    ))
}
