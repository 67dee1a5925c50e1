//! TLS for what a program serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
#[cfg(feature = "certificates")]
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or is not what it should be.
    #[error("cannot read {path}: {cause}; a certificate folder has `tls.crt` and `tls.key`")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Certificate and key do not go together, or cannot be made.
    #[error("no TLS with this certificate: {0}")]
    Certificate(String),
}

/// Accepts TLS with the certificate of a folder, or with one that it signs
/// itself. Clones are one.
///
/// Files that were exchanged count from the next connection on, without a
/// restart; as long as they do not go together, the certificate before stays.
#[derive(Clone)]
pub(crate) struct Tls {
    folder: Option<PathBuf>,
    current: Arc<Mutex<Current>>,
}

struct Current {
    acceptor: TlsAcceptor,
    /// The files as they were last looked at, in use or not; empty without a folder.
    files: Files,
}

/// The certificates and the key, as they are written.
type Files = [Vec<u8>; 2];

impl Tls {
    pub(crate) fn new(folder: Option<&Path>) -> Result<Self, TlsError> {
        let files = folder.map_or(Ok(Files::default()), read)?;
        let identity = match folder {
            Some(folder) => decode(folder, &files)?,
            None => self_signed()?,
        };
        let acceptor = acceptor(identity)?;
        Ok(Tls {
            folder: folder.map(Path::to_owned),
            current: Arc::new(Mutex::new(Current { acceptor, files })),
        })
    }

    /// For the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock();
        if let Some(folder) = &self.folder
            && let Err(error) = current.read_again(folder)
        {
            tracing::warn!(%error, "going on with the certificate before");
        }
        current.acceptor.clone()
    }
}

impl Current {
    fn read_again(&mut self, folder: &Path) -> Result<(), TlsError> {
        let files = read(folder)?;
        if files != self.files {
            self.files = files;
            self.acceptor = acceptor(decode(folder, &self.files)?)?;
        }
        Ok(())
    }
}

fn unusable(cause: impl std::fmt::Display) -> TlsError {
    TlsError::Certificate(cause.to_string())
}

fn acceptor((chain, key): Identity) -> Result<TlsAcceptor, TlsError> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn paths(folder: &Path) -> [PathBuf; 2] {
    ["tls.crt", "tls.key"].map(|name| folder.join(name))
}

fn no_file(path: &Path, cause: impl std::fmt::Display) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}

fn read(folder: &Path) -> Result<Files, TlsError> {
    let [certificate, key] = paths(folder);
    let read = |path: &Path| std::fs::read(path).map_err(|cause| no_file(path, cause));
    Ok([read(&certificate)?, read(&key)?])
}

fn decode(folder: &Path, [certificate, key]: &Files) -> Result<Identity, TlsError> {
    let paths = paths(folder);
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|cause| no_file(&paths[0], cause))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| no_file(&paths[1], cause))?;
    Ok((chain, key))
}

/// Good enough against who only listens; a scraper that checks certificates
/// wants one from a folder.
#[cfg(feature = "certificates")]
fn self_signed() -> Result<Identity, TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(unusable)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

#[cfg(not(feature = "certificates"))]
fn self_signed() -> Result<Identity, TlsError> {
    Err(unusable(
        "name a folder with `tls.crt` and `tls.key`, or build with the feature `certificates` of `sendo`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    /// Writes a certificate of its own, and gives it back for who is to trust it.
    fn write(folder: &Path, with_key: bool) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [certificate, key] = paths(folder);
        std::fs::write(certificate, made.cert.pem()).unwrap();
        if with_key {
            std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
        }
        made.cert.der().clone()
    }

    async fn trusts(certificate: &CertificateDer<'static>, tls: &Tls) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (there, here) = tokio::io::duplex(1 << 16);
        let name = ServerName::try_from("localhost").unwrap();
        let connect = TlsConnector::from(Arc::new(config)).connect(name, there);
        let (connected, _) = futures::future::join(connect, tls.acceptor().accept(here)).await;
        connected.is_ok()
    }

    #[test]
    fn a_certificate_is_made_and_what_is_missing_is_named() {
        assert!(Tls::new(None).is_ok());
        let error = Tls::new(Some(Path::new("/nowhere"))).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("cannot read /nowhere/tls.crt: "), "{text}");
    }

    #[tokio::test]
    async fn new_files_count_from_the_next_connection_on() {
        let folder = tempfile::tempdir().unwrap();
        let first = write(folder.path(), true);
        let tls = Tls::new(Some(folder.path())).unwrap();
        assert!(trusts(&first, &tls).await);
        // A certificate without its key yet is not used.
        write(folder.path(), false);
        assert!(trusts(&first, &tls).await);
        let second = write(folder.path(), true);
        assert!(trusts(&second, &tls).await);
        assert!(!trusts(&first, &tls).await);
    }
}
