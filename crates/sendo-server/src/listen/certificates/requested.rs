//! Signs certificates that clients have asked for.
//!
//! Follows Kubernetes 1.36:
//! - `pkg/controller/certificates/authority/authority.go`: `Sign`
//! - `pkg/controller/certificates/authority/policies.go`: `PermissiveSigningPolicy`,
//!   `keyUsagesFromStrings`

use std::time::Duration;

use jiff::Timestamp;
use rcgen::SigningKey;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sendo_x509::{Certificate, CertificateRequest};
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::Authority;

/// How long before now a certificate is valid already: clocks differ.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Certificates of less than this end when they were asked to, the others that much earlier.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);

/// What a certificate is signed for.
#[derive(Clone, Debug)]
pub struct SigningTerms<'a> {
    /// The usages, as CertificateSigningRequests name them.
    pub usages: &'a [String],
    /// How long it is valid; not longer than the authority.
    pub lifetime: Duration,
    /// A random number that no other certificate of the authority has.
    pub serial: u64,
    /// The present time.
    pub now: Timestamp,
}

/// Why a certificate is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// The one who asks does not have the key.
    #[error("unable to verify certificate request signature: {0}")]
    Signature(&'static str),
    /// There is no such usage.
    #[error("unrecognized usage value: {0:?}")]
    Usage(String),
    /// The authority is not valid any more.
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Timestamp),
    /// Its own certificate or key cannot be used.
    #[error("the authority cannot sign: {0}")]
    Authority(String),
}

impl Authority {
    /// A certificate, in PEM, for whom the request names, with the key that it was signed with.
    ///
    /// # Errors
    /// If the request is not signed by its key, a usage is unknown, or the authority has expired.
    pub fn sign_request(
        &self,
        request: &CertificateRequest,
        terms: &SigningTerms<'_>,
    ) -> Result<String, SigningError> {
        verify(request)?;
        let own = Certificate::from_der(&self.certificate_der);
        let own = own.ok_or_else(|| SigningError::Authority("it is no certificate".to_owned()))?;
        if own.not_after <= terms.now {
            return Err(SigningError::Expired(own.not_after));
        }
        let lifetime = match terms.lifetime < SHORT {
            true => terms.lifetime,
            false => terms.lifetime - BACKDATE,
        };
        let not_after = (terms.now + lifetime).min(own.not_after);
        let usages = Usages::parse(terms.usages)?;
        let signed = yasna::construct_der(|writer| {
            writer.write_sequence(|fields| {
                let version = fields.next();
                version.write_tagged(Tag::context(0), |version| version.write_u8(2));
                fields.next().write_u64(terms.serial);
                write_algorithm(fields.next());
                fields.next().write_der(own.subject.der());
                fields.next().write_sequence(|validity| {
                    write_time(validity.next(), terms.now - BACKDATE);
                    write_time(validity.next(), not_after);
                });
                fields.next().write_der(request.subject.der());
                fields.next().write_der(&request.key_der);
                fields.next().write_tagged(Tag::context(3), |extensions| {
                    extensions.write_sequence(|extensions| {
                        write_extensions(extensions, &usages, request);
                    });
                });
            });
        });
        let key = self.issuer.key();
        let signature = key.sign(&signed);
        let signature = signature.map_err(|error| SigningError::Authority(error.to_string()))?;
        let certificate = yasna::construct_der(|writer| {
            writer.write_sequence(|fields| {
                fields.next().write_der(&signed);
                write_algorithm(fields.next());
                fields
                    .next()
                    .write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(sendo_x509::pem("CERTIFICATE", &certificate))
    }
}

/// Checks that who asks has the key.
fn verify(request: &CertificateRequest) -> Result<(), SigningError> {
    let id = |id: &ObjectIdentifier| id.components().to_vec();
    let curve = request.key.curve.as_ref().map(id).unwrap_or_default();
    let (p256, p384): (&[u64], &[u64]) = (&[1, 2, 840, 10045, 3, 1, 7], &[1, 3, 132, 0, 34]);
    let algorithm: &'static dyn VerificationAlgorithm =
        match (&id(&request.signature_algorithm)[..], &curve[..]) {
            ([1, 2, 840, 10045, 4, 3, 2], curve) if curve == p256 => {
                &signature::ECDSA_P256_SHA256_ASN1
            }
            ([1, 2, 840, 10045, 4, 3, 3], curve) if curve == p256 => {
                &signature::ECDSA_P256_SHA384_ASN1
            }
            ([1, 2, 840, 10045, 4, 3, 2], curve) if curve == p384 => {
                &signature::ECDSA_P384_SHA256_ASN1
            }
            ([1, 2, 840, 10045, 4, 3, 3], curve) if curve == p384 => {
                &signature::ECDSA_P384_SHA384_ASN1
            }
            ([1, 2, 840, 113549, 1, 1, 11], _) => &signature::RSA_PKCS1_2048_8192_SHA256,
            ([1, 2, 840, 113549, 1, 1, 12], _) => &signature::RSA_PKCS1_2048_8192_SHA384,
            ([1, 2, 840, 113549, 1, 1, 13], _) => &signature::RSA_PKCS1_2048_8192_SHA512,
            ([1, 3, 101, 112], _) => &signature::ED25519,
            _ => return Err(SigningError::Signature("the algorithm is not supported")),
        };
    let key = UnparsedPublicKey::new(algorithm, &request.key.bits);
    key.verify(&request.signed, &request.signature)
        .map_err(|_| SigningError::Signature("verification failure"))
}

/// What a certificate may be used for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usages {
    /// The bits of the extension `keyUsage`, the first one on the left.
    bits: u16,
    /// The identifiers of the extension `extKeyUsage`.
    extended: Vec<&'static [u64]>,
}

impl Usages {
    fn parse(usages: &[String]) -> Result<Self, SigningError> {
        let mut parsed = Usages::default();
        for usage in usages {
            let bit = match usage.as_str() {
                "signing" | "digital signature" => Some(0),
                "content commitment" => Some(1),
                "key encipherment" => Some(2),
                "data encipherment" => Some(3),
                "key agreement" => Some(4),
                "cert sign" => Some(5),
                "crl sign" => Some(6),
                "encipher only" => Some(7),
                "decipher only" => Some(8),
                _ => None,
            };
            if let Some(bit) = bit {
                parsed.bits |= 1 << (15 - bit);
                continue;
            }
            let id: &[u64] = match usage.as_str() {
                "any" => &[2, 5, 29, 37, 0],
                "server auth" => &[1, 3, 6, 1, 5, 5, 7, 3, 1],
                "client auth" => &[1, 3, 6, 1, 5, 5, 7, 3, 2],
                "code signing" => &[1, 3, 6, 1, 5, 5, 7, 3, 3],
                "email protection" | "s/mime" => &[1, 3, 6, 1, 5, 5, 7, 3, 4],
                "ipsec end system" => &[1, 3, 6, 1, 5, 5, 7, 3, 5],
                "ipsec tunnel" => &[1, 3, 6, 1, 5, 5, 7, 3, 6],
                "ipsec user" => &[1, 3, 6, 1, 5, 5, 7, 3, 7],
                "timestamping" => &[1, 3, 6, 1, 5, 5, 7, 3, 8],
                "ocsp signing" => &[1, 3, 6, 1, 5, 5, 7, 3, 9],
                "microsoft sgc" => &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3],
                "netscape sgc" => &[2, 16, 840, 1, 113730, 4, 1],
                unknown => return Err(SigningError::Usage(unknown.to_owned())),
            };
            if !parsed.extended.contains(&id) {
                parsed.extended.push(id);
            }
        }
        Ok(parsed)
    }
}

fn write_extensions(
    extensions: &mut DERWriterSeq<'_>,
    usages: &Usages,
    request: &CertificateRequest,
) {
    let mut extension = |id: &[u64], is_critical: bool, value: Vec<u8>| {
        extensions.next().write_sequence(|fields| {
            fields.next().write_oid(&ObjectIdentifier::from_slice(id));
            if is_critical {
                fields.next().write_bool(true);
            }
            fields.next().write_bytes(&value);
        });
    };
    if usages.bits != 0 {
        let used = 16 - usages.bits.trailing_zeros() as usize;
        let bytes = &usages.bits.to_be_bytes()[..used.div_ceil(8)];
        let value = yasna::construct_der(|writer| writer.write_bitvec_bytes(bytes, used));
        extension(&[2, 5, 29, 15], true, value);
    }
    if !usages.extended.is_empty() {
        let value = yasna::construct_der(|writer| {
            writer.write_sequence_of(|ids| {
                for id in &usages.extended {
                    ids.next().write_oid(&ObjectIdentifier::from_slice(id));
                }
            });
        });
        extension(&[2, 5, 29, 37], false, value);
    }
    // It is no authority.
    let value = yasna::construct_der(|writer| writer.write_sequence(|_| {}));
    extension(&[2, 5, 29, 19], true, value);
    if let Some(names) = &request.alternative_names {
        // A certificate without a subject has its names here only.
        let is_critical = request.subject.is_empty();
        extension(&[2, 5, 29, 17], is_critical, names.clone());
    }
}

/// The algorithm of the authority's key: ECDSA with SHA-256.
fn write_algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|algorithm| {
        let id = ObjectIdentifier::from_slice(&[1, 2, 840, 10045, 4, 3, 2]);
        algorithm.next().write_oid(&id);
    });
}

fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since = Duration::from_secs(time.as_second().try_into().unwrap_or_default());
    let time = epoch + since;
    match time.year() {
        ..2050 => writer.write_utctime(&UTCTime::from_datetime(time)),
        _ => writer.write_generalized_time(&GeneralizedTime::from_datetime(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::certificates::user_of;
    use crate::request::user::User;
    use tokio_rustls::rustls::pki_types::CertificateDer;

    const NOW: &str = "2026-03-31T00:00:00Z";

    fn request(groups: &[&str]) -> CertificateRequest {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = &mut params.distinguished_name;
        name.push(rcgen::DnType::CommonName, "jane");
        for group in groups {
            name.push(rcgen::DnType::OrganizationName, *group);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let der = params.serialize_request(&key).unwrap();
        CertificateRequest::from_der(der.der()).expect("a request")
    }

    fn sign(
        request: &CertificateRequest,
        usages: &[&str],
        hours: u64,
    ) -> Result<String, SigningError> {
        let now = NOW.parse().unwrap();
        let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
        let terms = SigningTerms {
            usages: &usages,
            lifetime: Duration::from_secs(hours * 3600),
            serial: 7,
            now,
        };
        Authority::new(now).unwrap().sign_request(request, &terms)
    }

    #[test]
    fn a_certificate_names_who_asked_for_as_long_as_was_asked() {
        let usages = ["digital signature", "client auth"];
        let valid = |hours| {
            let pem = sign(&request(&["crew"]), &usages, hours).unwrap();
            let der = sendo_x509::pem_block(&pem).unwrap().content;
            let user = user_of(&CertificateDer::from(der.clone())).unwrap();
            assert_eq!(user, User::new("jane", ["crew"]));
            let certificate = Certificate::from_der(&der).unwrap();
            [certificate.not_before, certificate.not_after].map(|time| time.to_string())
        };
        let from = "2026-03-30T23:55:00Z";
        assert_eq!(valid(1), [from, "2026-03-31T01:00:00Z"]);
        assert_eq!(valid(24), [from, "2026-03-31T23:55:00Z"]);
        assert_eq!(valid(20 * 365 * 24), [from, "2036-03-01T00:00:00Z"]);
    }

    #[test]
    fn a_request_that_its_key_did_not_sign_is_refused() {
        let mut forged = request(&[]);
        forged.signed = request(&["system:masters"]).signed;
        let refused = sign(&forged, &["client auth"], 1).unwrap_err();
        assert_eq!(refused, SigningError::Signature("verification failure"));
        let unknown = sign(&request(&[]), &["flying"], 1).unwrap_err();
        assert_eq!(unknown, SigningError::Usage("flying".to_owned()));
    }
}
