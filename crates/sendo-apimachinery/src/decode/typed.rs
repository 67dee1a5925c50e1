//! Values of known types: read the way Go reads them into its structs.

use serde_json::{Map, Value};

use super::document::{Cursor, Items, MAX_DEPTH, Members, ValueView};
use super::problems::Problems;
use super::scalars::{self, ScalarError};
use super::untyped;
use crate::schema::{Empty, Field, GoName, Raw, SchemaRef, Shape};

/// A value that was read, and what was unknown or there twice.
pub(super) struct Typed {
    pub(super) value: Value,
    pub(super) problems: Problems,
}

/// Reads a value of a type.
///
/// Unknown fields are left out, nulls are as good as absent, numbers, times and
/// amounts get their canonical form. The first value of a wrong type is the error.
pub(super) fn read(source: Cursor<'_>, schema: SchemaRef<'_>) -> Result<Typed, String> {
    let mut reader = Reader {
        problems: Problems::default(),
        root: schema,
        fields: Vec::new(),
        wrong_type: None,
    };
    let value = reader.value(source, schema, Value::Null, type_name(schema), 0)?;
    match reader.wrong_type {
        Some(error) => Err(error),
        None => Ok(Typed {
            value: value.unwrap_or(Value::Null),
            problems: reader.problems,
        }),
    }
}

struct Reader<'s> {
    problems: Problems,
    root: SchemaRef<'s>,
    /// The names of the fields that lead from the root to here.
    fields: Vec<&'s str>,
    /// The first value of a wrong type. Go reads on behind it, so that a fault
    /// which ends decoding at once is reported instead.
    wrong_type: Option<String>,
}

impl<'s> Reader<'s> {
    /// Reads a value; `None` if it is null or of a wrong type.
    ///
    /// `so_far` is what an earlier field of the same name held: objects grow,
    /// everything else is replaced. `owner` is the struct that holds the value.
    fn value(
        &mut self,
        source: Cursor<'_>,
        schema: SchemaRef<'s>,
        so_far: Value,
        owner: &str,
        depth: usize,
    ) -> Result<Option<Value>, String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let look = source.look();
        if let ValueView::Null = look {
            return Ok(None);
        }
        match (schema.shape(), look) {
            (Shape::Any, _) => untyped::take(source, &mut self.problems, depth).map(Some),
            (Shape::Raw(raw), _) => self.raw(*raw, source, schema, owner, depth),
            (Shape::Object(_), ValueView::Map(members)) => {
                self.object(members, schema, so_far, depth).map(Some)
            }
            (Shape::Map(_), ValueView::Map(members)) => {
                self.map(members, schema, so_far, owner, depth).map(Some)
            }
            (Shape::List(_), ValueView::List(items)) => {
                self.list(items, schema, owner, depth).map(Some)
            }
            (shape, look) => match scalars::read(shape, &look) {
                Ok(value) => Ok(value),
                Err(ScalarError::WrongType { value, go_type }) => {
                    let go_type = go_type.unwrap_or_else(|| self.go_type_here(schema));
                    self.wrong_type(&value, &go_type, owner);
                    Ok(None)
                }
                Err(ScalarError::Unreadable(error)) => Err(error),
                Err(ScalarError::UnreadableType { value, go_type }) => {
                    Err(self.type_error(&value, go_type, owner))
                }
            },
        }
    }

    fn object(
        &mut self,
        members: Members<'_>,
        schema: SchemaRef<'s>,
        so_far: Value,
        depth: usize,
    ) -> Result<Value, String> {
        let owner = type_name(schema);
        let mut object = match so_far {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        let Some(known) = schema.object() else {
            return Ok(Value::Object(object));
        };
        let grows = !object.is_empty();
        let mut seen = Vec::new();
        for (name, member) in members {
            let Some(field) = known.field(name) else {
                if known.preserve_unknown_fields {
                    let value = untyped::take(member, &mut self.problems, depth + 1)?;
                    object.insert(name.to_owned(), value);
                } else {
                    self.problems.unknown(name);
                }
                continue;
            };
            let is_repeated = seen.iter().any(|known| std::ptr::eq(*known, field));
            if is_repeated {
                self.problems.duplicate(name);
            }
            seen.push(field);
            let before = match is_repeated || grows {
                true => object.remove(name),
                false => None,
            };
            let outer = self.problems.enter(name);
            self.fields.push(&field.name);
            let place = schema.at(&field.schema);
            let value = self.value(member, place, before.unwrap_or_default(), owner, depth + 1)?;
            self.fields.pop();
            self.problems.leave(outer);
            if let Some(value) = value.filter(|value| !is_left_out(owner, field, value)) {
                object.insert(name.to_owned(), value);
            }
        }
        Ok(Value::Object(object))
    }

    fn map(
        &mut self,
        members: Members<'_>,
        schema: SchemaRef<'s>,
        so_far: Value,
        owner: &str,
        depth: usize,
    ) -> Result<Value, String> {
        let mut map = match so_far {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let Some(values) = schema.values() else {
            return Ok(Value::Object(map));
        };
        let mut earlier = std::mem::take(&mut map);
        for (name, member) in members {
            if map.contains_key(name) {
                self.problems.duplicate(name);
            }
            earlier.remove(name);
            let outer = self.problems.enter(name);
            let value = self.value(member, values, Value::Null, owner, depth + 1)?;
            self.problems.leave(outer);
            map.insert(name.to_owned(), value.unwrap_or_else(|| zero(values)));
        }
        map.append(&mut earlier);
        Ok(Value::Object(map))
    }

    fn list(
        &mut self,
        items: Items<'_>,
        schema: SchemaRef<'s>,
        owner: &str,
        depth: usize,
    ) -> Result<Value, String> {
        let Some(item_schema) = schema.items() else {
            return Ok(Value::Array(Vec::new()));
        };
        let mut list = Vec::new();
        for (i, item) in items.enumerate() {
            let outer = self.problems.enter_item(i);
            let value = self.value(item, item_schema, Value::Null, owner, depth + 1)?;
            self.problems.leave(outer);
            list.push(value.unwrap_or_else(|| zero(item_schema)));
        }
        Ok(Value::Array(list))
    }

    /// Types with readers of their own, which tell nothing of what they do not know.
    fn raw(
        &mut self,
        raw: Raw,
        source: Cursor<'_>,
        schema: SchemaRef<'s>,
        owner: &str,
        depth: usize,
    ) -> Result<Option<Value>, String> {
        let mut unheard = Problems::default();
        let schemas = schema.types().named(JSON_SCHEMA);
        match (raw, source.look()) {
            (Raw::SchemaOrList | Raw::SchemaOrStrings, ValueView::List(items)) => {
                let mut list = Vec::new();
                for item in items {
                    list.push(self.schema_or_other(item, schemas, owner, depth + 1)?);
                }
                Ok(Some(Value::Array(list)))
            }
            (Raw::SchemaOrList | Raw::SchemaOrBool | Raw::SchemaOrStrings, _) => self
                .schema_or_other(source, schemas, owner, depth)
                .map(Some),
            (Raw::Extension | Raw::Fields | Raw::Patch | Raw::Json, _) => {
                untyped::take(source, &mut unheard, depth).map(Some)
            }
        }
    }

    fn schema_or_other(
        &mut self,
        source: Cursor<'_>,
        schemas: Option<SchemaRef<'s>>,
        owner: &str,
        depth: usize,
    ) -> Result<Value, String> {
        let heard = std::mem::take(&mut self.problems);
        let value = match (source.look(), schemas) {
            (ValueView::Map(_), Some(schema)) => {
                self.value(source, schema, Value::Null, owner, depth)
            }
            _ => untyped::take(source, &mut self.problems, depth).map(Some),
        };
        self.problems = heard;
        Ok(value?.unwrap_or(Value::Null))
    }

    fn wrong_type(&mut self, value: &str, go_type: &str, owner: &str) {
        if self.wrong_type.is_none() {
            self.wrong_type = Some(self.type_error(value, go_type, owner));
        }
    }

    fn type_error(&self, value: &str, go_type: &str, owner: &str) -> String {
        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {value} into Go value of type {go_type}");
        }
        let mut path = String::new();
        for (_, name, field) in self.way() {
            path.extend(name.embedded.iter().flat_map(|embedded| [".", embedded]));
            path.extend([".", field]);
        }
        format!(
            "json: cannot unmarshal {value} into Go struct field {owner}{path} of type {go_type}"
        )
    }

    /// The fields that lead here, each with its schema and what Go calls it.
    fn way(&self) -> impl Iterator<Item = (SchemaRef<'s>, GoName, &'s str)> {
        let mut place = self.root;
        self.fields.iter().map(move |field| {
            while let Some(inner) = place.items().or_else(|| place.values()) {
                place = inner;
            }
            let name = match place.type_id() {
                Some(id) => GoName::for_field(&place.types().name(id), field),
                None => GoName::default(),
            };
            place = place.field(field).unwrap_or(place);
            (place, name, *field)
        })
    }

    /// The Go type of a value at the last field, or in the lists and maps it holds.
    fn go_type_here(&self, schema: SchemaRef<'s>) -> String {
        let plain = go_type_of(schema);
        let Some((
            field,
            GoName {
                go_type: Some(named),
                ..
            },
            _,
        )) = self.way().last()
        else {
            return plain;
        };
        let of_field = go_type_of(field);
        let layers = of_field.strip_suffix(&*plain).unwrap_or_default();
        let inner = layers.matches(']').try_fold(named, |named, _| {
            let (_, inner) = named.split_once(']')?;
            Some(inner.trim_start_matches('*'))
        });
        inner.map_or(plain, str::to_owned)
    }
}

const JSON_SCHEMA: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// The fields, each with its type, where an empty list differs from none: an empty list of
/// managed fields removes all of them, one of policies takes no default.
const EMPTY_DIFFERS: [(&str, &str); 2] = [
    ("HPAScalingRules", "policies"),
    ("ObjectMeta", "managedFields"),
];

/// Whether Go's next encoding leaves a value of a type's field out, so that it is as good as absent.
fn is_left_out(owner: &str, field: &Field, value: &Value) -> bool {
    let empty = match value {
        Value::Array(items) => items.is_empty() && !matches!(field.schema.shape, Shape::Raw(_)),
        Value::Object(members) => members.is_empty() && matches!(field.schema.shape, Shape::Map(_)),
        _ => return false,
    };
    empty
        && !field.pointer
        && field.empty != Empty::Shown
        && !EMPTY_DIFFERS.contains(&(owner, field.name.as_ref()))
}

/// The value of an item or entry that is null.
fn zero(schema: SchemaRef<'_>) -> Value {
    match schema.shape() {
        Shape::Boolean => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 0.into(),
        Shape::String => "".into(),
        Shape::Quantity => "0".into(),
        Shape::Object(_) => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

/// The name of a struct in Go, without its package.
fn type_name(schema: SchemaRef<'_>) -> &'static str {
    let id = schema.type_id();
    id.map_or("", |id| schema.types().short_name(id))
}

/// The name of a type in Go, with its package.
fn go_type_of(schema: SchemaRef<'_>) -> String {
    match schema.shape() {
        Shape::Any | Shape::Raw(_) | Shape::Reference(_) => "interface {}".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Double => "float64".to_owned(),
        Shape::String => "string".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::List(_) => {
            let items = schema.items().map(go_type_of).unwrap_or_default();
            format!("[]{items}")
        }
        Shape::Map(_) => {
            let values = schema.values().map(go_type_of).unwrap_or_default();
            format!("map[string]{values}")
        }
        Shape::Object(_) => {
            let full = schema
                .type_id()
                .map(|id| schema.types().name(id))
                .unwrap_or_default();
            let mut parts = full.rsplit('.');
            let name = parts.next().unwrap_or_default();
            format!("{}.{name}", parts.next().unwrap_or_default())
        }
    }
}
