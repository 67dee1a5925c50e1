//! TLS for what a program serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
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

/// Accepts TLS with the certificate of a folder, or with one that it signs itself.
pub(crate) fn acceptor(folder: Option<&Path>) -> Result<TlsAcceptor, TlsError> {
    let unusable = |cause: &dyn std::fmt::Display| TlsError::Certificate(cause.to_string());
    let (chain, key) = match folder {
        Some(folder) => read(folder)?,
        None => self_signed().map_err(|cause| unusable(&cause))?,
    };
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(|cause| unusable(&cause))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|cause| unusable(&cause))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(folder: &Path) -> Result<Identity, TlsError> {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let failed = |path: &Path, cause: &dyn std::fmt::Display| TlsError::File {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|cause| failed(&certificate, &cause))?;
    let key = PrivateKeyDer::from_pem_file(&key).map_err(|cause| failed(&key, &cause))?;
    Ok((chain, key))
}

/// Good enough against who only listens; a scraper that checks certificates
/// wants one from a folder.
fn self_signed() -> Result<Identity, rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_or_read_and_what_is_missing_is_named() {
        assert!(acceptor(None).is_ok());
        let error = acceptor(Some(Path::new("/nowhere"))).err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("cannot read /nowhere/tls.crt: "), "{text}");
    }
}
