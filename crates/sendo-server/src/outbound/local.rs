//! Services of this process that the server calls without a socket.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;

use crate::request::body::Body;

type Handler = dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// Services of this process, by host name and port.
///
/// Before the server dials a webhook, or the API server that an APIService names, it looks
/// here: for `<service>.<namespace>.svc` and the Service's port if a Service is named, and else
/// for host and port (443 by default) of the URL. A call of a service that is found uses no
/// socket and no TLS, so that `caBundle` and the Service's endpoints do not matter, and works in
/// virtual time. All else is as over the network: the time limit, status codes, what is read of
/// the body.
///
/// Cloning gives the same registry. [`crate::ApiServer::local_services`] has that of a server.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use sendo_server::LocalServices;
///
/// async fn review(request: Request<Bytes>) -> Response<Bytes> {
///     Response::new(request.into_body())
/// }
///
/// let services = LocalServices::default();
/// let registered = services.register("webhook.system.svc", 443, review);
/// drop(registered); // from here on the server dials again
/// ```
#[derive(Clone, Default)]
pub struct LocalServices {
    inner: Arc<Mutex<Services>>,
}

#[derive(Default)]
struct Services {
    /// Those of one host and port, in the order in which they came.
    by_address: BTreeMap<(String, u16), Vec<Entry>>,
    next: u64,
    /// Counts calls, so that they go to the replicas in turn.
    calls: AtomicUsize,
}

struct Entry {
    id: u64,
    handler: Arc<Handler>,
}

impl LocalServices {
    /// Has calls for `host` and `port` answered by `handler` until the returned value is
    /// dropped.
    ///
    /// `host` is compared regardless of case. Several services of one host and port, as of
    /// the replicas of a program, are called in turn. A handler that panics is to the caller
    /// a connection that was closed. The future of a call that takes too long is dropped, and
    /// so is the body of a response that is no longer wanted. A response of bytes is sent at
    /// once, a [`Body`] may be a stream, such as that of a watch.
    pub fn register<H, F, B>(&self, host: &str, port: u16, handler: H) -> LocalService
    where
        H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Body>,
    {
        let handler: Arc<Handler> = Arc::new(move |request| {
            let response = handler(request);
            async move { response.await.map(Into::into) }.boxed()
        });
        let address = (host.to_ascii_lowercase(), port);
        let mut services = self.inner.lock();
        let id = services.next;
        services.next += 1;
        let entries = services.by_address.entry(address.clone()).or_default();
        entries.push(Entry { id, handler });
        LocalService {
            services: self.clone(),
            address,
            id,
        }
    }

    /// Has the agent of a node asked by `handler`, until the returned value is dropped, with the
    /// requests that a kubelet takes: `GET /containerLogs/<namespace>/<pod>/<container>`.
    pub fn register_node_agent<H, F, B>(&self, node: &str, handler: H) -> LocalService
    where
        H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Into<Body>,
    {
        self.register(&node_host(node), AGENT_PORT, handler)
    }

    /// The agent of a node, if it is in this process.
    pub(crate) fn find_node_agent(&self, node: &str) -> Option<Found> {
        self.find(&node_host(node), AGENT_PORT)
    }

    /// The service for a host and port, if there is one.
    pub(crate) fn find(&self, host: &str, port: u16) -> Option<Found> {
        let services = self.inner.lock();
        if services.by_address.is_empty() {
            return None;
        }
        let entries = services
            .by_address
            .get(&(host.to_ascii_lowercase(), port))?;
        let turn = services.calls.fetch_add(1, Ordering::Relaxed);
        let handler = Arc::clone(&entries[turn % entries.len()].handler);
        Some(Found(handler))
    }
}

impl std::fmt::Debug for LocalServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let services = self.inner.lock();
        f.debug_set().entries(services.by_address.keys()).finish()
    }
}

/// The port of a kubelet.
const AGENT_PORT: u16 = 10250;

/// A host that no URL names, so that nothing but the server itself asks a node.
fn node_host(node: &str) -> String {
    format!("node:{node}")
}

/// A service that was found.
pub(crate) struct Found(Arc<Handler>);

impl Found {
    /// The service's response; `None` if it panicked.
    pub(crate) async fn call(&self, request: Request<Bytes>) -> Option<Response<Body>> {
        let response = async { (self.0)(request).await };
        AssertUnwindSafe(response).catch_unwind().await.ok()
    }
}

/// A registered service. It is called until this is dropped; calls that are under way then
/// go on.
#[derive(Debug)]
#[must_use = "the service is called only while this is kept"]
pub struct LocalService {
    services: LocalServices,
    address: (String, u16),
    id: u64,
}

impl Drop for LocalService {
    fn drop(&mut self) {
        let mut services = self.services.inner.lock();
        if let Some(entries) = services.by_address.get_mut(&self.address) {
            entries.retain(|entry| entry.id != self.id);
            if entries.is_empty() {
                services.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn named(name: &'static str) -> impl Fn(Request<Bytes>) -> std::future::Ready<Response<Bytes>> {
        move |_| std::future::ready(Response::new(Bytes::from_static(name.as_bytes())))
    }

    async fn call(services: &LocalServices, host: &str, port: u16) -> Option<Bytes> {
        let found = services.find(host, port)?;
        let response = found.call(Request::new(Bytes::new())).await?;
        let Ok(body) = response.into_body().collect().await;
        Some(body.to_bytes())
    }

    #[tokio::test]
    async fn replicas_are_called_in_turn_until_they_are_dropped() {
        let services = LocalServices::default();
        let a = services.register("S.n.svc", 443, named("a"));
        let b = services.register("s.n.svc", 443, named("b"));
        let mut seen = [
            call(&services, "s.n.svc", 443).await.unwrap(),
            call(&services, "s.n.svc", 443).await.unwrap(),
        ];
        seen.sort();
        assert_eq!(seen, ["a", "b"]);
        drop(a);
        assert_eq!(call(&services, "s.n.svc", 443).await.unwrap(), "b");
        assert_eq!(call(&services, "s.n.svc", 444).await, None);
        drop(b);
        assert_eq!(call(&services, "s.n.svc", 443).await, None);
    }

    #[tokio::test]
    async fn a_panic_ends_its_call_only() {
        let services = LocalServices::default();
        let _bad = services.register::<_, _, Bytes>("bad", 1, |_| async { panic!("on purpose") });
        let found = services.find("bad", 1).unwrap();
        assert!(found.call(Request::new(Bytes::new())).await.is_none());
        assert!(services.find("bad", 1).is_some());
    }
}
