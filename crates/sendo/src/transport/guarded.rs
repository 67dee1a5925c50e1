//! A client of the `kube` crate whose requests are looked up before they are sent.

use std::any::TypeId;
use std::fmt;
use std::sync::{Arc, OnceLock};

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::client::Body;

use super::error::Error;
use super::request::WriteGate;
use crate::object::Object;
use crate::rights::DeclaredRights;

/// The content types of a server-side apply begin with this.
pub(super) const APPLY: &str = "application/apply-patch";

/// A client of the `kube` crate that sends what the program has declared, and
/// writes only while the gate is open. Made when it is first asked for.
#[derive(Clone)]
pub(crate) struct GuardedKube {
    client: kube::Client,
    rights: DeclaredRights,
    gate: Option<Arc<dyn WriteGate>>,
    guarded: Arc<OnceLock<kube::Client>>,
}

impl GuardedKube {
    pub(crate) fn new(
        client: kube::Client,
        rights: DeclaredRights,
        gate: Option<Arc<dyn WriteGate>>,
    ) -> Self {
        GuardedKube {
            client,
            rights,
            gate,
            guarded: Arc::default(),
        }
    }

    /// For discovery, which every user may read.
    pub(crate) fn for_discovery(&self) -> &kube::Client {
        &self.client
    }

    /// Must be called inside a tokio runtime.
    pub(crate) fn client(&self) -> kube::Client {
        self.guarded.get_or_init(|| self.guard()).clone()
    }

    fn guard(&self) -> kube::Client {
        let (client, rights, gate) = (self.client.clone(), self.rights.clone(), self.gate.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let refused = refuse(&request, &rights, gate.as_deref());
            let client = client.clone();
            async move {
                refused?;
                let answer = client.send(request).await;
                Ok::<_, tower::BoxError>(answer?)
            }
        });
        kube::Client::new(service, self.client.default_namespace())
    }
}

fn refuse(
    request: &Request<Body>,
    rights: &DeclaredRights,
    gate: Option<&dyn WriteGate>,
) -> Result<(), Error> {
    let (method, uri) = (request.method(), request.uri());
    let content_type = request.headers().get(CONTENT_TYPE);
    let applies = content_type.is_some_and(|kind| kind.as_bytes().starts_with(APPLY.as_bytes()));
    let line = (uri.path(), uri.query().unwrap_or_default());
    rights.check(method, line, applies, None)?;
    let is_write = !matches!(*method, Method::GET | Method::HEAD);
    if is_write && gate.is_some_and(|gate| gate.open_for().is_none()) {
        return Err(Error::not_the_leader(format!("{method} {}", uri.path())));
    }
    Ok(())
}

impl fmt::Debug for GuardedKube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardedKube")
    }
}

/// How a program writes the type `K`, if the type says which kind it is.
pub(crate) fn type_hint<K: Object>() -> Option<fn() -> String> {
    let knows_its_kind = TypeId::of::<K::DynamicType>() == TypeId::of::<()>();
    knows_its_kind.then_some(crate::object::short_type_name::<K> as fn() -> String)
}
