//! A connection that stops being HTTP, such as one that becomes a WebSocket.
//!
//! A request arranges what its connection becomes ([`Upgrade::arrange`]). The task of the
//! connection takes that over once the response has been sent, and copies bytes both ways, so that
//! what is left of the connection has the same owner until its end.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go`: `tryUpgrade`

use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sendo_world::Clock;
use tokio::io::{self, AsyncWriteExt as _};

/// How long either side may take to hear that the other one has ended.
const PARTING: Duration = Duration::from_secs(5);

/// What a connection becomes, once a request has arranged it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arranged(Arc<Mutex<Option<Tunnel>>>);

impl Arranged {
    /// What the connection has become; `None` if it just ended.
    pub(crate) fn take(&self) -> Option<Tunnel> {
        self.0.lock().take()
    }
}

/// The connection of a request that asks for another protocol.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    client: OnUpgrade,
    arranged: Arranged,
}

impl Upgrade {
    pub(crate) fn new(client: OnUpgrade, arranged: &Arranged) -> Self {
        Upgrade {
            client,
            arranged: arranged.clone(),
        }
    }

    /// Joins the connection to that of another server when the response has been sent, which
    /// must be a 101.
    pub(crate) fn arrange(&self, server: Upgraded) {
        let tunnel = Tunnel {
            client: self.client.clone(),
            server,
        };
        *self.arranged.0.lock() = Some(tunnel);
    }
}

/// A client's connection, joined to that of another server.
#[derive(Debug)]
pub(crate) struct Tunnel {
    client: OnUpgrade,
    server: Upgraded,
}

impl Tunnel {
    /// Copies bytes both ways until one side ends, and then closes both. Dropping the future
    /// closes both at once.
    pub(crate) async fn run(self, clock: &Clock) {
        let client = match self.client.await {
            Ok(client) => client,
            Err(error) => return tracing::debug!(%error, "a connection broke in its upgrade"),
        };
        let (mut from_client, mut to_client) = io::split(TokioIo::new(client));
        let (mut from_server, mut to_server) = io::split(TokioIo::new(self.server));
        let ended = tokio::select! {
            ended = io::copy(&mut from_client, &mut to_server) => ended,
            ended = io::copy(&mut from_server, &mut to_client) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "an upgraded connection broke");
        }
        let closing = async { futures::join!(to_client.shutdown(), to_server.shutdown()) };
        // Whoever does not listen any more is cut off.
        drop(clock.timeout(PARTING, closing).await);
    }
}
