//! Checks a PEM certificate and key as Go's `tls.X509KeyPair` does, with its error messages.
//!
//! Follows Kubernetes 1.36:
//! - `$GOROOT/src/crypto/tls/tls.go`: `X509KeyPair`
//! - `$GOROOT/src/encoding/pem/pem.go`: `Decode`
//! - `$GOROOT/src/crypto/x509/parser.go`: `ParseCertificate`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys};

/// One block of a PEM text.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(super) has_headers: bool,
    pub(crate) content: Vec<u8>,
}

/// The blocks of a PEM text. Text between blocks and incomplete blocks are skipped.
pub(crate) fn blocks(bytes: &[u8]) -> Vec<Block> {
    const BEGIN: &str = "-----BEGIN ";
    let text = String::from_utf8_lossy(bytes);
    let mut blocks = Vec::new();
    let mut rest: &str = &text;
    while let Some(start) = rest.find(BEGIN) {
        rest = &rest[start + BEGIN.len()..];
        let Some((label, after)) = rest.split_once("-----") else {
            break;
        };
        let end = format!("-----END {label}-----");
        let Some(length) = after.find(&end) else {
            continue;
        };
        let (headers, encoded): (Vec<&str>, Vec<&str>) =
            after[..length].lines().partition(|line| line.contains(':'));
        let encoded: String = encoded.concat().split_whitespace().collect();
        if let Ok(content) = STANDARD.decode(encoded) {
            blocks.push(Block {
                label: label.to_owned(),
                has_headers: !headers.is_empty(),
                content,
            });
        }
        rest = &after[length + end.len()..];
    }
    blocks
}

/// Go's error message if the certificate and the key are not a pair.
pub(super) fn fault(certificate: &[u8], key: &[u8]) -> Option<String> {
    let chain = match chain(&blocks(certificate)) {
        Ok(chain) => chain,
        Err(fault) => return Some(fault),
    };
    let key = match private_key(blocks(key)) {
        Ok(key) => key,
        Err(fault) => return Some(fault),
    };
    let Some(key) = key.iter().find_map(|key| any_supported_type(key).ok()) else {
        return Some("tls: failed to parse private key".to_owned());
    };
    match CertifiedKey::new(chain, key).keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => None,
        Err(Error::InconsistentKeys(_)) => {
            Some("tls: private key does not match public key".to_owned())
        }
        Err(_) => Some("x509: malformed certificate".to_owned()),
    }
}

fn is_key(label: &str) -> bool {
    label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")
}

fn skipped(blocks: &[Block]) -> String {
    let labels: Vec<&str> = blocks.iter().map(|block| block.label.as_str()).collect();
    format!("[{}]", labels.join(" "))
}

fn chain(blocks: &[Block]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = blocks.iter().filter(|block| block.label == "CERTIFICATE");
    let chain: Vec<_> = certificates
        .map(|block| CertificateDer::from(block.content.clone()))
        .collect();
    if !chain.is_empty() {
        return Ok(chain);
    }
    Err(match blocks {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if is_key(&only.label) => {
            "tls: failed to find certificate PEM data in certificate input, but did find a \
             private key; PEM inputs may have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping \
             PEM blocks of the following types: {}",
            skipped(blocks)
        ),
    })
}

/// The encodings in which the first private key can be parsed.
fn private_key(blocks: Vec<Block>) -> Result<Vec<PrivateKeyDer<'static>>, String> {
    if let Some(key) = blocks.iter().find(|block| is_key(&block.label)) {
        let bytes = || key.content.clone();
        return Ok(vec![
            PrivatePkcs1KeyDer::from(bytes()).into(),
            PrivatePkcs8KeyDer::from(bytes()).into(),
            PrivateSec1KeyDer::from(bytes()).into(),
        ]);
    }
    Err(match blocks.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only.label == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        blocks => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input \
             after skipping PEM blocks of the following types: {}",
            skipped(blocks)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    fn pair() -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_key_belongs_to_its_certificate() {
        let (certificate, key) = pair();
        let (_, other) = pair();
        let fault = |certificate: &str, key: &str| fault(certificate.as_bytes(), key.as_bytes());
        assert_eq!(fault(&certificate, &key), None);
        let cases = [
            (
                certificate.as_str(),
                other.as_str(),
                "tls: private key does not match public key",
            ),
            (
                "",
                "",
                "tls: failed to find any PEM data in certificate input",
            ),
            (
                &certificate,
                "",
                "tls: failed to find any PEM data in key input",
            ),
            (
                &certificate,
                &certificate,
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
            (
                &key,
                &key,
                "tls: failed to find certificate PEM data in certificate input, but did find a \
                 private key; PEM inputs may have been switched",
            ),
        ];
        for (certificate, key, expected) in cases {
            assert_eq!(fault(certificate, key).as_deref(), Some(expected));
        }
    }
}
