//! Other objects that a step depends on.
//!
//! Every pod is looked at beside its namespace, its account and the classes there
//! are, so what was decoded is kept with its entry.

use std::sync::Arc;

use sendo_apimachinery::Status;
use sendo_store::{At, KeyRange};
use serde_json::Value;

use crate::catalog::keys::Keys;
use crate::catalog::storage::backend;
use crate::catalog::stored_form::{self, Stored};
use crate::state::call::Call;

/// The object of that name in its stored form, if there is one.
pub(super) async fn get(
    call: &Call<'_>,
    keys: &Keys,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Arc<Value>>, Status> {
    let key = keys.object(namespace, name);
    let found = call.server.store.get(&key, At::Latest).await;
    let entry = found.map_err(backend)?.entry;
    Ok(entry.as_deref().map(stored_form::object))
}

/// What is stored in a range of keys.
pub(super) async fn stored(call: &Call<'_>, range: KeyRange) -> Result<Vec<Stored>, Status> {
    let page = call.server.store.range(range, At::Latest, None).await;
    let entries = page.map_err(backend)?.entries;
    Ok(entries.iter().map(|entry| Stored::from(&**entry)).collect())
}

/// All objects of a namespace, or of the cluster, in their stored form, by name.
pub(super) async fn list(
    call: &Call<'_>,
    keys: &Keys,
    namespace: Option<&str>,
) -> Result<Vec<Arc<Value>>, Status> {
    let range = KeyRange::prefix(&keys.collection(namespace));
    let page = call.server.store.range(range, At::Latest, None).await;
    let entries = page.map_err(backend)?.entries;
    Ok(entries
        .iter()
        .map(|entry| stored_form::object(entry))
        .collect())
}
