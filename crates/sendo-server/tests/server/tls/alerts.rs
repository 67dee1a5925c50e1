//! TLS alerts name why a handshake failed.

use std::io;
use std::sync::Arc;

use sendo_server::{Authority, Identity};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, AlertDescription, RootCertStore, SupportedProtocolVersion};

use super::Served;

/// A client that has much to say from the start, until it is stopped: why.
async fn stopped(
    served: &Served,
    version: &'static SupportedProtocolVersion,
    application: &[u8],
    identity: Option<&Identity>,
) -> io::Error {
    let mut roots = RootCertStore::empty();
    let authority = served.serving.authority().pem();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let certificate = identity.certificate().as_bytes();
            let chain = vec![CertificateDer::from_pem_slice(certificate).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![application.to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(served.serving.address()).await.unwrap();
    let name = ServerName::from(served.serving.address().ip());
    let mut stream = match connector.connect(name, stream).await {
        Ok(stream) => stream,
        Err(error) => return error,
    };
    // With TLS 1.3 a client has finished before the server has looked at its certificate.
    let request = b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let _ = stream.write_all(&request).await;
    let _ = stream.flush().await;
    stream.read_u8().await.expect_err("nobody is let in")
}

fn alert(error: &io::Error) -> AlertDescription {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::AlertReceived(alert)) => *alert,
        _ => panic!("no alert: {error:?}"),
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_with_an_alert() {
    let served = Served::in_real_time().await;
    let other = Authority::new(served.world.clock().wall()).unwrap();
    let stale = other.client("ann", "system:masters").unwrap();
    for version in [&TLS12, &TLS13] {
        let error = stopped(&served, version, b"http/1.1", Some(&stale)).await;
        let alert = alert(&error);
        let of_certificates = [
            AlertDescription::UnknownCA,
            AlertDescription::BadCertificate,
            AlertDescription::DecryptError,
        ];
        assert!(of_certificates.contains(&alert), "{alert:?}");
    }
    served.server.shutdown().await;
    assert_eq!(served.world.tasks().running(), [""; 0]);
}

#[tokio::test]
async fn a_protocol_that_is_not_spoken_is_refused_with_an_alert() {
    let served = Served::in_real_time().await;
    for version in [&TLS12, &TLS13] {
        let error = stopped(&served, version, b"gopher", None).await;
        assert_eq!(alert(&error), AlertDescription::NoApplicationProtocol);
    }
    served.server.shutdown().await;
}
