//! Makes authorities, and certificates that they sign.
//!
//! The keys come from the cryptography library, which has no seed: two runs with one seed differ
//! in the bytes of their certificates, and in nothing that follows from them.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use sendo_world::{Random, Timestamp};

use super::identity::{Identity, Names, Part, Trusted};
use super::{Lifetimes, Unusable};

/// How long before its making a certificate is valid, for API servers whose clock is behind.
const CLOCK_SKEW: Duration = Duration::from_secs(300);

/// The key of an authority, which signs.
pub(crate) struct AuthorityKey {
    key: KeyPair,
    pub(crate) certificate: Trusted,
    /// In PEM. A secret.
    pub(crate) pem: String,
}

impl std::fmt::Debug for AuthorityKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthorityKey")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl AuthorityKey {
    /// A new authority of this name.
    pub(crate) fn make(
        name: &str,
        now: Timestamp,
        lifetimes: &Lifetimes,
        random: &Random,
    ) -> Result<Self, Unusable> {
        let key = KeyPair::generate().map_err(Unusable::new)?;
        let until = now + lifetimes.authority;
        let params = params_of_authority(name, valid(now, until, lifetimes.authority, random));
        let made = params.self_signed(&key).map_err(Unusable::new)?;
        let certificate = Trusted::from_der(made.der());
        let certificate = certificate.ok_or_else(|| Unusable::new("it cannot be read again"))?;
        Ok(AuthorityKey {
            pem: key.serialize_pem(),
            key,
            certificate,
        })
    }

    /// The key in PEM of an authority that was made here.
    pub(crate) fn from_pem(pem: &[u8], certificate: &Trusted) -> Result<Self, Unusable> {
        let pem = std::str::from_utf8(pem).map_err(Unusable::new)?;
        let certificate_pem = certificate.pem();
        match Identity::from_pem(certificate_pem.as_bytes(), pem.as_bytes()) {
            Ok(_) => {}
            Err(Part::Certificate(why) | Part::Key(why)) => return Err(Unusable(why)),
        }
        Ok(AuthorityKey {
            key: KeyPair::from_pem(pem).map_err(Unusable::new)?,
            certificate: certificate.clone(),
            pem: pem.to_owned(),
        })
    }

    /// A certificate for a server of these names.
    pub(crate) fn sign(
        &self,
        names: &Names,
        now: Timestamp,
        lifetimes: &Lifetimes,
        random: &Random,
    ) -> Result<Identity, Unusable> {
        let key = KeyPair::generate().map_err(Unusable::new)?;
        let named = CertificateParams::new(names.all().to_vec()).map_err(Unusable::new)?;
        let until = (now + lifetimes.certificate).min(self.certificate.fields.not_after);
        let mut params = valid(now, until, lifetimes.certificate, random);
        params.subject_alt_names = named.subject_alt_names;
        // A common name has 64 characters at most; the names that count are the others.
        let common: String = names.all()[0].chars().take(64).collect();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let name = self
            .certificate
            .fields
            .subject
            .common_name()
            .unwrap_or_default();
        let issuer = params_of_authority(name, CertificateParams::default());
        let issuer = Issuer::from_params(&issuer, &self.key);
        let made = params.signed_by(&key, &issuer).map_err(Unusable::new)?;
        let made = Identity::from_pem(made.pem().as_bytes(), key.serialize_pem().as_bytes());
        made.map_err(|(Part::Certificate(why) | Part::Key(why))| Unusable(why))
    }
}

fn params_of_authority(name: &str, mut params: CertificateParams) -> CertificateParams {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

/// Parameters with no name yet, valid until `until`, and for a little before `now`.
fn valid(
    now: Timestamp,
    until: Timestamp,
    lifetime: Duration,
    random: &Random,
) -> CertificateParams {
    let time = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = time(now - CLOCK_SKEW.min(lifetime / 10));
    params.not_after = time(until);
    params.serial_number = Some(SerialNumber::from(random.u64() >> 1));
    params
}
