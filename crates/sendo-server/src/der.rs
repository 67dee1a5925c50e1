//! Reads DER, as far as the server looks into certificates itself.
//!
//! The TLS library has parsed and verified them; a few of their fields it does not show.

pub(crate) const SEQUENCE: u8 = 0x30;
/// The explicit version of a certificate, which those of version 1 leave out.
pub(crate) const VERSION: u8 = 0xa0;

/// What is left of a run of DER values.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The tag of the next value.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The tag and content of the next value.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
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
    pub(crate) fn enter(&mut self, wanted: u8) -> Option<Reader<'a>> {
        let (tag, content) = self.next()?;
        (tag == wanted).then_some(Reader(content))
    }
}
