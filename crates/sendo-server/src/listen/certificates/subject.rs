//! Reads the user of a client certificate from the common name and organisations of its subject.
//!
//! The TLS library has verified the certificate. Only the subject is decoded (X.509, in DER), and
//! the fields before it are skipped.

use crate::der::{Reader, SEQUENCE, VERSION};
use crate::request::user::User;

const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;

/// `2.5.4.3` and `2.5.4.10`, encoded.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The user a certificate names; `None` without a common name.
pub(crate) fn user_of(certificate: &[u8]) -> Option<User> {
    let mut outer = Reader(certificate).enter(SEQUENCE)?;
    let mut signed = outer.enter(SEQUENCE)?;
    if signed.peek() == Some(VERSION) {
        signed.next()?;
    }
    // Serial number, signature algorithm, issuer, validity.
    for _ in 0..4 {
        signed.next()?;
    }
    let mut subject = signed.enter(SEQUENCE)?;
    let (mut name, mut groups) = (None, Vec::new());
    while subject.peek().is_some() {
        let mut parts = subject.enter(SET)?;
        while parts.peek().is_some() {
            let mut pair = parts.enter(SEQUENCE)?;
            let id = pair.enter(OBJECT_ID)?.rest();
            let (_, value) = pair.next()?;
            let text = String::from_utf8_lossy(value).into_owned();
            match id {
                id if id == COMMON_NAME => name = Some(text),
                id if id == ORGANIZATION => groups.push(text),
                _ => {}
            }
        }
    }
    Some(User::new(name.filter(|name| !name.is_empty())?, groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_certificate_name_nobody() {
        for bytes in [
            &b""[..],
            b"\x30",
            b"\x30\x80",
            b"\x30\x84\xff\xff\xff\xff",
            b"\x30\x02\x30\x00",
            b"hello",
        ] {
            assert_eq!(user_of(bytes), None, "{bytes:?}");
        }
    }
}
