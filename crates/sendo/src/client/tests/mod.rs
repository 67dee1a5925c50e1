//! Writes: what is sent, what comes of the answers, and what cached reads then show.

mod changes;
mod seen;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use sendo_world::World;
use serde_json::{Value, json};

use super::*;
use crate::cache::{CacheOptions, Informer, KindOptions};
use crate::controller::Action;
use crate::object::{ObjectExt, ObjectKey};
use crate::source::AnyMeta;
use crate::transport::fake_api::{FakeApi, Stream};

const PATH: &str = "/api/v1/namespaces/a/configmaps";
const ONE: &str = "/api/v1/namespaces/a/configmaps/one";

fn json_map(version: u64, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {
        "namespace": "a", "name": "one", "uid": "u1", "resourceVersion": version.to_string()}})
}

fn map(version: u64, data: Value) -> ConfigMap {
    serde_json::from_value(json_map(version, data)).unwrap()
}

fn client() -> (Client, FakeApi) {
    client_with(CacheOptions {
        streaming: false,
        ..CacheOptions::default()
    })
}

fn client_with(cache: CacheOptions) -> (Client, FakeApi) {
    let (kube, api) = FakeApi::new();
    let world = World::seeded(1);
    let cache = Cache::new(kube.clone(), world.clone(), cache);
    let options = ClientOptions {
        name: "bar-controller".to_owned(),
        ..ClientOptions::default()
    };
    (Client::new(kube, cache, world, options), api)
}

/// A client with a cache of ConfigMaps that has seen `a/one` at version 10.
async fn with_cache() -> (Client, FakeApi, Informer<ConfigMap>, Stream) {
    let (client, mut api) = client();
    let kind = Kind::of::<ConfigMap>();
    let informer = client.cache().informer(kind, Selection::default());
    let call = api.expect_list("/api/v1/configmaps").await;
    call.list(10, &[json_map(10, json!({"k": "old"}))]);
    let watch = api.expect_watch("/api/v1/configmaps").await.open(200);
    informer.synced().await;
    (client, api, informer, watch)
}

/// The data of `a/one` as the cache shows it.
fn cached(informer: &Informer<ConfigMap>) -> Option<Value> {
    let one = informer.snapshot().get(&"a/one".into())?;
    Some(json!(one.data))
}

/// Runs a request and its answer at once.
async fn both<T>(request: impl Future<Output = T>, answers: impl Future<Output = ()>) -> T {
    futures::future::join(request, answers).await.0
}
