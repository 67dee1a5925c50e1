//! Reads the committed facts about types.
//!
//! ```text
//! package io.k8s.api.core.v1
//! type ContainerPort
//!  containerPort 3 int32 required always
//!  protocol 4 string default="TCP" enum=SCTP,TCP,UDP
//! ```

use serde_json::Value;

use super::{
    Empty, Field, List, ListType, MapType, Object, PatchRule, Raw, Schema, Shape, Text, TypeId,
};

pub(super) const TYPES: &str = include_str!("../../facts/types.txt");

/// Name and attributes from the first line of a type's block.
pub(super) fn heading(block: &'static str) -> (&'static str, &'static str) {
    let line = block.split('\n').next().unwrap_or_default();
    line.split_once(' ').unwrap_or((line, ""))
}

/// The package that begins after a block: its last line, if it names one.
pub(super) fn next_package(block: &'static str) -> Option<&'static str> {
    block.rsplit('\n').next()?.strip_prefix("package ")
}

/// The value of `key=value` among words.
pub(super) fn attribute(words: &'static str, key: &str) -> Option<&'static str> {
    words
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// The schema of a type's block; `resolve` finds the types it refers to.
pub(super) fn read_type(block: &'static str, resolve: &dyn Fn(&str) -> Option<TypeId>) -> Schema {
    let (_, attributes) = heading(block);
    let lines = block
        .split('\n')
        .skip(1)
        .filter_map(|line| line.strip_prefix(' '));
    let mut object = Object::new(lines.map(|line| read_field(line, resolve)).collect());
    object.unions = attribute(attributes, "unions").map(read_json);
    let mut schema = Schema::new(Shape::Object(Box::new(object)));
    schema.map_type = attribute(attributes, "map").map(read_map_type);
    schema
}

fn read_field(line: &'static str, resolve: &dyn Fn(&str) -> Option<TypeId>) -> Field {
    // The values of an enumeration end the line, for they may have spaces.
    let (line, allowed) = line.split_once(" enum=").unwrap_or((line, ""));
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (name, number, shape) = (word(), word(), word());
    let mut field = Field {
        name: Text::Borrowed(name),
        schema: Schema::new(read_shape(shape, resolve)),
        required: false,
        pointer: false,
        empty: Empty::Omitted,
        number: number
            .split('.')
            .filter_map(|number| number.parse().ok())
            .collect(),
    };
    let mut list_type = None;
    let mut keys = Vec::new();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("required", _) => field.required = true,
            ("pointer", _) => field.pointer = true,
            ("always", _) => field.empty = Empty::Shown,
            ("omitzero", _) => field.empty = Empty::OmittedIfZero,
            ("default", json) => field.schema.default = Some(read_json(json)),
            ("map", word) => field.schema.map_type = Some(read_map_type(word)),
            ("list", word) => list_type = Some(word),
            ("keys", names) => keys = names.split(',').map(Text::Borrowed).collect(),
            ("patch", words) => read_patch(words, &mut field.schema.patch),
            ("merge-key", name) => field.schema.patch.merge_key = Some(Text::Borrowed(name)),
            ("enum", names) => {
                allow(
                    &mut field.schema,
                    names.split(',').map(Value::from).collect(),
                );
            }
            _ => unreachable!("unknown fact of a field: {word}"),
        }
    }
    if !allowed.is_empty() {
        allow(
            &mut field.schema,
            allowed.split(',').map(Value::from).collect(),
        );
    }
    if let Shape::List(list) = &mut field.schema.shape {
        list.list_type = list_type.map(|word| match word {
            "atomic" => ListType::Atomic,
            "set" => ListType::Set,
            "map" => ListType::Map(keys),
            _ => unreachable!("unknown list type: {word}"),
        });
    }
    field
}

fn read_shape(word: &'static str, resolve: &dyn Fn(&str) -> Option<TypeId>) -> Shape {
    if let Some(items) = word.strip_prefix("[]") {
        let items = Box::new(Schema::new(read_shape(items, resolve)));
        return Shape::List(List {
            items,
            list_type: None,
        });
    }
    if let Some(values) = word.strip_prefix("{}") {
        return Shape::Map(Box::new(Schema::new(read_shape(values, resolve))));
    }
    match word {
        "bool" => Shape::Boolean,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "double" => Shape::Double,
        "string" => Shape::String,
        "bytes" => Shape::Bytes,
        "quantity" => Shape::Quantity,
        "int-or-string" => Shape::IntOrString,
        "time" => Shape::Time,
        "micro-time" => Shape::MicroTime,
        "extension" => Shape::Raw(Raw::Extension),
        "fields" => Shape::Raw(Raw::Fields),
        "patch" => Shape::Raw(Raw::Patch),
        "json" => Shape::Raw(Raw::Json),
        "props-or-array" => Shape::Raw(Raw::SchemaOrList),
        "props-or-bool" => Shape::Raw(Raw::SchemaOrBool),
        "props-or-strings" => Shape::Raw(Raw::SchemaOrStrings),
        name => match resolve(name) {
            Some(id) => Shape::Reference(id),
            None => unreachable!("unknown type: {name}"),
        },
    }
}

/// The values of an enumeration are those of a list's items or a map's values.
fn allow(schema: &mut Schema, values: Vec<Value>) {
    match &mut schema.shape {
        Shape::List(list) => allow(&mut list.items, values),
        Shape::Map(elements) => allow(elements, values),
        _ => schema.allowed = values,
    }
}

fn read_patch(words: &str, rule: &mut PatchRule) {
    for word in words.split(',') {
        match word {
            "merge" => rule.merge = true,
            "retainKeys" => rule.retain_keys = true,
            "replace" => rule.replace = true,
            _ => unreachable!("unknown patch strategy: {word}"),
        }
    }
}

fn read_map_type(word: &str) -> MapType {
    match word {
        "atomic" => MapType::Atomic,
        "granular" => MapType::Granular,
        _ => unreachable!("unknown map type: {word}"),
    }
}

fn read_json(text: &str) -> Value {
    serde_json::from_str(text).expect("facts hold well-formed JSON")
}
