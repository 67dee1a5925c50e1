//! Kubernetes' protobuf encoding, read and written with the facts about built-in types.
//!
//! A body is the four bytes `k8s\0` and an [`Envelope`] that names the kind and
//! carries the object's message. Messages are turned into the JSON that Go's
//! encoder would show of the same object, so that everything after the decoder
//! knows one representation only.

use serde_json::Value;

use crate::schema::{SchemaRef, Types, show_as_go};

mod discovery;
mod encode;
mod envelope;
mod message;
mod value;
mod wire;

pub use envelope::Envelope;
pub(crate) use wire::Writer;
#[cfg(test)]
pub(crate) use wire::{Content, Reader};

/// The media type of the encoding.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Why bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is empty.
    #[error("empty data")]
    Empty,
    /// The body is not in this encoding at all.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Prefix,
    /// The bytes end within a value.
    #[error("unexpected EOF")]
    Truncated,
    /// A number takes more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field number or wire type that protobuf does not have, or a group's end
    /// without its beginning.
    #[error("proto: illegal tag {number} (wire type {wire_type})")]
    Tag {
        /// The field's number.
        number: u32,
        /// How the field claims to be encoded.
        wire_type: u8,
    },
    /// A field is encoded otherwise than its type demands.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// How the field is encoded.
        wire_type: u8,
        /// The field's name in JSON.
        field: String,
    },
    /// Messages nest deeper than any object does.
    #[error("proto: messages are nested too deeply")]
    Depth,
    /// A value has no representation in JSON: a moment out of range, an
    /// infinite number, or raw JSON that is none.
    #[error("proto: field {field}: {reason}")]
    Value {
        /// The field's name in JSON.
        field: String,
        /// What is wrong with its value.
        reason: String,
    },
    /// The envelope names a kind that is not built in.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    Kind {
        /// The version the envelope names.
        api_version: String,
        /// The kind the envelope names.
        kind: String,
    },
}

/// Decodes a whole body: the envelope, and the object it carries as JSON with
/// `apiVersion` and `kind`.
pub fn decode<'b>(types: &Types, body: &'b [u8]) -> Result<(Envelope<'b>, Value), Error> {
    let envelope = Envelope::parse(body)?;
    let read_as = crate::decode::read_as(&envelope.api_version, &envelope.kind);
    let schema = types.kind(read_as, &envelope.kind);
    let schema = schema.ok_or_else(|| Error::Kind {
        api_version: envelope.api_version.clone(),
        kind: envelope.kind.clone(),
    })?;
    let mut object = decode_message(schema, envelope.raw)?;
    object["apiVersion"] = envelope.api_version.clone().into();
    object["kind"] = envelope.kind.clone().into();
    Ok((envelope, object))
}

/// Decodes a message without its envelope, for a caller that knows the type.
/// `schema` must be an object, as all kinds are.
pub fn decode_message(schema: SchemaRef<'_>, bytes: &[u8]) -> Result<Value, Error> {
    let mut object = Value::Object(message::decode(schema, bytes)?);
    show_as_go(schema, &mut object);
    Ok(object)
}

/// Encodes a whole body: the envelope, and the object or list in it, which
/// names its `apiVersion` and `kind`.
///
/// The bytes are those of Go's encoder. `None` for kinds that have no message:
/// custom ones, and tables.
pub fn encode(types: &Types, object: &Value) -> Option<Vec<u8>> {
    let named = |member: &str| object.get(member).and_then(Value::as_str);
    let (api_version, kind) = (named("apiVersion").unwrap_or_default(), named("kind")?);
    let mut content = Writer::default();
    if api_version.starts_with("meta.k8s.io/") {
        encode_partial(types, kind, object, &mut content)?;
    } else if api_version == discovery::API_VERSION {
        discovery::list(types, object, &mut content)?;
    } else {
        // The oldest discovery documents name no version; they are of the first.
        let known_as = Some(api_version).filter(|version| !version.is_empty());
        let schema = types.kind(known_as.unwrap_or("v1"), kind)?;
        schema
            .fields()
            .iter()
            .find(|field| !field.number.is_empty())?;
        encode::message(&mut content, schema, object);
    }
    Some(envelope::write(api_version, kind, &content.into_bytes()))
}

/// Encodes one event of a watch as a frame of the stream: its length, then
/// its message, which carries the object as a body of its own.
pub fn encode_event(types: &Types, event_type: &str, object: &Value) -> Option<Vec<u8>> {
    let body = encode(types, object)?;
    let mut event = Writer::default();
    event.bytes(1, event_type.as_bytes());
    event.message(2, |extension| extension.bytes(1, &body));
    let event = event.into_bytes();
    let length = u32::try_from(event.len()).ok()?;
    Some([&length.to_be_bytes(), event.as_slice()].concat())
}

/// Objects of which only the metadata is shown, and lists of them.
fn encode_partial(types: &Types, kind: &str, object: &Value, out: &mut Writer) -> Option<()> {
    let meta = |name: &str| types.named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"));
    let (of_object, of_list) = (meta("ObjectMeta")?, meta("ListMeta")?);
    let one = |out: &mut Writer, object: &Value| {
        out.message(1, |out| {
            encode::message(out, of_object, &object["metadata"])
        });
    };
    match kind {
        "PartialObjectMetadata" => one(out, object),
        "PartialObjectMetadataList" => {
            out.message(1, |out| encode::message(out, of_list, &object["metadata"]));
            for item in object["items"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
            {
                out.message(2, |out| one(out, item));
            }
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
