//! Reads that ask the API server.

use super::Client;
use crate::cache::Selection;
use crate::object::{Kind, ObjectKey, Typed};
use crate::transport::Error;

/// Reads of the API server as it is now, past the cache. Each is a request.
#[derive(Clone, Debug)]
pub struct Live {
    client: Client,
}

impl Live {
    pub(super) fn new(client: Client) -> Self {
        Live { client }
    }

    /// The object, `None` if there is none.
    pub async fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Result<Option<K>, Error> {
        let kind = self.client.of_kind(Kind::of::<K>());
        kind.live_get(&key.into()).await
    }

    /// All selected objects. A list too long for one answer is asked for in pages.
    pub async fn list<K: Typed>(&self, selection: &Selection) -> Result<Vec<K>, Error> {
        let kind = self.client.of_kind(Kind::of::<K>());
        kind.live_list(selection).await
    }
}
