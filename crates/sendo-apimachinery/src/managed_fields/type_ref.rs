//! What apply has to know of a value's type: whether it is one piece, and what lies below it.

use serde_json::{Map, Value};

use super::element::PathElement;
use crate::schema::{Empty, ListType, Raw, SchemaRef, Shape};

/// The type of a value in an object, as structured-merge-diff's `TypeRef`.
#[derive(Clone, Copy)]
pub(super) enum TypeRef<'s> {
    /// Described by a schema.
    Typed {
        schema: SchemaRef<'s>,
        /// Whether an object above keeps members that no schema describes.
        keeps_unknown: bool,
    },
    /// Without a schema: the type is that of the value; lists are atomic, objects are not.
    Deduced,
    /// Atomic, whatever the value is.
    Opaque,
}

/// How a value is taken apart.
#[derive(Clone, Copy)]
pub(super) enum Shaped<'s> {
    /// A single value.
    Scalar(Scalar),
    /// A list.
    List(ListOf<'s>),
    /// An object or map.
    Map(MapOf<'s>),
}

/// The types of single values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    Text,
    Boolean,
    Any,
}

#[derive(Clone, Copy)]
pub(super) struct ListOf<'s> {
    pub(super) items: TypeRef<'s>,
    relation: Relation<'s>,
}

#[derive(Clone, Copy)]
enum Relation<'s> {
    Atomic,
    Set,
    Map(&'s [crate::schema::Text]),
}

#[derive(Clone, Copy)]
pub(super) struct MapOf<'s> {
    pub(super) is_atomic: bool,
    type_ref: TypeRef<'s>,
}

/// A member's place, and whether the object's type names it.
pub(super) struct Member<'s> {
    pub(super) type_ref: TypeRef<'s>,
    pub(super) is_declared: bool,
}

impl<'s> TypeRef<'s> {
    pub(super) fn root(schema: SchemaRef<'s>) -> Self {
        TypeRef::Typed {
            schema,
            keeps_unknown: false,
        }
    }

    /// How a value here is taken apart. Where the type leaves it open the value decides.
    pub(super) fn shaped(self, value: Option<&Value>) -> Shaped<'s> {
        let TypeRef::Typed { schema, .. } = self else {
            return self.by_value(value);
        };
        match schema.shape() {
            Shape::Boolean => Shaped::Scalar(Scalar::Boolean),
            Shape::Int32 | Shape::Int64 | Shape::Double => Shaped::Scalar(Scalar::Number),
            Shape::String | Shape::Bytes => Shaped::Scalar(Scalar::Text),
            Shape::Quantity | Shape::Time | Shape::MicroTime => Shaped::Scalar(Scalar::Any),
            Shape::List(_) => Shaped::List(self.list(schema)),
            Shape::Map(_) | Shape::Object(_) => Shaped::Map(MapOf {
                is_atomic: schema.is_atomic(),
                type_ref: self,
            }),
            Shape::Raw(Raw::Extension) => TypeRef::Opaque.by_value(value),
            Shape::Any | Shape::IntOrString | Shape::Raw(_) | Shape::Reference(_) => {
                TypeRef::Deduced.by_value(value)
            }
        }
    }

    fn by_value(self, value: Option<&Value>) -> Shaped<'s> {
        let is_atomic = matches!(self, TypeRef::Opaque);
        match value {
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                Shaped::Scalar(Scalar::Any)
            }
            Some(Value::Array(_)) => Shaped::List(ListOf {
                items: TypeRef::Opaque,
                relation: Relation::Atomic,
            }),
            None | Some(Value::Null | Value::Object(_)) => Shaped::Map(MapOf {
                is_atomic,
                type_ref: self,
            }),
        }
    }

    fn list(self, schema: SchemaRef<'s>) -> ListOf<'s> {
        let items = schema
            .items()
            .map_or(TypeRef::Opaque, |items| self.below(items));
        let relation = match schema.list_type() {
            Some(ListType::Set) => Relation::Set,
            Some(ListType::Map(keys)) => Relation::Map(keys),
            Some(ListType::Atomic) | None => Relation::Atomic,
        };
        ListOf { items, relation }
    }

    fn below(self, schema: SchemaRef<'s>) -> TypeRef<'s> {
        // A type with a name of its own says itself what it keeps.
        let keeps_unknown = self.keeps_unknown() && schema.type_id().is_none();
        TypeRef::Typed {
            schema,
            keeps_unknown,
        }
    }

    fn keeps_unknown(self) -> bool {
        match self {
            TypeRef::Typed {
                schema,
                keeps_unknown,
            } => keeps_unknown || schema.object().is_some_and(|o| o.preserve_unknown_fields),
            TypeRef::Deduced | TypeRef::Opaque => true,
        }
    }
}

impl<'s> Shaped<'s> {
    /// Whether two values of one place are taken apart in the same way.
    pub(super) fn is_like(&self, other: &Shaped<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'s> MapOf<'s> {
    /// A member's place. `None` if there is no such member.
    pub(super) fn member(&self, name: &str) -> Option<Member<'s>> {
        let undeclared = |type_ref| {
            Some(Member {
                type_ref,
                is_declared: false,
            })
        };
        let TypeRef::Typed { schema, .. } = self.type_ref else {
            return undeclared(self.type_ref);
        };
        if let Some(field) = schema.field(name) {
            return Some(Member {
                type_ref: self.type_ref.below(field),
                is_declared: true,
            });
        }
        if let Some(values) = schema.values() {
            return undeclared(self.type_ref.below(values));
        }
        // An object of which no member is described may have any.
        let open = self.type_ref.keeps_unknown() || schema.fields().is_empty();
        if open {
            undeclared(TypeRef::Deduced)
        } else {
            None
        }
    }

    /// A member's place, whatever it is: one that is not described is what its value is.
    pub(super) fn member_or_deduced(&self, name: &str) -> Member<'s> {
        self.member(name).unwrap_or(Member {
            type_ref: TypeRef::Deduced,
            is_declared: false,
        })
    }

    /// Whether its members are what their values are.
    pub(super) fn is_deduced(&self) -> bool {
        match self.type_ref {
            TypeRef::Deduced => true,
            TypeRef::Typed { schema, .. } => {
                !matches!(schema.shape(), Shape::Map(_) | Shape::Object(_))
            }
            TypeRef::Opaque => false,
        }
    }
}

impl ListOf<'_> {
    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.relation, Relation::Atomic)
    }

    /// What identifies an item.
    pub(super) fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null"
                        .to_owned(),
                ),
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
            Relation::Map(keys) => self.key(keys, item),
        }
    }

    fn key(&self, keys: &[crate::schema::Text], item: &Value) -> Result<PathElement, String> {
        let members = match item {
            Value::Object(members) => members,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let present = keys.iter().filter_map(|key| {
            let value = members
                .get(key.as_ref())
                .cloned()
                .or_else(|| self.key_default(key))?;
            Some((key.clone().into_owned(), value))
        });
        let present: Vec<(String, Value)> = present.collect();
        if present.is_empty() && !keys.is_empty() {
            let names: Vec<String> = keys.iter().map(|key| crate::go_quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        Ok(PathElement::key(present))
    }

    /// What a key that an item leaves out is taken for: its default, or the
    /// zero value where Go always has one.
    fn key_default(&self, key: &str) -> Option<Value> {
        let TypeRef::Typed { schema, .. } = self.items else {
            return None;
        };
        let field = schema.object()?.field(key)?;
        if let Some(default) = &field.schema.default {
            return Some(default.clone());
        }
        let always_there = field.empty == Empty::Shown && !field.pointer;
        match field.schema.shape {
            Shape::String if always_there => Some("".into()),
            Shape::Int32 | Shape::Int64 if always_there => Some(0.into()),
            Shape::Boolean if always_there => Some(false.into()),
            _ => None,
        }
    }
}

/// The members of a value; none for null and for what is no object.
pub(super) fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The items of a value; none for null and for what is no list.
pub(super) fn items(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}
