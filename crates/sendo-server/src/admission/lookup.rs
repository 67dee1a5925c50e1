//! Other objects that a decision depends on.

use sendo_apimachinery::Status;
use sendo_store::{At, KeyRange};
use serde_json::Value;

use crate::call::{Call, backend};
use crate::keys::Keys;

/// The object of that name in its stored form, if there is one.
pub(super) async fn get(
    call: &Call<'_>,
    keys: &Keys,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, Status> {
    let key = keys.object(namespace, name);
    let found = call
        .server
        .store
        .get(&key, At::Latest)
        .await
        .map_err(backend)?;
    Ok(found.entry.map(|entry| {
        serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours")
    }))
}

/// All objects of a namespace, or of the cluster, in their stored form, by name.
pub(super) async fn list(
    call: &Call<'_>,
    keys: &Keys,
    namespace: Option<&str>,
) -> Result<Vec<Value>, Status> {
    let range = KeyRange::prefix(&keys.collection(namespace));
    let page = call
        .server
        .store
        .range(range, At::Latest, None)
        .await
        .map_err(backend)?;
    let decode = |entry: &std::sync::Arc<sendo_store::Entry>| {
        serde_json::from_slice(&entry.value).expect("stored objects are JSON of ours")
    };
    Ok(page.entries.iter().map(decode).collect())
}
