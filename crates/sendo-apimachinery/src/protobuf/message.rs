//! From a message to a JSON object, field by field.

use serde_json::{Map, Value};

use super::Error;
use super::value::{Decoder, unexpected};
use super::wire::{Content, Reader};
use crate::schema::{Field, SchemaRef, Shape};

/// Deeper than any object nests, shallow enough for any stack.
const DEPTH: usize = 100;

/// Decodes a message of an object type. Only what the bytes hold is there.
pub(super) fn decode(schema: SchemaRef<'_>, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let mut object = Map::new();
    Decoder { depth: DEPTH }.message(schema, &[], bytes, &mut object)?;
    Ok(object)
}

impl Decoder {
    /// Adds a message's fields to an object.
    ///
    /// `inlined` leads from the object's own message to this one, whose fields
    /// JSON shows in the same object; it is empty for the object's own.
    pub(super) fn message(
        self,
        schema: SchemaRef<'_>,
        inlined: &[u32],
        bytes: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let below = self.below()?;
        let mut reader = Reader::new(bytes);
        while let Some((number, content)) = reader.field()? {
            let path = [inlined, &[number]].concat();
            let mut fields = schema.fields().iter();
            match fields.find(|field| field.number.starts_with(&path)) {
                Some(field) if field.number == path => {
                    below.field(schema.at(&field.schema), field, content, object)?;
                }
                Some(field) => match content {
                    Content::Bytes(bytes) => below.message(schema, &path, bytes, object)?,
                    other => return Err(unexpected(&field.name, other)),
                },
                None => {}
            }
        }
        Ok(())
    }

    fn field(
        self,
        schema: SchemaRef<'_>,
        field: &Field,
        content: Content<'_>,
        object: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let name = field.name.as_ref();
        match schema.shape() {
            Shape::List(list) => {
                let items = entry(object, name, Value::Array(Vec::new()));
                let items = items.as_array_mut().expect("a list field holds a list");
                self.items(schema.at(&list.items), name, content, items)
            }
            Shape::Map(values) => {
                let entries = entry(object, name, Value::Object(Map::new()));
                let entries = entries
                    .as_object_mut()
                    .expect("a map field holds an object");
                let (key, value) = self.entry(schema.at(values), name, content)?;
                entries.insert(key, value);
                Ok(())
            }
            // A message that comes twice is merged, as protobuf demands.
            Shape::Object(_) => {
                let Content::Bytes(bytes) = content else {
                    return Err(unexpected(name, content));
                };
                let inner = entry(object, name, Value::Object(Map::new()));
                let inner = inner
                    .as_object_mut()
                    .expect("an object field holds an object");
                self.message(schema, &[], bytes, inner)
            }
            _ => {
                let value = self.value(schema, name, content)?;
                object.insert(name.to_owned(), value);
                Ok(())
            }
        }
    }

    /// Adds to a list: one item, or many numbers packed together.
    pub(super) fn items(
        self,
        schema: SchemaRef<'_>,
        name: &str,
        content: Content<'_>,
        items: &mut Vec<Value>,
    ) -> Result<(), Error> {
        let shape = schema.shape();
        let numbers = matches!(
            shape,
            Shape::Boolean | Shape::Int32 | Shape::Int64 | Shape::Double
        );
        let (true, Content::Bytes(packed)) = (numbers, content) else {
            items.push(self.value(schema, name, content)?);
            return Ok(());
        };
        let mut reader = Reader::new(packed);
        while !reader.is_empty() {
            let content = match shape {
                Shape::Double => Content::Fixed64(reader.fixed64()?),
                _ => Content::Varint(reader.varint()?),
            };
            items.push(self.value(schema, name, content)?);
        }
        Ok(())
    }

    /// A map's entry is a message of key and value, either of which may be
    /// absent when it is the zero value.
    fn entry(
        self,
        schema: SchemaRef<'_>,
        name: &str,
        content: Content<'_>,
    ) -> Result<(String, Value), Error> {
        let Content::Bytes(bytes) = content else {
            return Err(unexpected(name, content));
        };
        let mut key = String::new();
        let mut value = self.empty(schema);
        let mut reader = Reader::new(bytes);
        while let Some((number, content)) = reader.field()? {
            match (number, content) {
                (1, Content::Bytes(bytes)) => key = String::from_utf8_lossy(bytes).into_owned(),
                (1, other) => return Err(unexpected(name, other)),
                (2, content) => value = self.value(schema, name, content)?,
                _ => {}
            }
        }
        Ok((key, value))
    }
}

fn entry<'a>(object: &'a mut Map<String, Value>, name: &str, empty: Value) -> &'a mut Value {
    object.entry(name).or_insert(empty)
}
