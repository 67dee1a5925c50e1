//! What a JSON value may look like: one model for built-in types and for the
//! schemas that custom resource definitions bring at run time.
//!
//! A [`Schema`] is a tree whose leaves may refer to named types of a [`Types`]
//! registry. Code that walks values holds a [`SchemaRef`], a schema together
//! with the registry that resolves its references:
//!
//! ```
//! use sendo_apimachinery::schema::{ListType, Types};
//!
//! let types = Types::builtin();
//! let pod = types.kind("v1", "Pod").unwrap();
//! let ports = pod.field("spec").unwrap().field("containers").unwrap()
//!     .items().unwrap().field("ports").unwrap();
//! assert_eq!(
//!     ports.list_type(),
//!     Some(&ListType::Map(vec!["containerPort".into(), "protocol".into()])),
//! );
//! assert_eq!(ports.patch().merge_key.as_deref(), Some("containerPort"));
//! ```

use std::borrow::Cow;

use serde_json::Value;

mod go_names;
mod shown;
mod text;
mod types;
mod walk;

pub use go_names::GoName;
pub use shown::{show_as_go, show_as_stored};
pub use types::{TypeId, Types};
pub use walk::SchemaRef;

/// A name or value: borrowed from the committed facts, or made at run time.
pub type Text = Cow<'static, str>;

/// What is known of a value at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// What kind of value it is.
    pub shape: Shape,
    /// The value that an absent one is taken for.
    ///
    /// Built-in types name only defaults other than the zero value that Go's
    /// encoder shows anyway.
    pub default: Option<Value>,
    /// The only values allowed; empty if any is.
    pub allowed: Vec<Value>,
    /// Whether `null` is a value of its own rather than an absent one.
    pub nullable: bool,
    /// How maps and objects merge when applied; the type may say it as well.
    pub map_type: Option<MapType>,
    /// How a strategic merge patch treats the value.
    pub patch: PatchRule,
}

/// The kinds of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Any JSON, kept as it is.
    Any,
    /// `true` or `false`.
    Boolean,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// Text.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// An amount, as `100m` or `2Gi`; JSON may also give a number.
    Quantity,
    /// A whole number or text, as a port's number or name.
    IntOrString,
    /// A moment in whole seconds, RFC 3339 in JSON.
    Time,
    /// A moment in microseconds, RFC 3339 in JSON.
    MicroTime,
    /// JSON that its owner alone understands.
    Raw(Raw),
    /// A list.
    List(List),
    /// An object with arbitrary keys and values of one schema.
    Map(Box<Schema>),
    /// An object with named fields.
    Object(Box<Object>),
    /// A named type of the registry.
    Reference(TypeId),
}

/// The types that hold JSON of a form this model does not describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// `RawExtension`: an object of any kind.
    Extension,
    /// `FieldsV1`: the fields that a manager owns.
    Fields,
    /// `Patch`: the body of a patch.
    Patch,
    /// `JSON` of a custom resource definition's schema.
    Json,
    /// A schema, or a list of schemas.
    SchemaOrList,
    /// A schema, or whether anything is allowed.
    SchemaOrBool,
    /// A schema, or a list of property names.
    SchemaOrStrings,
}

/// A list's items, and how two lists merge when applied.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The schema of every item.
    pub items: Box<Schema>,
    /// What `x-kubernetes-list-type` says; absent means atomic.
    pub list_type: Option<ListType>,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects identified by the values of these fields.
    Map(Vec<Text>),
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Replaced as a whole.
    Atomic,
    /// Merged key by key.
    Granular,
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchRule {
    /// Merge a list's items rather than replace it.
    pub merge: bool,
    /// Fields that the patch does not name are removed when it lists those to keep.
    pub retain_keys: bool,
    /// Replace a value that would be merged by default.
    pub replace: bool,
    /// The field that identifies a list's items; none for lists of scalars.
    pub merge_key: Option<Text>,
}

/// An object with named fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// Sorted by name.
    fields: Vec<Field>,
    /// The beginnings of their names, in the same order.
    prefixes: Box<[u64]>,
    /// Indexes in `fields`, in the order of declaration.
    declared: Box<[u16]>,
    /// Indexes in `fields` of those that Go shows when they are absent.
    always_shown: Box<[u16]>,
    /// Whether fields that are not named here are kept.
    pub preserve_unknown_fields: bool,
    /// Whether it is a whole object with its own `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    /// `x-kubernetes-unions` as published: which fields exclude each other.
    pub unions: Option<Value>,
}

impl Object {
    /// An object with these fields, declared in this order.
    pub fn new(fields: Vec<Field>) -> Self {
        let mut numbered: Vec<_> = (0..).zip(fields).collect();
        numbered.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let mut declared = vec![0; numbered.len()].into_boxed_slice();
        for (index, (number, _)) in (0..).zip(&numbered) {
            declared[*number] = index;
        }
        let fields: Vec<Field> = numbered.into_iter().map(|(_, field)| field).collect();
        let indexed = (0..).zip(&fields);
        let always_shown = indexed.filter(|(_, field)| field.is_always_shown());
        Self {
            always_shown: always_shown.map(|(index, _)| index).collect(),
            prefixes: fields.iter().map(|field| prefix(&field.name)).collect(),
            fields,
            declared,
            ..Self::default()
        }
    }

    /// All fields in the order of declaration.
    pub fn declared(&self) -> impl Iterator<Item = &Field> {
        self.declared
            .iter()
            .map(|index| &self.fields[usize::from(*index)])
    }

    /// The fields that Go's encoder shows even when they are absent, sorted by name.
    pub fn always_shown(&self) -> impl Iterator<Item = &Field> {
        let indexes = self.always_shown.iter();
        indexes.map(|index| &self.fields[usize::from(*index)])
    }

    /// All fields, sorted by name.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let prefix = prefix(name);
        let first = self.prefixes.partition_point(|own| *own < prefix);
        let begin_so = self.prefixes[first..].iter().zip(&self.fields[first..]);
        begin_so
            .take_while(|(own, _)| **own == prefix)
            .map(|(_, field)| field)
            .find(|field| *field.name == *name)
    }
}

/// The first eight bytes of a name, as a number that sorts as names do.
///
/// A write looks up hundreds of fields. Comparing numbers instead of names takes a
/// fifth of the instructions: 5 % of a request for a pod.
fn prefix(name: &str) -> u64 {
    if let Some(first) = name.as_bytes().first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    u64::from_be_bytes(bytes)
}

/// A named field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in JSON.
    pub name: Text,
    /// What its value may be.
    pub schema: Schema,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    /// Whether Go distinguishes an absent value from a zero one.
    pub pointer: bool,
    /// What Go's encoder shows of an absent or empty value.
    pub empty: Empty,
    /// The numbers that lead to it in protobuf, through messages whose fields
    /// JSON shows in their parent; empty if protobuf does not carry it.
    pub number: Vec<u32>,
}

impl Field {
    /// A field that may be absent, as custom resources have them.
    pub fn new(name: impl Into<Text>, schema: Schema) -> Self {
        Self {
            name: name.into(),
            schema,
            required: false,
            pointer: true,
            empty: Empty::Omitted,
            number: Vec::new(),
        }
    }

    /// Whether Go's encoder shows it even when it is absent: it never takes a struct
    /// for empty, and knows an absent one only by a pointer.
    pub(crate) fn is_always_shown(&self) -> bool {
        match self.empty {
            Empty::Shown => true,
            Empty::OmittedIfZero => false,
            Empty::Omitted => !self.pointer && self.schema.shape.is_struct(),
        }
    }
}

/// What Go's encoder shows of an absent or empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// Nothing, unless it is an object that is no pointer, which is always shown.
    Omitted,
    /// The zero value, or `null` for lists, maps and pointers.
    Shown,
    /// Nothing, even for an object that is no pointer.
    OmittedIfZero,
}

impl Shape {
    /// Whether Go has a struct for it, as every named type is one.
    fn is_struct(&self) -> bool {
        match self {
            Shape::Object(_)
            | Shape::Quantity
            | Shape::IntOrString
            | Shape::Time
            | Shape::MicroTime
            | Shape::Raw(_)
            | Shape::Reference(_) => true,
            Shape::Any
            | Shape::Boolean
            | Shape::Int32
            | Shape::Int64
            | Shape::Double
            | Shape::String
            | Shape::Bytes
            | Shape::List(_)
            | Shape::Map(_) => false,
        }
    }
}

impl Schema {
    /// A schema that says nothing but the shape.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            default: None,
            allowed: Vec::new(),
            nullable: false,
            map_type: None,
            patch: PatchRule::default(),
        }
    }

    /// A list of these items that is replaced as a whole.
    pub fn list(items: Schema) -> Self {
        Self::new(Shape::List(List {
            items: Box::new(items),
            list_type: None,
        }))
    }

    /// A map of these values.
    pub fn map(values: Schema) -> Self {
        Self::new(Shape::Map(Box::new(values)))
    }

    /// An object with these fields.
    pub fn object(fields: Vec<Field>) -> Self {
        Self::new(Shape::Object(Box::new(Object::new(fields))))
    }
}
