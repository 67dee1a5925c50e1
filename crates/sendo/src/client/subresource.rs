//! Subresources: parts and actions of an object with a path of their own.

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Client;
use super::kind::decode;
use super::patch::Patch;
use crate::transport::{Error, Request};

/// A subresource of an object, such as `scale`, `eviction` or `binding`.
///
/// What the object itself becomes is not in the answer: cached reads show it
/// when the watch does.
#[derive(Clone, Debug)]
pub struct Subresource {
    client: Client,
    path: String,
}

impl Subresource {
    pub(super) fn new(client: Client, path: String) -> Self {
        Subresource { client, path }
    }

    /// Reads it.
    pub async fn get<R: DeserializeOwned>(&self) -> Result<R, Error> {
        self.send(Request::get(self.path.clone())).await
    }

    /// Posts to it: what actions such as `eviction` and `binding` are made of.
    pub async fn create<R: DeserializeOwned>(&self, body: &impl Serialize) -> Result<R, Error> {
        let request = self.client.write(Method::POST, self.path.clone());
        self.send(request.json(body)?).await
    }

    /// Replaces it.
    pub async fn update<R: DeserializeOwned>(&self, body: &impl Serialize) -> Result<R, Error> {
        let request = self.client.write(Method::PUT, self.path.clone());
        self.send(request.json(body)?).await
    }

    /// Changes a part of it.
    pub async fn patch<R: DeserializeOwned>(&self, patch: Patch) -> Result<R, Error> {
        self.send(self.client.patch_request(self.path.clone(), &patch)?)
            .await
    }

    async fn send<R: DeserializeOwned>(&self, request: Request) -> Result<R, Error> {
        let answer: Bytes = self.client.transport().send(&request).await?;
        decode(&request, &answer)
    }
}
