//! The cluster as it is at this moment, read without waiting.

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Empty};
use sendo::{Kind, ObjectKey, Typed};
use sendo_server::ApiServer;
use serde_json::Value;
use tower::Service;

/// Synchronous reads of the API server: what [`TestCluster::until`](crate::TestCluster::until) looks at.
///
/// Every read is answered from the server's own store, at this very moment.
#[derive(Clone, Debug)]
pub struct View {
    server: ApiServer,
}

impl View {
    pub(crate) fn new(server: ApiServer) -> Self {
        View { server }
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The object under `key`.
    pub fn get<K: Typed>(&self, key: impl Into<ObjectKey>) -> Option<K> {
        let key = key.into();
        let collection = Kind::of::<K>().path(key.namespace());
        self.read(&format!("{collection}/{}", key.name()))
    }

    /// All objects of a kind, in all namespaces, in key order.
    pub fn list<K: Typed>(&self) -> Vec<K> {
        let list: Option<Value> = self.read(&Kind::of::<K>().path(None));
        let mut list = list.unwrap_or_default();
        let items = list["items"].take();
        let Value::Array(items) = items else {
            return Vec::new();
        };
        let decode = |item| serde_json::from_value(item).expect("an object of its own kind");
        items.into_iter().map(decode).collect()
    }

    fn read<T: serde::de::DeserializeOwned>(&self, path: &str) -> Option<T> {
        let request = http::Request::get(path)
            .body(Empty::<Bytes>::new())
            .expect("a path of a kind");
        let answer = async {
            let answer = self.server.client_service().call(request).await;
            let (head, body) = answer.expect("the server always answers").into_parts();
            let body = body.collect().await.expect("a body in memory").to_bytes();
            (head.status, body)
        };
        let answered = answer.now_or_never();
        let (status, body) = answered.expect(
            "a read from memory is answered at once, unless a webhook converts the object and waits: \
             then read it with `cluster.client().live()`",
        );
        match status.as_u16() {
            200 => Some(serde_json::from_slice(&body).expect("an object of its own kind")),
            404 => None,
            _ => panic!("GET {path}: {status}: {}", String::from_utf8_lossy(&body)),
        }
    }
}
