//! Objects that expressions make, as `Object.spec{replicas: 1}` and `JSONPatch{op: 'test'}`.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/cel/mutation/typeresolver.go`
//! - `staging/src/k8s.io/apiserver/pkg/cel/mutation/jsonpatch.go`
//! - `staging/src/k8s.io/apiserver/pkg/cel/mutation/dynamic/objects.go`: `CheckTypeNamesMatchFieldPathNames`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Value;
use crate::cel::types::Type;
use crate::go_text::go_quote;

/// The type of an apply configuration; those of its parts begin with it and a dot.
pub const OBJECT: &str = "Object";
/// The type of an operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";

/// An object that an expression has made.
#[derive(Clone, Debug)]
pub struct Made<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// Its fields.
    pub fields: BTreeMap<String, Value<'a>>,
}

/// Whether a name is that of a type whose objects expressions can make.
pub(in crate::cel) fn is_made(name: &str) -> bool {
    let below = name.strip_prefix(OBJECT).unwrap_or(".");
    name == JSON_PATCH || below.is_empty() || (name.starts_with(OBJECT) && below.starts_with('.'))
}

/// The type of a field of such an object.
pub(in crate::cel) fn field_type(of: &str, field: &str) -> Option<Type> {
    match (of, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(Type::Text),
        (JSON_PATCH, "value") => Some(Type::Dyn),
        (JSON_PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}

impl Made<'_> {
    /// Says which objects in it are of a type that is not named after the way to them.
    pub fn check_type_names(&self) -> Result<(), String> {
        let mut faults = Vec::new();
        check_object(self, &self.name, &mut faults);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults.join("\n")),
        }
    }
}

fn check_object(made: &Made<'_>, way: &str, faults: &mut Vec<String>) {
    if &*made.name != way {
        let (found, expected) = (go_quote(&made.name), go_quote(way));
        faults.push(format!(
            "unexpected type name {found}, expected {expected}, which matches field name path from root Object type"
        ));
    }
    for (field, value) in &made.fields {
        check_value(value, &format!("{way}.{field}"), faults);
    }
}

fn check_value(value: &Value<'_>, way: &str, faults: &mut Vec<String>) {
    match value {
        Value::Made(made) => check_object(made, way, faults),
        Value::List(list) => {
            for item in list.iter().filter_map(Result::ok) {
                check_value(&item, way, faults);
            }
        }
        Value::Map(map) => {
            for (_, value) in map.entries().filter_map(Result::ok) {
                check_value(&value, way, faults);
            }
        }
        _ => {}
    }
}
