//! The wire format: tags, varints and length-delimited bytes.

use serde_json::Value;

use super::Error;

/// Reads fields off a message's bytes.
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

/// A field's content as its wire type delimits it; no type has 32 fixed bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'b> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'b [u8]),
    Fixed32,
}

impl<'b> Content<'b> {
    pub(crate) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// Groups of groups are skipped without reading them, but not without end.
const GROUP_DEPTH: usize = 100;

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and content; groups, which nothing uses, are
    /// skipped.
    pub(crate) fn field(&mut self) -> Result<Option<(u32, Content<'b>)>, Error> {
        while !self.is_empty() {
            let (number, wire_type) = self.tag()?;
            match wire_type {
                3 => self.skip_group(GROUP_DEPTH)?,
                4 => return Err(Error::Tag { number, wire_type }),
                _ => return Ok(Some((number, self.content(number, wire_type)?))),
            }
        }
        Ok(None)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Overflow)
    }

    pub(crate) fn fixed64(&mut self) -> Result<u64, Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn tag(&mut self) -> Result<(u32, u8), Error> {
        let tag = self.varint()?;
        let (number, wire_type) = ((tag >> 3) as u32, (tag & 7) as u8);
        if number == 0 || number > i32::MAX as u32 {
            return Err(Error::Tag { number, wire_type });
        }
        Ok((number, wire_type))
    }

    fn content(&mut self, number: u32, wire_type: u8) -> Result<Content<'b>, Error> {
        Ok(match wire_type {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(self.fixed64()?),
            2 => Content::Bytes(self.bytes()?),
            5 => {
                self.rest = self.rest.get(4..).ok_or(Error::Truncated)?;
                Content::Fixed32
            }
            _ => return Err(Error::Tag { number, wire_type }),
        })
    }

    fn bytes(&mut self) -> Result<&'b [u8], Error> {
        let length = usize::try_from(self.varint()?).map_err(|_| Error::Overflow)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn skip_group(&mut self, depth: usize) -> Result<(), Error> {
        let depth = depth.checked_sub(1).ok_or(Error::Depth)?;
        loop {
            let (number, wire_type) = self.tag()?;
            match wire_type {
                3 => self.skip_group(depth)?,
                4 => return Ok(()),
                _ => drop(self.content(number, wire_type)?),
            }
        }
    }
}

/// Writes fields of a message.
#[derive(Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn varint(&mut self, number: u32, value: u64) {
        self.raw_varint(u64::from(number) << 3);
        self.raw_varint(value);
    }

    pub(crate) fn fixed64(&mut self, number: u32, bits: u64) {
        self.raw_varint(u64::from(number) << 3 | 1);
        self.out.extend_from_slice(&bits.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, number: u32, content: &[u8]) {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(content.len() as u64);
        self.out.extend_from_slice(content);
    }

    /// A message in the message: what `write` writes, with its length before it.
    pub(crate) fn message(&mut self, number: u32, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.bytes(number, &inner.out);
    }

    /// A message for each item of a list; none for what is no list.
    pub(crate) fn messages(
        &mut self,
        number: u32,
        list: &Value,
        write: impl Fn(&mut Writer, &Value),
    ) {
        for item in list.as_array().into_iter().flatten() {
            self.message(number, |out| write(out, item));
        }
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, String)>, Error> {
        let mut reader = Reader::new(bytes);
        let mut fields = Vec::new();
        while let Some((number, content)) = reader.field()? {
            fields.push((number, format!("{content:?}")));
        }
        Ok(fields)
    }

    #[test]
    fn fields_are_delimited_by_their_wire_type() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0];
        let expected = [(1, "Varint(150)"), (2, "Bytes([104, 105])"), (3, "Fixed32")];
        assert_eq!(
            fields(&bytes).unwrap(),
            expected.map(|(n, text)| (n, text.to_owned()))
        );
    }

    #[test]
    fn groups_are_skipped() {
        let bytes = [0x0b, 0x08, 1, 0x13, 0x14, 0x0c, 0x10, 7];
        assert_eq!(fields(&bytes).unwrap(), [(2, "Varint(7)".to_owned())]);
    }

    #[test]
    fn broken_bytes_are_refused() {
        assert_eq!(fields(&[0x08]), Err(Error::Truncated));
        assert_eq!(fields(&[0x12, 5, b'a']), Err(Error::Truncated));
        assert_eq!(
            fields(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            Err(Error::Overflow)
        );
        assert_eq!(
            fields(&[0x00]),
            Err(Error::Tag {
                number: 0,
                wire_type: 0
            })
        );
        assert_eq!(
            fields(&[0x0c]),
            Err(Error::Tag {
                number: 1,
                wire_type: 4
            })
        );
        assert_eq!(
            fields(&[0x0e]),
            Err(Error::Tag {
                number: 1,
                wire_type: 6
            })
        );
        assert_eq!(fields(&[0x0b; 1000]), Err(Error::Depth));
    }
}
