//! What probes are told.

use std::sync::Arc;

use sendo_server::{ApiServer, Options};
use sendo_store::Memory;
use sendo_world::World;

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
