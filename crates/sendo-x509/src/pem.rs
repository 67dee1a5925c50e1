//! Blocks of texts in PEM.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// A block of a text in PEM (RFC 7468).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemBlock {
    /// What it says that it is, such as `CERTIFICATE`.
    pub label: String,
    /// Its content, in DER.
    pub content: Vec<u8>,
}

/// The first block of a text; `None` if there is none, or if it cannot be read.
///
/// ```
/// let text = "-----BEGIN NOTE-----\naGVsbG8=\n-----END NOTE-----\n";
/// let block = sendo_x509::pem_block(text).unwrap();
/// assert_eq!((&*block.label, &*block.content), ("NOTE", &b"hello"[..]));
/// ```
pub fn pem_block(text: &str) -> Option<PemBlock> {
    let (_, begun) = text.split_once("-----BEGIN ")?;
    let (label, rest) = begun.split_once("-----")?;
    let (encoded, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let encoded: String = encoded.split_whitespace().collect();
    Some(PemBlock {
        label: label.to_owned(),
        content: BASE64_STANDARD.decode(encoded).ok()?,
    })
}

/// A block in PEM, in lines of 64 characters.
pub fn pem(label: &str, content: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(content);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 47, 48, 49, 200] {
            let content = vec![7; length];
            let text = pem("NOTE", &content);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            let block = pem_block(&text).expect("a block");
            assert_eq!(block.content, content);
        }
        assert_eq!(pem_block("-----BEGIN NOTE-----\naGVs"), None);
    }
}
