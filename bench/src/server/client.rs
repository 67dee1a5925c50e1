//! A minimal HTTP/2 client over TLS, so that little besides the server is measured.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::uri::{Authority, Scheme, Uri};
use http::{Request, StatusCode};
use sendo::World;
use sendo_server::Gathered;
use serde_json::Value;
use tokio::io::BufReader;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore};

/// The address of a server, and the credentials of its administrator.
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
        let token = token.context("a user without token")?;
        Target::new(host, port.parse()?, &authority, token)
    }

    /// A server whose certificate this authority, in PEM, has signed.
    pub(crate) fn new(
        host: &str,
        port: u16,
        authority: &[u8],
        token: &str,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority)?)?;
        let provider = Arc::new(ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(DEFAULT_VERSIONS)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Target {
            host: host.to_owned(),
            port,
            token: token.to_owned(),
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Opens a connection, which a task of `world` drives.
    pub(crate) async fn connect(&self, world: &World) -> anyhow::Result<Connection> {
        let stream = tokio::net::TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone())?;
        // Buffers the small reads and writes of TLS, so that there are fewer system calls.
        let socket = Gathered::new(BufReader::with_capacity(256 * 1024, stream));
        let stream = self.tls.connect(name, socket.clone()).await?;
        let (requests, connection) = Builder::new()
            // The window sizes of Go's client.
            .initial_window_size(4 << 20)
            .initial_connection_window_size(1 << 30)
            .enable_push(false)
            .handshake(stream)
            .await?;
        world.tasks().spawn("connection", async move {
            let mut connection = pin!(connection);
            // A stopped server closes the connection.
            let _ = poll_fn(|context| socket.poll_gathered(connection.as_mut(), context)).await;
        });
        Ok(Connection {
            requests,
            authority: format!("{}:{}", self.host, self.port).parse()?,
            token: HeaderValue::try_from(format!("Bearer {}", self.token))?,
        })
    }
}

/// One connection for concurrent requests.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: SendRequest<Bytes>,
    authority: Authority,
    token: HeaderValue,
}

/// A response whose body is read in chunks.
pub(crate) struct StreamedResponse {
    code: StatusCode,
    body: RecvStream,
}

impl StreamedResponse {
    /// The next chunk of the body, for which it releases flow-control capacity; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> anyhow::Result<Option<Bytes>> {
        let Some(piece) = self.body.data().await.transpose()? else {
            return Ok(None);
        };
        self.body.flow_control().release_capacity(piece.len())?;
        Ok(Some(piece))
    }

    /// The whole body.
    async fn whole(&mut self) -> anyhow::Result<Bytes> {
        let first = self.chunk().await?.unwrap_or_default();
        let Some(second) = self.chunk().await? else {
            return Ok(first);
        };
        let mut whole = [first, second].concat();
        while let Some(piece) = self.chunk().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    }
}

impl Connection {
    /// Sends `METHOD /path`; returns the response when it begins.
    pub(crate) async fn send(
        &mut self,
        line: &str,
        media_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<StreamedResponse> {
        let (method, path) = line.split_once(' ').context("a request without path")?;
        let uri = Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()?;
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(AUTHORIZATION, self.token.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static(media_type))
            .header(USER_AGENT, HeaderValue::from_static("bench/1"))
            .body(())?;
        self.requests = self.requests.clone().ready().await?;
        let (response, mut stream) = self.requests.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(body, true)?;
        }
        let (head, body) = response.await?.into_parts();
        let code = head.status;
        Ok(StreamedResponse { code, body })
    }

    /// Sends JSON and reads the whole response, which must be a success.
    pub(crate) async fn call(&mut self, line: &str, body: Bytes) -> anyhow::Result<Bytes> {
        self.call_with(line, "application/json", body).await
    }

    pub(crate) async fn call_with(
        &mut self,
        line: &str,
        media_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let mut response = self.send(line, media_type, body).await?;
        let code = response.code;
        let bytes = response.whole().await?;
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
