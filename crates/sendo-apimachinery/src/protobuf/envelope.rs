//! The envelope around an object's message.

use super::Error;
use super::wire::{Content, Reader, Writer};

const PREFIX: &[u8] = b"k8s\0";

/// What a body says of the object it carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// The object's `apiVersion`; empty if the sender left it out.
    pub api_version: String,
    /// The object's kind; empty if the sender left it out.
    pub kind: String,
    /// How `raw` is compressed; empty if it is not.
    pub content_encoding: String,
    /// The media type of `raw`; empty for protobuf.
    pub content_type: String,
    /// The object's message.
    pub raw: &'b [u8],
}

impl<'b> Envelope<'b> {
    /// Reads the prefix and the envelope; the object is left undecoded.
    pub fn parse(body: &'b [u8]) -> Result<Self, Error> {
        if body.is_empty() {
            return Err(Error::Empty);
        }
        let message = body.strip_prefix(PREFIX).ok_or(Error::Prefix)?;
        if message.is_empty() {
            return Err(Error::Empty);
        }
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while let Some((number, content)) = reader.field()? {
            match number {
                1 => envelope.read_type(bytes(content, "typeMeta")?)?,
                2 => envelope.raw = bytes(content, "raw")?,
                3 => envelope.content_encoding = text(content, "contentEncoding")?,
                4 => envelope.content_type = text(content, "contentType")?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, message: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(message);
        while let Some((number, content)) = reader.field()? {
            match number {
                1 => self.api_version = text(content, "apiVersion")?,
                2 => self.kind = text(content, "kind")?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The prefix, and an envelope around an object's message.
pub(super) fn write(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut envelope = Writer::default();
    envelope.message(1, |types| {
        types.bytes(1, api_version.as_bytes());
        types.bytes(2, kind.as_bytes());
    });
    envelope.bytes(2, raw);
    // Neither compressed nor of another media type.
    envelope.bytes(3, &[]);
    envelope.bytes(4, &[]);
    [PREFIX, &envelope.into_bytes()].concat()
}

fn bytes<'b>(content: Content<'b>, field: &str) -> Result<&'b [u8], Error> {
    match content {
        Content::Bytes(bytes) => Ok(bytes),
        other => Err(Error::WireType {
            wire_type: other.wire_type(),
            field: field.to_owned(),
        }),
    }
}

fn text(content: Content<'_>, field: &str) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(bytes(content, field)?).into_owned())
}
