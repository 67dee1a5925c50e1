//! The server over TLS, with certificates of its own authority.

mod aggregated;
mod alerts;
mod connections;
mod cut;
mod heads;
mod upgrades;

use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use sendo_server::{ApiServer, Authority, Options, Serving};
use sendo_store::{Memory, Retention};
use sendo_world::World;

/// A server on a port of its own.
struct Served {
    world: World,
    server: ApiServer,
    serving: Serving,
}

impl Served {
    async fn start(world: World, retention: Retention) -> Self {
        let store = Arc::new(Memory::new(world.clock().clone(), retention));
        let options = Options::new(store, world.clone());
        let server = ApiServer::start(options).await.unwrap();
        let authority = Authority::new(world.clock().wall()).unwrap();
        let any_port = ([127, 0, 0, 1], 0).into();
        let serving = server.serve(any_port, authority).await.unwrap();
        Self {
            world,
            server,
            serving,
        }
    }

    async fn in_real_time() -> Self {
        Self::start(World::real(), Retention::default()).await
    }

    /// How an administrator reaches it.
    fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::from_yaml(&self.serving.kubeconfig()).unwrap()
    }

    async fn client(&self) -> kube::Client {
        client(self.kubeconfig()).await
    }
}

async fn client(config: Kubeconfig) -> kube::Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}
