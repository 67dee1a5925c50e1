//! What probes are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use sendo_server::{ApiServer, Options};
use sendo_store::{At, Error, KeyRange, Lookup, Memory, Page, Revision, Store, Transaction, Watch};
use sendo_world::World;
use serde_json::json;

use crate::support::Fixture;

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
