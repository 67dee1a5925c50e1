//! Issues the certificates of a cluster: its authority, the server's own, and those of clients.

mod kept;
mod requested;
mod subject;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub use kept::AuthorityError;
pub use requested::{SigningError, SigningTerms};
pub(crate) use subject::user_of;

/// Names the server answers to, whatever address it is bound to.
const SERVER_NAMES: [&str; 8] = [
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// How long certificates are good for.
const YEARS: i16 = 10;

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the certificate of {subject}: {source}")]
pub struct CertificateError {
    subject: String,
    source: rcgen::Error,
}

/// A cluster's certificate authority. Clients with a certificate signed by it are authenticated.
///
/// Keys are made by the cryptography library, from the operating system's
/// randomness: they differ from run to run in a seeded world too.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    certificate_der: CertificateDer<'static>,
    now: Timestamp,
}

/// A certificate and its private key.
#[derive(Clone)]
pub struct Identity {
    certificate: String,
    certificate_der: CertificateDer<'static>,
    key: String,
    key_der: Vec<u8>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is secret.
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority, good for ten years from `now`.
    ///
    /// # Errors
    /// If the cryptography library cannot make a key.
    pub fn new(now: Timestamp) -> Result<Self, CertificateError> {
        Authority::named(CLUSTER, now)
    }

    fn named(name: &str, now: Timestamp) -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params(name, now).self_signed(&key).map_err(failed)?;
        Ok(Authority {
            certificate: certificate.pem(),
            certificate_der: certificate.der().clone(),
            issuer: Issuer::new(params(name, now), key),
            now,
        })
    }

    /// The authority of this name, and of a certificate and key in PEM that were made for it.
    fn from_pem(
        name: &str,
        certificate: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        let certificate_der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|_| failed(rcgen::Error::CouldNotParseCertificate))?;
        let key = KeyPair::from_pem(key).map_err(failed)?;
        Ok(Authority {
            certificate: certificate.to_owned(),
            certificate_der,
            issuer: Issuer::new(params(name, now), key),
            now,
        })
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.certificate.clone()
    }

    /// The authority's private key, in PEM (PKCS #8). The cluster's first secret.
    fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.certificate_der.clone()
    }

    /// A certificate for the API server: loopback, `localhost`, the names of
    /// the service `kubernetes`, and `more` names or addresses.
    ///
    /// # Errors
    /// If one of the names cannot be in a certificate.
    pub fn server(&self, more: &[String]) -> Result<Identity, CertificateError> {
        let subject = "kube-apiserver";
        let names: Vec<String> = SERVER_NAMES
            .iter()
            .map(|name| (*name).to_owned())
            .chain(more.iter().cloned())
            .collect();
        let named = CertificateParams::new(names).map_err(|source| CertificateError {
            subject: subject.to_owned(),
            source,
        })?;
        let mut params = valid_from(self.now);
        params.subject_alt_names = named.subject_alt_names;
        params.distinguished_name.push(DnType::CommonName, subject);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(subject, params)
    }

    /// A certificate for a client: the user's name, and the group it is in.
    ///
    /// # Errors
    /// If the cryptography library cannot make a key.
    pub fn client(&self, name: &str, group: &str) -> Result<Identity, CertificateError> {
        self.sign_client(name, Some(group))
    }

    /// A certificate for a client in no group.
    ///
    /// # Errors
    /// If the cryptography library cannot make a key.
    pub(crate) fn proxy(&self, name: &str) -> Result<Identity, CertificateError> {
        self.sign_client(name, None)
    }

    fn sign_client(&self, name: &str, group: Option<&str>) -> Result<Identity, CertificateError> {
        let mut params = valid_from(self.now);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    fn sign(
        &self,
        subject: &str,
        mut params: CertificateParams,
    ) -> Result<Identity, CertificateError> {
        let failed = |source| CertificateError {
            subject: subject.to_owned(),
            source,
        };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity {
            certificate: certificate.pem(),
            certificate_der: certificate.der().clone(),
            key: key.serialize_pem(),
            key_der: key.serialize_der(),
        })
    }
}

/// The name of the authority that signs the certificates of a cluster.
const CLUSTER: &str = "kubernetes";
/// That of the one that signs the certificate this server shows to other API servers.
const FRONT_PROXY: &str = "front-proxy-ca";

/// What an authority's certificate says.
fn params(name: &str, now: Timestamp) -> CertificateParams {
    let mut params = valid_from(now);
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

fn failed(source: rcgen::Error) -> CertificateError {
    CertificateError {
        subject: "an authority".to_owned(),
        source,
    }
}

/// Parameters with no name yet, valid from the day before `now`.
fn valid_from(now: Timestamp) -> CertificateParams {
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let yesterday = today.yesterday().unwrap_or(today);
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = date_time_ymd(
        yesterday.year().into(),
        yesterday.month() as u8,
        yesterday.day() as u8,
    );
    // The first of a month is a day of every year.
    params.not_after = date_time_ymd((today.year() + YEARS).into(), today.month() as u8, 1);
    params
}

impl Identity {
    /// The certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The private key, in PEM (PKCS #8). A secret.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate_der.clone()]
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key_der.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::user::User;

    #[test]
    fn a_client_certificate_names_user_and_group() {
        let authority = Authority::new("2026-03-31T00:00:00Z".parse().unwrap()).unwrap();
        let identity = authority.client("jürgen", "system:masters").unwrap();
        let user = user_of(&identity.certificate_der).unwrap();
        assert_eq!(user, User::new("jürgen", ["system:masters"]));
    }

    #[test]
    fn keys_are_not_shown() {
        let authority = Authority::new("2026-02-28T00:00:00Z".parse().unwrap()).unwrap();
        let identity = authority.server(&[]).unwrap();
        assert_eq!(format!("{identity:?}"), "Identity { .. }");
        assert!(identity.key().contains("PRIVATE KEY"));
    }
}
