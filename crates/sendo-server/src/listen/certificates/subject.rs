//! Reads the user of a client certificate from the common name and organisations of its subject.
//!
//! The TLS library has verified the certificate. Only the subject is decoded (X.509, in DER), and
//! the fields before it are skipped.

use crate::request::user::User;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
/// The explicit version, which certificates of version 1 leave out.
const VERSION: u8 = 0xa0;

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
            let id = pair.enter(OBJECT_ID)?.0;
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

/// What is left of a run of DER values.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The tag and content of the next value.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let count = usize::from(first & 0x7f);
            // Four bytes of length are more than any certificate has.
            if count == 0 || count > 4 {
                return None;
            }
            let (bytes, after) = rest.split_at_checked(count)?;
            length = bytes
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Into the next value, which must have this tag.
    fn enter(&mut self, wanted: u8) -> Option<Reader<'a>> {
        let (tag, content) = self.next()?;
        (tag == wanted).then_some(Reader(content))
    }
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
