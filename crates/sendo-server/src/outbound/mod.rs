//! Calls of other programs: webhooks, and the API servers that APIServices name.
//!
//! A program is reached in one of three ways:
//!
//! 1. A program of this process has registered the host and port ([`LocalServices`]): its
//!    service is called, with no socket and no TLS.
//! 2. It is behind a Service: a ready address of its EndpointSlices is dialled
//!    ([`Outbound::resolve`]). Kubernetes does so with `--enable-aggregator-routing`; by default
//!    it dials the cluster IP, which leads nowhere here because no kube-proxy runs.
//! 3. Its URL is known: the host is dialled.
//!
//! Connections are kept between calls, for each set of trusted certificates
//! ([`Outbound::client`]).

mod connection;
mod endpoint;
mod failure;
mod local;
mod trust;

use std::sync::Arc;

use sendo_store::Store;
use sendo_world::World;

use connection::Connections;

pub(crate) use connection::{Client, Tls};
pub(crate) use failure::text as failure_text;
pub(crate) use local::Found;
pub use local::{LocalService, LocalServices};
pub(crate) use trust::{ClientCertificate, Trust};

/// What calls of other programs share: their connections, and the services of this process.
pub(crate) struct Outbound {
    world: World,
    store: Arc<dyn Store>,
    local: LocalServices,
    connections: Connections,
}

impl Outbound {
    /// Calls programs from `world`, those behind Services by what `store` holds of them.
    pub(crate) fn new(store: &Arc<dyn Store>, world: &World) -> Self {
        let world = world.child("outbound");
        Outbound {
            store: Arc::clone(store),
            local: LocalServices::default(),
            connections: Connections::new(&world),
            world,
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// The services of this process that are called without a socket.
    pub(crate) fn local(&self) -> &LocalServices {
        &self.local
    }

    /// The client for programs with this certificate. An error says why no certificate of
    /// theirs can be verified.
    pub(crate) fn client(&self, tls: &Tls<'_>) -> Result<Client, String> {
        self.connections.client(tls)
    }

    /// Shows `certificate` from now on to those that are to see it ([`Tls::as_front_proxy`]).
    pub(crate) fn set_front_proxy_certificate(&self, certificate: ClientCertificate) {
        self.connections.set_front_proxy_certificate(certificate);
    }

    /// Host and port to dial for a Service's port; the error is in the words of Kubernetes.
    pub(crate) async fn resolve(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<String, String> {
        endpoint::resolve(self, namespace, name, port).await
    }
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
