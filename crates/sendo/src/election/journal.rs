//! Leaders that write all the time, and in which order their writes took effect.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use parking_lot::Mutex;
use sendo_world::{Clock, Random, World};
use serde_json::json;

use super::Gate;
use super::lease_service::Line;
use crate::Client;
use crate::cache::{Cache, CacheOptions};
use crate::client::ClientOptions;

/// A process and which of its lives.
pub(super) type Term = (u64, usize);

/// The writes that took effect, in order.
#[derive(Clone)]
pub(super) struct Journal {
    written: Arc<Mutex<Vec<Term>>>,
    random: Random,
    /// The time of the network, which belongs to nobody.
    world: World,
}

impl Journal {
    pub(super) fn new(world: &World) -> Self {
        Journal {
            written: Arc::default(),
            random: world.random().child("journal"),
            world: world.child("network"),
        }
    }

    pub(super) fn writes(&self) -> Vec<Term> {
        self.written.lock().clone()
    }
}

/// Writes twice a second, through the gate, in the name of one term.
pub(super) struct Writer {
    client: Client,
    clock: Clock,
    gate: Gate,
    limit: Arc<Mutex<Duration>>,
}

impl Writer {
    pub(super) fn new(
        journal: &Journal,
        world: &World,
        line: Line,
        gate: Gate,
        term: Term,
    ) -> Self {
        let limit: Arc<Mutex<Duration>> = Arc::default();
        let (journal, left) = (journal.clone(), limit.clone());
        let own = world.clock().clone();
        let serve = tower::service_fn(move |_: Request<Body>| {
            let (journal, line, own) = (journal.clone(), line.clone(), own.clone());
            // The bound: what takes longer than its sender waits never takes effect.
            let deadline = own.now() + *left.lock();
            async move {
                let there = Duration::from_secs(6)
                    .mul_f64(journal.random.fraction() * journal.random.fraction());
                let network = journal.world.clock().clone();
                let written = journal.written.clone();
                // On its way by itself, while its sender may stand still.
                let journey = journal.world.tasks().spawn("write", async move {
                    network.sleep(there).await;
                    if own.now() < deadline && !line.is_cut() {
                        written.lock().push(term);
                    }
                });
                journey.output().await;
                let answer = json!({"metadata": {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "1"}});
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let kube = kube::Client::new(serve, "ns");
        let cache = Cache::new(kube.clone(), world.clone(), CacheOptions::default());
        let client = Client::new(kube, cache, world.clone(), ClientOptions::default());
        Writer {
            client: client.with_gate(Arc::new(gate.clone())),
            clock: world.clock().clone(),
            gate,
            limit,
        }
    }

    pub(super) async fn run(self) {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("ns".to_owned());
        map.metadata.name = Some("x".to_owned());
        loop {
            self.clock.sleep(Duration::from_millis(500)).await;
            let Ok(remaining) = self.gate.check() else {
                continue;
            };
            *self.limit.lock() = remaining.clip(ClientOptions::default().timeout);
            // Lost or late: the leader does not mind, it writes again.
            let _ = self.client.create(&map).await;
        }
    }
}
