//! The fields of an X.509 certificate that the TLS library does not show, and requests for one.
//!
//! The TLS library parses and verifies the certificate, so this is lenient. What rcgen writes
//! certificates with reads them too: no other parser has to be compiled.

mod pem;
mod request;

use jiff::Timestamp;
use yasna::models::ObjectIdentifier;
use yasna::tags::TAG_UTCTIME;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, BERReaderSeq, Tag};

pub use pem::{PemBlock, pem, pem_block};
pub use request::{AlternativeNames, CertificateRequest, PublicKey};

/// The attribute of a subject that has its common name (CN).
const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];

/// The attribute of a subject that has its organisation (O).
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// Whose a certificate is, and how long it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The first second in which it is valid.
    pub not_before: Timestamp,
    /// The last second in which it is valid.
    pub not_after: Timestamp,
    /// Whom it names.
    pub subject: Subject,
}

impl Certificate {
    /// Reads a certificate in DER; `None` if it is none.
    ///
    /// ```
    /// assert!(sendo_x509::Certificate::from_der(b"no certificate").is_none());
    /// ```
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let certificate = yasna::parse_ber(der, |reader| {
            reader.read_sequence(|certificate| {
                let signed = certificate.next().read_sequence(Certificate::read)?;
                skip_rest(certificate)?;
                Ok(signed)
            })
        });
        certificate.ok()
    }

    /// Whether it is valid at `time`.
    pub fn is_valid_at(&self, time: Timestamp) -> bool {
        self.not_before <= time && time <= self.not_after
    }

    /// Reads the signed part (`TBSCertificate` of RFC 5280).
    fn read(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<Self> {
        fields.read_optional(|reader| {
            reader.read_tagged(Tag::context(0), |version| version.read_der())
        })?;
        for _serial_algorithm_issuer in 0..3 {
            fields.next().read_der()?;
        }
        let [not_before, not_after] = fields.next().read_sequence(|validity| {
            Ok([read_time(validity.next())?, read_time(validity.next())?])
        })?;
        let subject = Subject::read(fields.next())?;
        skip_rest(fields)?;
        Ok(Certificate {
            not_before,
            not_after,
            subject,
        })
    }
}

/// Whom a certificate names: attributes, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    attributes: Vec<(ObjectIdentifier, String)>,
    der: Vec<u8>,
}

impl Subject {
    /// The last of its common names, which is the one that Go shows.
    pub fn common_name(&self) -> Option<&str> {
        self.values(COMMON_NAME).last()
    }

    /// Its organisations: the groups of a user.
    pub fn organizations(&self) -> impl Iterator<Item = &str> {
        self.values(ORGANIZATION)
    }

    /// Whether it names nobody.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    /// The same in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    fn values(&self, attribute: [u64; 4]) -> impl Iterator<Item = &str> {
        let named = self.attributes.iter();
        let named = named.filter(move |(id, _)| *id.components() == attribute);
        named.map(|(_, value)| value.as_str())
    }

    fn read(reader: BERReader<'_, '_>) -> ASN1Result<Self> {
        let der = reader.read_der()?;
        let names = yasna::parse_ber(&der, |reader| {
            reader.collect_sequence_of(read_relative_name)
        })?;
        Ok(Subject {
            attributes: names.into_iter().flatten().collect(),
            der,
        })
    }
}

/// Reads a relative name: a set of attributes, of which most have one.
fn read_relative_name(reader: BERReader<'_, '_>) -> ASN1Result<Vec<(ObjectIdentifier, String)>> {
    // Text comes in several types, all of which are read as UTF-8.
    reader.collect_set_of(|attribute| {
        attribute.read_sequence(|attribute| {
            let id = attribute.next().read_oid()?;
            let value = attribute.next().read_tagged_der()?;
            Ok((id, String::from_utf8_lossy(value.value()).into_owned()))
        })
    })
}

/// Reads a time: `UTCTime`, or `GeneralizedTime` from the year 2050 on.
fn read_time(reader: BERReader<'_, '_>) -> ASN1Result<Timestamp> {
    let seconds = match reader.lookahead_tag()? {
        TAG_UTCTIME => reader.read_utctime()?.datetime().unix_timestamp(),
        _ => reader.read_generalized_time()?.datetime().unix_timestamp(),
    };
    Timestamp::from_second(seconds).map_err(|_| ASN1Error::new(ASN1ErrorKind::Invalid))
}

/// Skips the values that are left.
fn skip_rest(fields: &mut BERReaderSeq<'_, '_>) -> ASN1Result<()> {
    while fields.read_optional(|field| field.read_der())?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_certificate_and_no_request_are_refused() {
        for bytes in [
            &b""[..],
            b"\x30",
            b"\x30\x80",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x02\x30\x00",
            b"hello",
        ] {
            assert!(Certificate::from_der(bytes).is_none(), "{bytes:?}");
            assert!(CertificateRequest::from_der(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn years_have_two_digits_until_2049_and_then_four() {
        let valid = |from: i32, until: i32| {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::default();
            params.not_before = rcgen::date_time_ymd(from, 2, 3);
            params.not_after = rcgen::date_time_ymd(until, 4, 5);
            let der = params.self_signed(&key).unwrap();
            let certificate = Certificate::from_der(der.der()).unwrap();
            [certificate.not_before, certificate.not_after].map(|time| time.to_string())
        };
        assert_eq!(
            valid(1999, 2049),
            ["1999-02-03T00:00:00Z", "2049-04-05T00:00:00Z"]
        );
        assert_eq!(
            valid(2001, 2050),
            ["2001-02-03T00:00:00Z", "2050-04-05T00:00:00Z"]
        );
    }

    #[test]
    fn a_certificate_and_a_request_for_it_name_the_same() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        let names = &mut params.distinguished_name;
        names.push(rcgen::DnType::CommonName, "ann");
        names.push(rcgen::DnType::OrganizationName, "sailors");
        let request = params.serialize_request(&key).unwrap();
        let request = CertificateRequest::from_der(request.der()).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let certificate = Certificate::from_der(certificate.der()).unwrap();
        assert_eq!(request.subject, certificate.subject);
        assert_eq!(request.subject.common_name(), Some("ann"));
        assert!(request.subject.organizations().eq(["sailors"]));
    }
}
