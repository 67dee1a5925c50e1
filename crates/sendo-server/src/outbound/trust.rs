//! Decides whether the certificate of a program is to be trusted, as Go's TLS client does.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/client-go/transport/transport.go`: `rootCertPool`, `createErrorParsingCAData`
//! - `$GOROOT/src/crypto/x509/verify.go`: `Verify`, `isValid`

use std::sync::Arc;

use sendo_world::Clock;
use sendo_x509::Certificate;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{PemObject, SectionKind};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Who vouches for the certificate of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust<'a> {
    /// The certificates of this bundle, in PEM; those that the machine trusts if it is empty.
    Bundle(&'a [u8]),
    /// Nobody: every certificate is accepted.
    Anything,
}

impl<'a> Trust<'a> {
    pub(super) fn ca_bundle(self) -> Option<&'a [u8]> {
        match self {
            Trust::Bundle(bundle) => Some(bundle),
            Trust::Anything => None,
        }
    }
}

/// A certificate of this server, and its key.
pub(crate) struct ClientCertificate {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// TLS for programs whose certificates are to be trusted so, which are shown `certificate`.
pub(super) fn client_config(
    trust: Trust<'_>,
    certificate: Option<&ClientCertificate>,
    clock: &Clock,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier {
        authorities: match trust {
            Trust::Bundle(bundle) => Some(Authorities::new(bundle, &provider)?),
            Trust::Anything => None,
        },
        provider: Arc::clone(&provider),
    });
    let time = Arc::new(WallTime(clock.clone()));
    let builder = ClientConfig::builder_with_details(provider, time)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match certificate {
        None => Ok(builder.with_no_client_auth()),
        Some(own) => builder
            .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
            .map_err(|error| error.to_string()),
    }
}

/// The certificates of a bundle; one that can be read is enough.
fn certificates(bundle: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    type Section = (SectionKind, Vec<u8>);
    let sections: Vec<Section> = Section::pem_slice_iter(bundle).flatten().collect();
    if sections.is_empty() {
        return Err("unable to parse bytes as PEM block");
    }
    let certificates = sections
        .into_iter()
        .filter(|(kind, _)| *kind == SectionKind::Certificate);
    let certificates: Vec<_> = certificates
        .map(|(_, der)| CertificateDer::from(der))
        .filter(|der| ParsedCertificate::try_from(der).is_ok())
        .collect();
    match certificates.is_empty() {
        true => Err("no valid certificate authority data seen"),
        false => Ok(certificates),
    }
}

/// The time that certificates are checked at.
#[derive(Debug)]
struct WallTime(Clock);

impl TimeProvider for WallTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.wall().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            seconds,
        )))
    }
}

/// Verifies certificates, or takes any if nobody has to vouch for them.
#[derive(Debug)]
struct Verifier {
    authorities: Option<Authorities>,
    provider: Arc<CryptoProvider>,
}

/// Verifies chains, and takes a certificate that is itself in the bundle.
///
/// Go does that too, and many webhooks have a certificate that is its own authority, which a
/// chain cannot end with in rustls.
#[derive(Debug)]
struct Authorities {
    /// None if nothing is trusted.
    chains: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Those of `bundle` (PEM), or those that the machine trusts if it is empty.
    fn new(bundle: &[u8], provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let trusted = match bundle {
            [] => rustls_native_certs::load_native_certs().certs,
            bundle => certificates(bundle)
                .map_err(|why| format!("unable to load root certificates: {why}"))?,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let chains = match roots.is_empty() {
            true => None,
            false => {
                let provider = Arc::clone(provider);
                let builder =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
                Some(builder.build().map_err(|error| error.to_string())?)
            }
        };
        Ok(Authorities { chains, trusted })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        if authorities.trusted.contains(end_entity) {
            check_validity(end_entity, now)?;
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let Some(chains) = &authorities.chains else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        chains.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Refuses a certificate that has expired, or is not valid yet.
fn check_validity(certificate: &[u8], now: UnixTime) -> Result<(), Error> {
    let certificate = Certificate::from_der(certificate).ok_or(CertificateError::BadEncoding)?;
    let [not_before, not_after] = [certificate.not_before, certificate.not_after].map(|time| {
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    });
    if now < not_before {
        return Err(CertificateError::NotValidYetContext {
            time: now,
            not_before,
        }
        .into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext {
            time: now,
            not_after,
        }
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sendo_world::World;

    use super::*;

    fn self_signed(now: &str) -> CertificateDer<'static> {
        let now: Timestamp = now.parse().unwrap();
        let authority = crate::Authority::new(now).unwrap();
        authority.der()
    }

    #[test]
    fn a_bundle_without_a_certificate_is_told() {
        let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (bundle, expected) in [
            ("not a certificate", "unable to parse bytes as PEM block"),
            (private, "no valid certificate authority data seen"),
        ] {
            assert_eq!(certificates(bundle.as_bytes()), Err(expected));
        }
    }

    #[tokio::test]
    async fn a_certificate_in_the_bundle_is_trusted_while_it_is_valid() {
        let certificate = self_signed("2026-01-01T00:00:00Z");
        let fields = Certificate::from_der(&certificate).unwrap();
        let (from, until) = (fields.not_before, fields.not_after);
        assert!(from <= World::seeded(1).clock().wall());
        let at = |time: Timestamp| {
            let seconds = std::time::Duration::from_secs(time.as_second().unsigned_abs());
            check_validity(&certificate, UnixTime::since_unix_epoch(seconds))
        };
        assert!(at(from).is_ok() && at(until).is_ok());
        assert!(at(until + std::time::Duration::from_secs(1)).is_err());
        assert!(at(from - std::time::Duration::from_secs(1)).is_err());
    }
}
