//! The HTTPS server of a program's webhooks: what brings reviews to [`Service::call`].

mod endpoints;
#[cfg(all(test, feature = "certificates"))]
mod tests;

use std::pin::pin;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use sendo_world::{Stop, Tasks, World};

use crate::serve::{Connection, Listener};
use crate::tls::Tls;
use crate::webhook::Service;

pub(crate) use endpoints::Endpoints;

/// Connections served at once; more wait to be accepted. An API server has one or two.
const CONNECTIONS: usize = 512;

/// How many requests one connection may have under way, as in Go's server.
const STREAMS: u32 = 250;

/// How long a connection may be silent in HTTP/1.1: longer than Go's clients keep an idle one, so
/// that they are the ones to close it.
const IDLE: Duration = Duration::from_secs(120);

/// How often a silent connection of HTTP/2 is sent a ping, and how long its answer may take.
const PING: Duration = Duration::from_secs(30);

/// Serves webhooks through TLS, in HTTP/1.1 and HTTP/2, until `stop`.
///
/// Calls that are under way then have `limit` to end; no connection is left on return.
pub(crate) async fn serve(
    listener: Listener,
    tls: Tls,
    service: Service,
    world: &World,
    stop: &Stop,
    limit: Duration,
) {
    let connection = {
        let (world, stop) = (world.clone(), stop.clone());
        move |stream| converse(stream, service.clone(), world.clone(), stop.clone(), limit)
    };
    listener
        .serve_connections(Some(tls), world, stop, CONNECTIONS, connection)
        .await;
}

async fn converse(stream: Connection, service: Service, world: World, stop: Stop, limit: Duration) {
    let handle = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { service.call_streamed(request).await }
    });
    let mut builder = auto::Builder::new(Executor {
        tasks: world.tasks().child("http2"),
    });
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), handle));
    // A connection that breaks is its peer's business: nobody here waits for it.
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = world.clock().timeout(limit, connection).await;
        }
        _ = connection.as_mut() => {}
    }
}

/// Runs the requests of a connection of HTTP/2 as tasks of the program.
#[derive(Clone)]
struct Executor {
    tasks: Tasks,
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, request: F) {
        self.tasks.spawn("request", request);
    }
}
