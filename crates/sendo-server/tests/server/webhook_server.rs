//! A webhook of a test, over TLS on loopback.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use sendo_server::Authority;
use sendo_world::World;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What answers the requests of a webhook.
pub(crate) type Handler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// Serves a webhook until the world's tasks are stopped; returns its base URL.
pub(crate) async fn serve(world: &World, authority: &Authority, handler: Handler) -> String {
    let identity = authority.server(&[]).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let tasks = world.tasks().clone();
    world.tasks().spawn("webhooks", async move {
        let accept = async {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
                let stopping = tasks.stopping().clone();
                let connection = async move {
                    let stream = acceptor.accept(stream).await.ok()?;
                    let service = service_fn(|request: Request<hyper::body::Incoming>| {
                        let handler = Arc::clone(&handler);
                        async move {
                            let (head, body) = request.into_parts();
                            let body = body.collect().await.unwrap().to_bytes();
                            let response = handler(Request::from_parts(head, body)).await;
                            Ok::<_, Infallible>(response.map(Full::new))
                        }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                        .ok()
                };
                tasks.spawn("webhook-connection", async move {
                    stopping.run_until_cancelled(connection).await;
                });
            }
        };
        tasks.stopping().run_until_cancelled(accept).await;
    });
    base
}
