//! The text of a path.

use std::cmp::Ordering;

/// How long a text may be that is kept in place.
const SHORT: usize = 94;

/// A text that is made by adding to another one.
///
/// Validation makes hundreds of paths for each that it reports. Nearly all of them
/// fit in here: they are copied in a few moves, and never allocated.
#[derive(Clone)]
pub(super) enum PathText {
    /// The first `len` bytes, which are UTF-8.
    Short {
        len: u8,
        bytes: [u8; SHORT],
    },
    Long(String),
}

impl PathText {
    pub(super) fn as_str(&self) -> &str {
        match self {
            PathText::Short { len, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*len)]).expect("texts were joined")
            }
            PathText::Long(text) => text,
        }
    }

    pub(super) fn push(&mut self, more: &str) {
        match self {
            PathText::Long(text) => text.push_str(more),
            PathText::Short { len, bytes } => {
                let from = usize::from(*len);
                match bytes.get_mut(from..from + more.len()) {
                    Some(place) => {
                        place.copy_from_slice(more.as_bytes());
                        *len += more.len() as u8;
                    }
                    None => *self = PathText::Long([self.as_str(), more].concat()),
                }
            }
        }
    }

    /// Adds one ASCII byte.
    pub(super) fn push_byte(&mut self, byte: u8) {
        debug_assert!(byte.is_ascii());
        match self {
            PathText::Short { len, bytes } if usize::from(*len) < SHORT => {
                bytes[usize::from(*len)] = byte;
                *len += 1;
            }
            _ => self.push(char::from(byte).encode_utf8(&mut [0; 1])),
        }
    }
}

impl Default for PathText {
    fn default() -> Self {
        PathText::Short {
            len: 0,
            bytes: [0; SHORT],
        }
    }
}

impl PartialEq for PathText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for PathText {}

impl Ord for PathText {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for PathText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_grows_beyond_its_place() {
        let mut text = PathText::default();
        let mut whole = String::new();
        for part in ["", "spec", "é"].iter().cycle().take(120) {
            text.push(part);
            text.push_byte(b'.');
            whole.push_str(part);
            whole.push('.');
            assert_eq!(text.as_str(), whole);
            assert_eq!(matches!(text, PathText::Short { .. }), whole.len() <= SHORT);
        }
    }
}
