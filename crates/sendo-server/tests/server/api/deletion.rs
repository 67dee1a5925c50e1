//! Deletions of pods beside a node that deletes them too, and a process that ends halfway.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use sendo_server::{ApiServer, Options};
use sendo_store::{At, Error, KeyRange, Lookup, Memory, Page, Revision, Store, Transaction, Watch};
use sendo_world::World;
use serde_json::json;

use super::support::Fixture;

const POD: &str = "/api/v1/namespaces/default/pods/a";
const KEY: &str = "/registry/core/pods/default/a";

/// What happens to the pod beside the commits of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// The pod is deleted just before the server's next commit.
    DeletedBefore,
    /// The pod is deleted just after each of the server's commits.
    DeletedAfter,
    /// The process is killed after the server's next commit.
    KilledAfter,
    /// The process has been killed.
    Killed,
}

/// A store to which something happens beside the server.
struct Beside {
    memory: Memory,
    meanwhile: Mutex<Meanwhile>,
}

impl Beside {
    fn set(&self, meanwhile: Meanwhile) {
        *self.meanwhile.lock() = meanwhile;
    }
}

impl Store for Beside {
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
        Box::pin(async move {
            let meanwhile = *self.meanwhile.lock();
            let delete = || self.memory.commit(Transaction::new().delete(KEY));
            match meanwhile {
                Meanwhile::Killed => return Err(Error::Backend("killed".into())),
                Meanwhile::KilledAfter => self.set(Meanwhile::Killed),
                Meanwhile::DeletedBefore => _ = delete().await?,
                Meanwhile::DeletedAfter | Meanwhile::Nothing => {}
            }
            let outcome = self.memory.commit(transaction).await;
            if meanwhile == Meanwhile::DeletedAfter {
                delete().await?;
            }
            outcome
        })
    }
    fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        self.memory.watch(range, after)
    }
    fn revision(&self) -> Revision {
        self.memory.revision()
    }
    fn health(&self) -> Result<(), Error> {
        self.memory.health()
    }
    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.memory.compact(through)
    }
}

/// A server with a pod that is bound to a node.
async fn with_pod() -> (Fixture, Arc<Beside>) {
    let world = World::seeded(1);
    let store = Arc::new(Beside {
        memory: Memory::new(world.clock().clone(), Default::default()),
        meanwhile: Mutex::new(Meanwhile::Nothing),
    });
    let options = Options::new(store.clone(), world.clone());
    let server = ApiServer::start(options).await.unwrap();
    let f = Fixture { server, world };
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]},
    });
    let created = f.json("POST /api/v1/namespaces/default/pods", pod).await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    (f, store)
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_without_grace_is_gone_for_its_deleter_whoever_else_deletes_it_then() {
    let (f, store) = with_pod().await;
    store.set(Meanwhile::DeletedAfter);
    let deleted = f.delete(&format!("{POD}?gracePeriodSeconds=0")).await;
    assert_eq!(deleted.code, 200, "{:?}", deleted.body);
    assert_eq!(
        deleted.body["metadata"]["deletionGracePeriodSeconds"],
        json!(0)
    );
    assert_eq!(f.get(POD).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_deleted_before_it_was_marked_is_not_found() {
    let (f, store) = with_pod().await;
    store.set(Meanwhile::DeletedBefore);
    let deleted = f.delete(&format!("{POD}?gracePeriodSeconds=0")).await;
    assert_eq!(deleted.code, 404, "{:?}", deleted.body);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_grace_leaves_no_marked_pod_wherever_the_process_ends() {
    for killed in [Meanwhile::Killed, Meanwhile::KilledAfter] {
        let (f, store) = with_pod().await;
        store.set(killed);
        f.delete(&format!("{POD}?gracePeriodSeconds=0")).await;
        store.set(Meanwhile::Nothing);
        let left = f.get(POD).await;
        let marked = left.body["metadata"].get("deletionTimestamp");
        assert_eq!(marked, None, "{:?}", left.body);
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_see_a_pod_marked_and_then_gone() {
    let (f, _) = with_pod().await;
    let mut watch = f
        .watch("/api/v1/namespaces/default/pods?watch=true&resourceVersion=0")
        .await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
    f.delete(&format!("{POD}?gracePeriodSeconds=0")).await;
    let (marked, gone) = (watch.next().await.unwrap(), watch.next().await.unwrap());
    assert_eq!(
        (&marked["type"], &gone["type"]),
        (&json!("MODIFIED"), &json!("DELETED"))
    );
    let version = |event: &serde_json::Value| -> u64 {
        let text = event["object"]["metadata"]["resourceVersion"].as_str();
        text.unwrap().parse().unwrap()
    };
    assert_eq!(version(&gone), version(&marked) + 1);
    for event in [marked, gone] {
        let grace = &event["object"]["metadata"]["deletionGracePeriodSeconds"];
        assert_eq!(grace, &json!(0));
    }
}
