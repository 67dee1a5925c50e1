//! An API server that keeps one Lease, with a line to each client that a test can disturb.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use parking_lot::Mutex;
use sendo_world::World;
use serde_json::{Value, json};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Default)]
pub(super) struct LeaseService {
    stored: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
}

/// What happens to the requests of one client.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    state: Arc<Mutex<Faults>>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Requests fail and change nothing.
    pub(super) cut: bool,
    /// Requests take effect, but their answers are lost.
    pub(super) deaf: bool,
    /// How long a request takes to arrive; it does, even if its sender has given up.
    pub(super) there: Duration,
    /// How long an answer takes to come back.
    pub(super) back: Duration,
}

impl Line {
    pub(super) fn set(&self, faults: Faults) {
        *self.state.lock() = faults;
    }

    pub(super) fn is_cut(&self) -> bool {
        self.faults().cut
    }

    fn faults(&self) -> Faults {
        *self.state.lock()
    }
}

impl LeaseService {
    /// The lease as it is stored.
    pub(super) fn lease(&self) -> Option<Lease> {
        let lease = self.stored.lock().lease.clone()?;
        Some(serde_json::from_value(lease).unwrap())
    }

    pub(super) fn holder(&self) -> Option<String> {
        self.lease()?.spec?.holder_identity
    }

    /// A client at the other end of `line`. `world` carries its requests.
    pub(super) fn client(&self, world: &World, line: &Line) -> kube::Client {
        let (service, world, line) = (self.clone(), world.clone(), line.clone());
        let serve = tower::service_fn(move |request: Request<Body>| {
            let (service, world, line) = (service.clone(), world.clone(), line.clone());
            async move {
                let faults = line.faults();
                if faults.cut {
                    return Err(Error::from("connection refused"));
                }
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                // On its way by itself: who sent it cannot call it back.
                let clock = world.clock().clone();
                let journey = world.tasks().spawn("request", async move {
                    clock.sleep(faults.there).await;
                    let answer = service.answer(&head.method, &body);
                    clock.sleep(faults.back).await;
                    answer
                });
                let (code, body) = journey.output().await.expect("the service does not panic");
                if faults.deaf || line.faults().cut {
                    return Err(Error::from("connection reset"));
                }
                let body = Full::new(Bytes::from(body.to_string()));
                Ok(Response::builder().status(code).body(body)?)
            }
        });
        kube::Client::new(serve, "ns")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut stored = self.stored.lock();
        let sent = || serde_json::from_slice::<Value>(body).expect("a lease");
        match (method.as_str(), stored.lease.clone()) {
            ("GET", Some(lease)) => (200, lease),
            ("GET" | "PUT", None) => status(404, "NotFound"),
            ("POST", Some(_)) => status(409, "AlreadyExists"),
            ("POST", None) => (201, stored.keep(sent())),
            ("PUT", Some(lease)) => {
                let new = sent();
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                if version(&new) != version(&lease) {
                    return status(409, "Conflict");
                }
                (200, stored.keep(new))
            }
            (other, _) => panic!("nobody asks for {other} here"),
        }
    }
}

impl Stored {
    fn keep(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "code": code, "reason": reason, "message": reason});
    (code, status)
}
