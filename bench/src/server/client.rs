//! A plain HTTP/2 client over TLS: as little beside the server as can be.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sendo::World;
use serde_json::Value;
use tokio::io::BufReader;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore};

/// Where a server is, and how to be its administrator.
#[derive(Clone)]
pub(crate) struct Target {
    host: String,
    port: u16,
    token: String,
    tls: TlsConnector,
}

impl Target {
    /// Reads a kubeconfig that has a certificate authority and a token.
    pub(crate) fn read(kubeconfig: &str) -> anyhow::Result<Self> {
        let config: Value = serde_saphyr::from_str(kubeconfig)?;
        let cluster = &config["clusters"][0]["cluster"];
        let place = cluster["server"]
            .as_str()
            .and_then(|url| url.strip_prefix("https://"))
            .context("a kubeconfig without a server over TLS")?;
        let (host, port) = place.rsplit_once(':').context("a server without port")?;
        let authority = match (
            cluster["certificate-authority-data"].as_str(),
            cluster["certificate-authority"].as_str(),
        ) {
            (Some(data), _) => base64::engine::general_purpose::STANDARD.decode(data)?,
            (None, Some(file)) => std::fs::read(file)?,
            (None, None) => bail!("a cluster without certificate authority"),
        };
        let token = config["users"][0]["user"]["token"].as_str();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority)?)?;
        let provider = Arc::new(ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(DEFAULT_VERSIONS)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Target {
            host: host.to_owned(),
            port: port.parse()?,
            token: token.context("a user without token")?.to_owned(),
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Opens a connection, which lives as a task of `world`.
    pub(crate) async fn connect(&self, world: &World) -> anyhow::Result<Connection> {
        let stream = tokio::net::TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone())?;
        // TLS reads in small pieces: this makes few calls of them.
        let stream = BufReader::with_capacity(256 * 1024, stream);
        let stream = self.tls.connect(name, stream).await?;
        let (requests, connection) = Builder::new(TokioExecutor::new())
            // As Go's client has them.
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(1 << 30)
            .handshake(TokioIo::new(stream))
            .await?;
        world.tasks().spawn("connection", async move {
            // A server that is stopped cuts it.
            let _ = connection.await;
        });
        Ok(Connection {
            requests,
            authority: format!("https://{}:{}", self.host, self.port),
            token: format!("Bearer {}", self.token),
        })
    }
}

/// One connection for many requests at once.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    authority: String,
    token: String,
}

impl Connection {
    /// Sends `METHOD /path`; the answer as it begins.
    pub(crate) async fn send(
        &mut self,
        line: &str,
        media_type: &str,
        body: Bytes,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let (method, path) = line.split_once(' ').context("a request without path")?;
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.authority))
            .header("authorization", &self.token)
            .header("content-type", media_type)
            .header("user-agent", "bench/1")
            .body(Full::new(body))?;
        self.requests.ready().await?;
        Ok(self.requests.send_request(request).await?)
    }

    /// Sends JSON and reads the answer, which must be a success, to its end.
    pub(crate) async fn call(&mut self, line: &str, body: Bytes) -> anyhow::Result<Bytes> {
        self.call_with(line, "application/json", body).await
    }

    pub(crate) async fn call_with(
        &mut self,
        line: &str,
        media_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let response = self.send(line, media_type, body).await?;
        let code = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        ensure!(
            code.is_success(),
            "{line}: {code} {}",
            String::from_utf8_lossy(&bytes)
        );
        Ok(bytes)
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.call(&format!("GET {path}"), Bytes::new()).await
    }

    pub(crate) async fn create(&mut self, path: &str, object: &Value) -> anyhow::Result<Bytes> {
        let body = Bytes::from(serde_json::to_vec(object)?);
        self.post(path, body).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        self.call(&format!("POST {path}"), body).await
    }
}
