//! A certificate with its key, and whether it may be shown.

use std::sync::Arc;
use std::time::Duration;

use sendo_world::Timestamp;
use sendo_x509::Certificate;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{PemObject, SectionKind};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;

use super::Unusable;

/// The names under which a server is called: the first is the one that must be in its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// Host names or addresses; an IPv6 address may be in brackets, as in a URL.
    pub(crate) fn new(first: &str, others: impl IntoIterator<Item = String>) -> Self {
        let first = first
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(first);
        let mut names = vec![first.to_owned()];
        names.extend(others);
        Names(names)
    }

    #[cfg_attr(not(feature = "certificates"), expect(dead_code))]
    pub(super) fn all(&self) -> &[String] {
        &self.0
    }

    fn first(&self) -> &str {
        &self.0[0]
    }
}

/// A certificate with its key, both in PEM, that go together.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
    pub(crate) fields: Certificate,
    chain: Vec<CertificateDer<'static>>,
    certified: Arc<CertifiedKey>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is secret.
        f.debug_struct("Identity")
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain && self.key_pem == other.key_pem
    }
}

/// Which part of an identity cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Certificate(String),
    Key(String),
}

impl Identity {
    /// Reads a certificate, with those that lead to its authority, and its key.
    pub(crate) fn from_pem(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, Part> {
        let bad_certificate = |why: &dyn std::fmt::Display| Part::Certificate(why.to_string());
        let chain = CertificateDer::pem_slice_iter(chain_pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| bad_certificate(&error))?;
        let Some(leaf) = chain.first() else {
            return Err(Part::Certificate(
                "there is no certificate in it".to_owned(),
            ));
        };
        let fields = Certificate::from_der(leaf);
        let fields = fields.filter(|_| ParsedCertificate::try_from(leaf).is_ok());
        let fields = fields.ok_or_else(|| bad_certificate(&"it is not a certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(key_pem);
        let key = key.map_err(|error| Part::Key(error.to_string()))?;
        let key = ring::sign::any_supported_type(&key);
        let key = key.map_err(|error| Part::Key(error.to_string()))?;
        let certified = CertifiedKey::new(chain.clone(), key);
        if certified.keys_match().is_err() {
            return Err(Part::Key("it is not the key of the certificate".to_owned()));
        }
        Ok(Identity {
            chain_pem: String::from_utf8_lossy(chain_pem).into_owned(),
            key_pem: String::from_utf8_lossy(key_pem).into_owned(),
            fields,
            chain,
            certified: Arc::new(certified),
        })
    }

    /// What TLS shows.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }

    /// Whether the certificate is valid now.
    pub(crate) fn check_validity(&self, now: Timestamp) -> Result<(), Unusable> {
        check_validity(&self.fields, now)
    }

    /// Whether a client that calls the server by its first name takes the certificate, as far as
    /// its time and its names go.
    pub(crate) fn check(&self, names: &Names, now: Timestamp) -> Result<(), Unusable> {
        check_validity(&self.fields, now)?;
        let name = names.first();
        let parsed = ParsedCertificate::try_from(&self.chain[0]).map_err(Unusable::new)?;
        let server_name = ServerName::try_from(name.to_owned()).map_err(Unusable::new)?;
        verify_server_name(&parsed, &server_name)
            .map_err(|_| Unusable(format!("it is not for {name}")))
    }

    /// Whether it was signed by this authority, for a server, and is valid now.
    pub(crate) fn is_signed_by(&self, authority: &Trusted, now: Timestamp) -> bool {
        let mut roots = RootCertStore::empty();
        if roots.add(authority.der.clone()).is_err() {
            return false;
        }
        let Ok(parsed) = ParsedCertificate::try_from(&self.chain[0]) else {
            return false;
        };
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &roots,
            &self.chain[1..],
            unix_time(now),
            algorithms.all,
        )
        .is_ok()
    }
}

/// An authority that is to be trusted: its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trusted {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) fields: Certificate,
}

impl Trusted {
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        Some(Trusted {
            der: CertificateDer::from(der.to_vec()),
            fields: Certificate::from_der(der)?,
        })
    }

    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", &self.der)
    }
}

/// The certificates in a bundle, and whether there is anything else in it.
pub(crate) fn certificates_in(bundle: &[u8]) -> (Vec<Trusted>, bool) {
    type Section = (SectionKind, Vec<u8>);
    let (mut found, mut is_clean) = (Vec::new(), true);
    for section in Section::pem_slice_iter(bundle) {
        let certificate = match section {
            Ok((SectionKind::Certificate, der)) => Trusted::from_der(&der),
            _ => None,
        };
        match certificate {
            Some(certificate) => found.push(certificate),
            None => is_clean = false,
        }
    }
    (found, is_clean)
}

/// Whether a certificate is valid now.
pub(super) fn check_validity(fields: &Certificate, now: Timestamp) -> Result<(), Unusable> {
    if now < fields.not_before {
        let from = fields.not_before;
        return Err(Unusable(format!("it is valid from {from} only")));
    }
    if now > fields.not_after {
        return Err(Unusable(format!("it has expired at {}", fields.not_after)));
    }
    Ok(())
}

/// Binary data in PEM.
fn pem(label: &str, data: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(data);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}

/// A time as the TLS library has it.
pub(crate) fn unix_time(time: Timestamp) -> UnixTime {
    let seconds = u64::try_from(time.as_second()).unwrap_or(0);
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
