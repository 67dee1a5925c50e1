//! Requests for certificates: whom they name, for which key, and whether that key signed them.

use yasna::models::ObjectIdentifier;
use yasna::tags::TAG_OCTETSTRING;
use yasna::{ASN1Result, BERReaderSeq, Tag};

use crate::{Subject, skip_rest};

/// The attribute of a request that has the extensions which it asks for.
const EXTENSION_REQUEST: [u64; 7] = [1, 2, 840, 113549, 1, 9, 14];
/// The extension with more names of the subject.
const ALTERNATIVE_NAMES: [u64; 4] = [2, 5, 29, 17];

/// A request for a certificate (`CertificationRequest` of RFC 2986).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// What is signed, in DER.
    pub signed: Vec<u8>,
    /// Whom the certificate is to name.
    pub subject: Subject,
    /// The key that the certificate is for.
    pub key: PublicKey,
    /// The same in DER (`SubjectPublicKeyInfo`).
    pub key_der: Vec<u8>,
    /// The value of the extension with alternative names, in DER, if it asks for one.
    pub alternative_names: Option<Vec<u8>>,
    /// The algorithm of the signature.
    pub signature_algorithm: ObjectIdentifier,
    /// The signature.
    pub signature: Vec<u8>,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Its algorithm.
    pub algorithm: ObjectIdentifier,
    /// The curve, if the algorithm has one.
    pub curve: Option<ObjectIdentifier>,
    /// The key itself, as the algorithm encodes it.
    pub bits: Vec<u8>,
}

/// How many alternative names of each type there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// Addresses of mail.
    pub mail: usize,
    /// Names of hosts.
    pub hosts: usize,
    /// URIs.
    pub uris: usize,
    /// IP addresses.
    pub addresses: usize,
}

impl CertificateRequest {
    /// Reads a request in DER; `None` if it is none.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let parts = yasna::parse_der(der, |reader| {
            reader.read_sequence(|request| {
                let signed = request.next().read_der()?;
                let algorithm = request.next().read_sequence(|algorithm| {
                    let id = algorithm.next().read_oid()?;
                    skip_rest(algorithm)?;
                    Ok(id)
                })?;
                let (signature, _) = request.next().read_bitvec_bytes()?;
                Ok((signed, algorithm, signature))
            })
        });
        let (signed, signature_algorithm, signature) = parts.ok()?;
        let info = yasna::parse_der(&signed, |reader| reader.read_sequence(Info::read)).ok()?;
        Some(CertificateRequest {
            subject: info.subject,
            key: info.key,
            key_der: info.key_der,
            alternative_names: info.alternative_names,
            signature_algorithm,
            signature,
            signed,
        })
    }

    /// How many alternative names it asks for.
    pub fn count_alternative_names(&self) -> AlternativeNames {
        let mut count = AlternativeNames::default();
        let names = self.alternative_names.as_deref().unwrap_or_default();
        let tags = yasna::parse_der(names, |reader| {
            reader.collect_sequence_of(|name| Ok(name.read_tagged_der()?.tag()))
        });
        for tag in tags.unwrap_or_default() {
            match tag.tag_number {
                1 => count.mail += 1,
                2 => count.hosts += 1,
                6 => count.uris += 1,
                7 => count.addresses += 1,
                _ => {}
            }
        }
        count
    }
}

/// What is signed.
struct Info {
    subject: Subject,
    key: PublicKey,
    key_der: Vec<u8>,
    alternative_names: Option<Vec<u8>>,
}

impl Info {
    fn read(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Self> {
        let _version = fields.next().read_der()?;
        let subject = Subject::read(fields.next())?;
        let key_der = fields.next().read_der()?;
        let key = yasna::parse_der(&key_der, |reader| reader.read_sequence(PublicKey::read))?;
        let attributes = fields.read_optional(|reader| {
            reader.read_tagged_implicit(Tag::context(0), |attributes| {
                attributes.collect_set_of(|attribute| {
                    attribute.read_sequence(|attribute| {
                        let id = attribute.next().read_oid()?;
                        let values = attribute.next().collect_set_of(|value| value.read_der())?;
                        Ok((id, values))
                    })
                })
            })
        })?;
        let asked = attributes.into_iter().flatten();
        let extensions = asked
            .filter(|(id, _)| id.components().as_slice() == EXTENSION_REQUEST)
            .flat_map(|(_, values)| values);
        let alternative_names = extensions.into_iter().find_map(|der| named_in(&der));
        Ok(Info {
            subject,
            key,
            key_der,
            alternative_names,
        })
    }
}

impl PublicKey {
    fn read(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Self> {
        let (algorithm, curve) = fields.next().read_sequence(|algorithm| {
            let id = algorithm.next().read_oid()?;
            // RSA has NULL here, and others nothing.
            let parameters = algorithm.read_optional(|parameters| parameters.read_der())?;
            let curve =
                parameters.and_then(|der| yasna::parse_der(&der, |reader| reader.read_oid()).ok());
            Ok((id, curve))
        })?;
        let (bits, _) = fields.next().read_bitvec_bytes()?;
        Ok(PublicKey {
            algorithm,
            curve,
            bits,
        })
    }
}

/// The alternative names among extensions.
fn named_in(extensions: &[u8]) -> Option<Vec<u8>> {
    let extensions = yasna::parse_der(extensions, |reader| {
        reader.collect_sequence_of(|extension| {
            extension.read_sequence(|extension| {
                let id = extension.next().read_oid()?;
                let mut value = None;
                // Whether it is critical may come before its value.
                while let Some(part) = extension.read_optional(|part| part.read_tagged_der())? {
                    if part.tag() == TAG_OCTETSTRING {
                        value = Some(part.value().to_vec());
                    }
                }
                Ok((id, value))
            })
        })
    });
    let named = extensions.ok()?.into_iter();
    let mut named = named.filter(|(id, _)| id.components().as_slice() == ALTERNATIVE_NAMES);
    named.next()?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(names: &[&str], mut change: impl FnMut(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let key = rcgen::KeyPair::generate().expect("a key");
        let request = params.serialize_request(&key).expect("a request");
        request.der().to_vec()
    }

    #[test]
    fn subject_key_and_names_are_read() {
        let der = request(&["node.example.dev", "192.0.2.1"], |params| {
            let name = &mut params.distinguished_name;
            name.push(rcgen::DnType::OrganizationName, "system:nodes");
            name.push(rcgen::DnType::CommonName, "system:node:a");
        });
        let request = CertificateRequest::from_der(&der).expect("a request");
        assert_eq!(request.subject.common_name(), Some("system:node:a"));
        assert!(request.subject.organizations().eq(["system:nodes"]));
        let expected = AlternativeNames {
            hosts: 1,
            addresses: 1,
            ..AlternativeNames::default()
        };
        assert_eq!(request.count_alternative_names(), expected);
        let p256 = [1, 2, 840, 10045, 3, 1, 7];
        assert_eq!(
            request.key.curve.expect("a curve").components().as_slice(),
            p256
        );
        assert_eq!(request.key.bits.len(), 65);
    }

    #[test]
    fn a_request_without_names_has_none() {
        let request = CertificateRequest::from_der(&request(&[], |_| {})).expect("a request");
        assert!(request.subject.is_empty());
        assert_eq!(
            request.count_alternative_names(),
            AlternativeNames::default()
        );
        assert!(CertificateRequest::from_der(b"no request").is_none());
    }
}
