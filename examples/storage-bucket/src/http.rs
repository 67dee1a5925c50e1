//! The HTTP client for object stores: over sockets, or to a service in this process.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, select};
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use tokio_rustls::rustls::crypto::ring;
use tower::{Service, ServiceExt};

use crate::egress::{Egress, GuardedResolver, Refused};

/// The maximum size of a response; the requests of this program have much smaller ones.
const MAX_RESPONSE_SIZE: usize = 1 << 20;

/// Sends requests to object stores. Cheap to clone.
#[derive(Clone)]
pub struct Http(Transport);

#[derive(Clone)]
enum Transport {
    Sockets(HttpsConnector<HttpConnector<GuardedResolver>>, Egress),
    InProcess(Arc<dyn Fn(Request<Full<Bytes>>) -> ResponseFuture + Send + Sync>),
}

type ResponseFuture = BoxFuture<'static, Result<Response<Bytes>, HttpError>>;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection could be made, or it broke.
    #[error("{0}")]
    Unreachable(String),
    /// The server did not send a valid HTTP response.
    #[error("{0}")]
    BadAnswer(String),
    /// The address must not be connected to.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Http {
    /// Over sockets, with TLS for `https`; trusts what the machine trusts, and
    /// connects to no address that `egress` refuses. Redirects are not followed.
    ///
    /// Each request has a connection of its own: a check that finds an old
    /// connection still open says little about whether a new one can be made.
    ///
    /// # Errors
    /// If the machine has no root certificates.
    pub fn over_sockets(egress: Egress) -> io::Result<Self> {
        let mut sockets = HttpConnector::new_with_resolver(GuardedResolver {
            egress: egress.clone(),
            inner: GaiResolver::new(),
        });
        sockets.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(ring::default_provider())?
            .https_or_http()
            .enable_http1()
            .wrap_connector(sockets);
        Ok(Http(Transport::Sockets(connector, egress)))
    }

    /// To `service`, for any host of a request. An error of the
    /// service means that it cannot be reached.
    pub fn in_process<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: StdError + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        Http(Transport::InProcess(Arc::new(move |request| {
            let service = service.clone();
            Box::pin(async move {
                let answer = service.oneshot(request).await;
                collect(answer.map_err(|error| HttpError::unreachable(&error))?).await
            })
        })))
    }

    /// Sends a request to the host its URL names, and reads the whole response.
    ///
    /// Cancel safe: a dropped future closes its connection.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, HttpError> {
        let host = request.uri().authority().map(|host| host.as_str());
        let host = host.and_then(|host| HeaderValue::from_str(host).ok());
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host);
        }
        match &self.0 {
            Transport::Sockets(connector, egress) => {
                egress.check_literal(request.uri().host().unwrap_or_default())?;
                over_socket(connector.clone(), request).await
            }
            Transport::InProcess(service) => service(request).await,
        }
    }

    /// How long a signature has to be valid with this transport.
    pub(crate) fn signature_lifetime(&self) -> Duration {
        match self.0 {
            // The clock skew that S3 allows.
            Transport::Sockets(..) => Duration::from_secs(15 * 60),
            // It stays in the process, whose clock may differ from the machine's by years, so it is
            // valid for a hundred years.
            Transport::InProcess(_) => Duration::from_secs(100 * 365 * 24 * 3600),
        }
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Transport::Sockets(..) => "Http(over sockets)",
            Transport::InProcess(_) => "Http(in process)",
        })
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

async fn over_socket(
    connector: HttpsConnector<HttpConnector<GuardedResolver>>,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, HttpError> {
    let connection = connector.oneshot(request.uri().clone()).await;
    let connection = connection.map_err(|error| HttpError::unreachable(&*error))?;
    let (mut sender, connection) = http1::handshake(connection).await?;

    // The request line has the path; the host is in the header.
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    let answer = Box::pin(async move { collect(sender.send_request(request).await?).await });

    // The connection is driven here rather than in a task, so that it ends with this call.
    match select(answer, connection).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => answer.await,
    }
}

async fn collect<B>(answer: Response<B>) -> Result<Response<Bytes>, HttpError>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_RESPONSE_SIZE).collect().await;
    let body = body.map_err(|error| HttpError::BadAnswer(cause(&*error)))?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

impl HttpError {
    fn unreachable(error: &(dyn StdError + 'static)) -> Self {
        match refusal(error) {
            Some(refused) => HttpError::Refused(refused),
            None => HttpError::Unreachable(cause(error)),
        }
    }
}

impl From<hyper::Error> for HttpError {
    fn from(error: hyper::Error) -> Self {
        if error.is_parse() {
            HttpError::BadAnswer(cause(&error))
        } else {
            HttpError::unreachable(&error)
        }
    }
}

/// The refusal of an address among the causes of an error.
fn refusal(error: &(dyn StdError + 'static)) -> Option<Refused> {
    let own = error.downcast_ref::<Refused>();
    // `io::Error` does not return the error it wraps as its source.
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let inner = inner.and_then(|inner| refusal(inner));
    let source = || error.source().and_then(refusal);
    own.cloned().or(inner).or_else(source)
}

/// The innermost cause, which is the most specific: `Connection refused`
/// rather than `client error (Connect)`.
fn cause(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
