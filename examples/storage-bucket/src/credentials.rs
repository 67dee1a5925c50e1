//! What to sign requests for a bucket with.

use k8s_openapi::api::core::v1::Secret;
use sendo::{Context, ObjectExt, ObjectKey, Result};

use crate::api::StorageBucket;
use crate::store::{Credentials, Problem, Reason};

/// What a bucket's Secret says.
pub(crate) enum Keys {
    /// These credentials; none if the bucket names no Secret.
    Usable(Option<Credentials>),
    /// The Secret is not there.
    Missing(Problem),
    /// The Secret has no credentials.
    Unusable(Problem),
}

/// The credentials of a bucket.
pub(crate) async fn of(bucket: &StorageBucket, cx: &Context) -> Result<Keys> {
    let Some(reference) = &bucket.spec.credentials_secret_ref else {
        return Ok(Keys::Usable(None));
    };
    let namespace = bucket.namespace().unwrap_or_default();
    let key = ObjectKey::namespaced(namespace, &reference.name);
    let problem = |cause: String| {
        Reason::BadCredentials.because(format!("the Secret {key} cannot be used: {cause}"))
    };
    // Read for each check rather than watched: a watch would keep every Secret
    // of the cluster in memory, and need the right to see them all.
    let secret = cx.live().get::<Secret>(&key).await?;
    let Some(secret) = secret else {
        return Ok(Keys::Missing(problem("it does not exist".to_owned())));
    };
    Ok(match from_secret(&secret) {
        Ok(credentials) => Keys::Usable(Some(credentials)),
        Err(cause) => Keys::Unusable(problem(cause)),
    })
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
