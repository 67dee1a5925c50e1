//! Caches OpenAPI documents that were requested, until what they describe changes.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;

/// Documents, each with the hash it was made under.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    made: Mutex<BTreeMap<String, (String, Bytes)>>,
}

impl Documents {
    /// The document at `path`; made anew if the one at hand is of another hash.
    pub(crate) fn get_or_make(
        &self,
        path: &str,
        hash: &str,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let mut made = self.made.lock();
        if let Some((_, bytes)) = made.get(path).filter(|(own, _)| own == hash) {
            return Some(bytes.clone());
        }
        let bytes = make()?;
        made.insert(path.to_owned(), (hash.to_owned(), bytes.clone()));
        Some(bytes)
    }
}
