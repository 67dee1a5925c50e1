//! The responses to probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use sendo_server::{ApiServer, Options};
use sendo_store::{At, Error, KeyRange, Lookup, Memory, Page, Revision, Store, Transaction, Watch};
use sendo_world::World;
use serde_json::{Value, json};

use super::support::Fixture;

#[tokio::test(start_paused = true)]
async fn a_server_that_awaits_its_cluster_is_alive_at_once_and_ready_when_told() {
    let world = World::seeded(1);
    let store = Arc::new(Memory::new(world.clock().clone(), Default::default()));
    let options = Options {
        await_parts: true,
        ..Options::new(store, world.clone())
    };
    let server = ApiServer::start(options).await.unwrap();
    let f = Fixture { server, world };
    assert_eq!(f.get("/livez").await.code, 200);
    assert_eq!(f.get("/readyz").await.code, 500);
    assert_eq!(f.get("/readyz?exclude=informer-sync").await.code, 200);
    f.server.all_up();
    let ready = f.get("/readyz").await;
    assert_eq!((ready.code, ready.body.as_str()), (200, Some("ok")));
}

/// A store whose disk can be filled.
struct Fillable {
    memory: Memory,
    full: AtomicBool,
}

impl Store for Fillable {
    fn get<'a>(&'a self, key: &'a str, at: At) -> BoxFuture<'a, Result<Lookup, Error>> {
        self.memory.get(key, at)
    }
    fn range(
        &self,
        range: KeyRange,
        at: At,
        limit: Option<usize>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        self.memory.range(range, at, limit)
    }
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, Error>> {
        match self.health() {
            Ok(()) => self.memory.commit(transaction),
            Err(full) => Box::pin(async { Err(full) }),
        }
    }
    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        self.memory.watch(range, after)
    }
    fn revision(&self) -> Revision {
        self.memory.revision()
    }
    fn health(&self) -> Result<(), Error> {
        match self.full.load(Ordering::Relaxed) {
            true => Err(Error::Backend("no space".into())),
            false => Ok(()),
        }
    }
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.memory.compact(through)
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_store_cannot_write_says_so_and_is_read_all_the_same() {
    let world = World::seeded(1);
    let store = Arc::new(Fillable {
        memory: Memory::new(world.clock().clone(), Default::default()),
        full: AtomicBool::new(false),
    });
    let options = Options::new(store.clone(), world.clone());
    let server = ApiServer::start(options).await.unwrap();
    let f = Fixture { server, world };
    assert_eq!(f.get("/readyz").await.code, 200);
    store.full.store(true, Ordering::Relaxed);
    for probe in ["/healthz", "/livez", "/readyz", "/readyz/etcd"] {
        assert_eq!(f.get(probe).await.code, 500, "{probe}");
    }
    let late = json!({"metadata": {"name": "late"}});
    let refused = f.json("POST /api/v1/namespaces", late).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (500, &json!("InternalError"))
    );
    assert_eq!(f.get("/api/v1/namespaces/default").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_cluster_are_well_from_when_they_are_up() {
    const STATUSES: &str = "/api/v1/componentstatuses";
    let alone = Fixture::start().await;
    let cluster = Fixture::start_with(|options| options.await_parts = true).await;
    let status = async |f: &Fixture, name: &str| {
        let found = f.get(&format!("{STATUSES}/{name}")).await;
        assert_eq!(
            (found.code, &found.body["kind"]),
            (200, &json!("ComponentStatus"))
        );
        assert_eq!(found.body["metadata"], json!({"name": name}));
        found.body["conditions"][0]["status"].clone()
    };
    assert_eq!(status(&alone, "scheduler").await, "False");
    assert_eq!(status(&cluster, "scheduler").await, "False");
    cluster.server.all_up();
    for name in ["controller-manager", "scheduler"] {
        assert_eq!(status(&cluster, name).await, "True");
    }
    let names = async |query: &str| -> Vec<Value> {
        let list = cluster.get(&format!("{STATUSES}{query}")).await;
        assert_eq!(list.body["kind"], "ComponentStatusList");
        let items = list.body["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].clone()).collect()
    };
    assert_eq!(names("").await, ["controller-manager", "scheduler"]);
    assert_eq!(
        names("?fieldSelector=metadata.name=scheduler").await,
        ["scheduler"]
    );
    assert_eq!(names("?labelSelector=a=b").await, [""; 0]);
    assert_eq!(cluster.get(&format!("{STATUSES}/etcd-0")).await.code, 404);
    let refused = cluster.get(&format!("{STATUSES}?watch=1")).await;
    assert_eq!(refused.code, 405);
}
