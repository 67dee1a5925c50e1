//! JSON patches (RFC 6902).

use serde_json::{Map, Value};

use super::merge::json_type;
use crate::{Status, go_quote};

/// The most operations a patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that all copies of a patch may add up to.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// What the fault of a test that does not hold ends with.
const TEST_FAILED: &str = "test failed";

/// A JSON patch (RFC 6902), as Kubernetes understands it.
///
/// It differs from the RFC where real servers do: `replace` of an absent member
/// adds it, `copy` of an absent one copies null, `test` of an absent one
/// against null holds, and negative indexes count from the end.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
    unknown_fields: Vec<String>,
}

/// Why a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchFault {
    /// The object is not as the patch tests that it is.
    TestFailed(String),
    /// An operation does not apply.
    Inapplicable(String),
}

/// Why an operation does not apply, in the words of the library that Kubernetes uses.
struct Inapplicable(String);

impl Inapplicable {
    fn new(why: impl Into<String>) -> Self {
        Inapplicable(why.into())
    }

    /// The path of an operation leads nowhere.
    fn missing(operation: &str, what: &str, path: &str) -> Self {
        Inapplicable(format!(
            "{operation} operation does not apply: {what}: {path}: missing value"
        ))
    }

    fn index(index: i64) -> Self {
        Inapplicable(format!(
            "Unable to access invalid index: {index}: invalid index referenced"
        ))
    }

    /// The same for an operation at a path.
    fn within(self, context: impl std::fmt::Display) -> Self {
        Inapplicable(format!("{context}: {}", self.0))
    }
}

type Applied<T = ()> = Result<T, Inapplicable>;

impl JsonPatch {
    /// Reads the body of a patch: a list of operations, or null for none.
    pub fn from_body(body: Value) -> Result<Self, Status> {
        let items = match body {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            other => {
                return Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                    json_type(&other)
                )));
            }
        };
        let mut operations = Vec::with_capacity(items.len());
        let mut unknown_fields = Vec::new();
        for (i, item) in items.into_iter().enumerate() {
            let operation = match item {
                Value::Object(operation) => operation,
                Value::Null => Map::new(),
                other => {
                    return Err(Status::bad_request(format!(
                        "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                        json_type(&other)
                    )));
                }
            };
            for (name, value) in &operation {
                match name.as_str() {
                    "op" | "path" | "from" if !value.is_string() && !value.is_null() => {
                        return Err(Status::bad_request(format!(
                            "error decoding patch: json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                            json_type(value)
                        )));
                    }
                    "op" | "path" | "from" | "value" => {}
                    _ => unknown_fields.push(format!("[{i}].{name}")),
                }
            }
            operations.push(operation);
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(Status::request_entity_too_large(format_args!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok(JsonPatch {
            operations,
            unknown_fields,
        })
    }

    /// Paths of members that no operation has, as `[0].note`.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown_fields
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Applies all operations in turn. If one fails the object is left half changed:
    /// the caller throws it away.
    pub fn apply(&self, object: &mut Value) -> Result<(), Status> {
        let applied = self.apply_or_explain(object);
        applied.map_err(|_| Status::unprocessable())
    }

    /// The same; a failure says which operation does not apply, and why.
    pub fn apply_or_explain(&self, object: &mut Value) -> Result<(), String> {
        let applied = self.apply_or_fault(object);
        applied.map_err(|(PatchFault::TestFailed(why) | PatchFault::Inapplicable(why))| why)
    }

    /// The same; a failure says whether only a test did not hold.
    pub fn apply_or_fault(&self, object: &mut Value) -> Result<(), PatchFault> {
        let mut copied = 0;
        for operation in &self.operations {
            let applied = apply(object, operation, &mut copied);
            applied.map_err(|Inapplicable(why)| match why.ends_with(TEST_FAILED) {
                true => PatchFault::TestFailed(why),
                false => PatchFault::Inapplicable(why),
            })?;
        }
        Ok(())
    }
}

fn apply(object: &mut Value, operation: &Map<String, Value>, copied: &mut usize) -> Applied {
    let kind = operation.get("op").and_then(Value::as_str);
    let kind = kind.unwrap_or("unknown");
    let text = |member: &str| {
        let text = operation.get(member).and_then(Value::as_str);
        text.ok_or_else(|| {
            Inapplicable(format!(
                "{kind} operation failed to decode {member}: operation missing {member} field: missing value"
            ))
        })
    };
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => {
            let path = text("path")?;
            let quoted = format!("\"{path}\"");
            let target = PointerTarget::find(object, path)
                .ok_or_else(|| Inapplicable::missing(kind, "doc is missing path", &quoted))?;
            let added = target.add(value());
            added.map_err(|why| why.within(format_args!("error in add for path: '{path}'")))
        }
        "remove" => {
            let path = text("path")?;
            let quoted = format!("\"{path}\"");
            let target = PointerTarget::find(object, path)
                .ok_or_else(|| Inapplicable::missing(kind, "doc is missing path", &quoted))?;
            let removed = target.remove().map(drop);
            removed.map_err(|why| why.within(format_args!("error in remove for path: '{path}'")))
        }
        "replace" => match text("path")? {
            "" => {
                let whole = Some(value()).filter(is_container);
                *object = whole.ok_or_else(|| {
                    Inapplicable::new("replace operation value must be object or array")
                })?;
                Ok(())
            }
            path => {
                let target = PointerTarget::find(object, path)
                    .ok_or_else(|| Inapplicable::missing(kind, "doc is missing path", path))?;
                let replaced = target.replace(value());
                replaced.map_err(|_| Inapplicable::missing(kind, "doc is missing key", path))
            }
        },
        "move" => {
            let from = text("from")?;
            let source = PointerTarget::find(object, from)
                .ok_or_else(|| Inapplicable::missing(kind, "doc is missing from path", from))?;
            let key = source.key().to_owned();
            let removed = source.remove();
            let value = removed
                .map_err(|why| why.within(format_args!("error in move for path: '{key}'")))?;
            let path = text("path")?;
            let target = PointerTarget::find(object, path).ok_or_else(|| {
                Inapplicable::missing(kind, "doc is missing destination path", path)
            })?;
            let added = target.add(value);
            added.map_err(|why| why.within(format_args!("error in move for path: '{path}'")))
        }
        "copy" => {
            let from = text("from")?;
            let source = PointerTarget::find(object, from)
                .ok_or_else(|| Inapplicable::missing(kind, "doc is missing from path", from))?;
            let value = source
                .get()
                .map_err(|why| why.within(format_args!("error in copy for from: '{from}'")))?;
            let path = text("path")?;
            *copied += value.to_string().len();
            if *copied > MAX_COPIED_BYTES {
                return Err(Inapplicable(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED_BYTES}"
                )));
            }
            let target = PointerTarget::find(object, path).ok_or_else(|| {
                Inapplicable::missing(kind, "doc is missing destination path", path)
            })?;
            let added = target.add(value);
            added.map_err(|why| why.within("error while adding value during copy"))
        }
        "test" => {
            let path = text("path")?;
            let found = match path {
                "" => object.clone(),
                path => {
                    let target = PointerTarget::find(object, path)
                        .ok_or_else(|| Inapplicable::missing(kind, "is missing path", path))?;
                    target.get().map_err(|why| {
                        why.within(format_args!("error in test for path: '{path}'"))
                    })?
                }
            };
            if found == value() {
                Ok(())
            } else {
                Err(Inapplicable(format!(
                    "testing value {path} failed: {TEST_FAILED}"
                )))
            }
        }
        other => Err(Inapplicable(format!("Unexpected kind: {other}"))),
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// The last step of a pointer: a container that is there, and a key that may not be.
enum PointerTarget<'a> {
    Member(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

impl<'a> PointerTarget<'a> {
    /// None if a container on the way is not there.
    fn find(object: &'a mut Value, pointer: &str) -> Option<Self> {
        // The text before the first slash is skipped.
        let (_, pointer) = pointer.split_once('/')?;
        let (parents, key) = pointer
            .rsplit_once('/')
            .map_or((None, pointer), |(p, k)| (Some(p), k));
        let mut container = object;
        for step in parents.into_iter().flat_map(|parents| parents.split('/')) {
            container = match container {
                Value::Object(members) => members.get_mut(&unescape(step))?,
                Value::Array(items) => {
                    let index = index(step, items.len()).ok()?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
        }
        match container {
            Value::Object(members) => Some(PointerTarget::Member(members, unescape(key))),
            Value::Array(items) => Some(PointerTarget::Item(items, unescape(key))),
            _ => None,
        }
    }

    fn key(&self) -> &str {
        match self {
            PointerTarget::Member(_, key) | PointerTarget::Item(_, key) => key,
        }
    }

    fn get(self) -> Applied<Value> {
        match self {
            PointerTarget::Member(members, key) => {
                Ok(members.get(&key).cloned().unwrap_or(Value::Null))
            }
            PointerTarget::Item(items, key) => {
                let index = index(&key, items.len())?;
                Ok(items[index].clone())
            }
        }
    }

    fn add(self, value: Value) -> Applied {
        match self {
            PointerTarget::Member(members, key) => {
                members.insert(key, value);
            }
            PointerTarget::Item(items, key) if key == "-" => items.push(value),
            PointerTarget::Item(items, key) => {
                let index = index(&key, items.len() + 1)?;
                items.insert(index, value);
            }
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Applied {
        match self {
            PointerTarget::Member(members, key) => {
                members.insert(key, value);
            }
            PointerTarget::Item(items, key) => {
                let index = index(&key, items.len())?;
                items[index] = value;
            }
        }
        Ok(())
    }

    fn remove(self) -> Applied<Value> {
        match self {
            PointerTarget::Member(members, key) => members.remove(&key).ok_or_else(|| {
                Inapplicable(format!(
                    "Unable to remove nonexistent key: {key}: missing value"
                ))
            }),
            PointerTarget::Item(items, key) => {
                let index = index(&key, items.len())?;
                Ok(items.remove(index))
            }
        }
    }
}

/// Reads an index of `length` places; a negative one counts from the end.
fn index(text: &str, length: usize) -> Applied<usize> {
    let index: i64 = text.parse().map_err(|_| {
        let text = go_quote(text);
        Inapplicable(format!("strconv.Atoi: parsing {text}: invalid syntax"))
    })?;
    let place = match usize::try_from(index) {
        Ok(place) => Some(place),
        Err(_) => usize::try_from(index.unsigned_abs())
            .ok()
            .and_then(|back| length.checked_sub(back)),
    };
    place
        .filter(|place| *place < length)
        .ok_or_else(|| Inapplicable::index(index))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut object: Value, patch: Value) -> Option<Value> {
        JsonPatch::from_body(patch)
            .unwrap()
            .apply(&mut object)
            .ok()?;
        Some(object)
    }

    #[test]
    fn operations_follow_kubernetes() {
        let op =
            |op: &str, path: &str, value: Value| json!([{"op": op, "path": path, "value": value}]);
        let from =
            |op: &str, from: &str, path: &str| json!([{"op": op, "from": from, "path": path}]);
        let object = json!({"m": {"k": 1, "a/b": 2, "n": null}, "l": ["a", "b", "c"]});
        let m = |m: Value| Some(json!({"m": m, "l": ["a", "b", "c"]}));
        let l = |l: Value| Some(json!({"m": {"k": 1, "a/b": 2, "n": null}, "l": l}));
        let same = Some(object.clone());
        let cases = [
            (
                op("add", "/m/x", json!(3)),
                m(json!({"k": 1, "a/b": 2, "n": null, "x": 3})),
            ),
            (
                op("add", "/m/k", json!(3)),
                m(json!({"k": 3, "a/b": 2, "n": null})),
            ),
            (op("add", "/none/x", json!(3)), None),
            (op("add", "/m/k/x", json!(3)), None),
            (op("add", "/m/n/x", json!(3)), None),
            (op("add", "", json!({})), None),
            (op("add", "m", json!({})), None),
            (
                op("add", "/l/1", json!("x")),
                l(json!(["a", "x", "b", "c"])),
            ),
            (
                op("add", "/l/3", json!("x")),
                l(json!(["a", "b", "c", "x"])),
            ),
            (op("add", "/l/4", json!("x")), None),
            (
                op("add", "/l/-", json!("x")),
                l(json!(["a", "b", "c", "x"])),
            ),
            (
                op("add", "/l/-1", json!("x")),
                l(json!(["a", "b", "c", "x"])),
            ),
            (
                op("add", "/l/-4", json!("x")),
                l(json!(["x", "a", "b", "c"])),
            ),
            (op("add", "/l/-5", json!("x")), None),
            (op("add", "/l/x", json!("x")), None),
            (
                op("remove", "/m/k", Value::Null),
                m(json!({"a/b": 2, "n": null})),
            ),
            (op("remove", "/m/none", Value::Null), None),
            (op("remove", "/l/-1", Value::Null), l(json!(["a", "b"]))),
            (op("remove", "/l/3", Value::Null), None),
            (op("remove", "/l/-", Value::Null), None),
            (
                op("replace", "/m/none", json!(1)),
                m(json!({"k": 1, "a/b": 2, "n": null, "none": 1})),
            ),
            (
                op("replace", "/m/a~1b", json!(1)),
                m(json!({"k": 1, "a/b": 1, "n": null})),
            ),
            (
                op("replace", "/l/-1", json!("z")),
                l(json!(["a", "b", "z"])),
            ),
            (op("replace", "/l/3", json!("z")), None),
            (
                op("replace", "", json!({"new": 1})),
                Some(json!({"new": 1})),
            ),
            (op("replace", "", json!(1)), None),
            (
                from("move", "/m/k", "/m/z"),
                m(json!({"a/b": 2, "n": null, "z": 1})),
            ),
            (from("move", "/m/none", "/m/z"), None),
            (from("move", "/l/2", "/l/0"), l(json!(["c", "a", "b"]))),
            (
                from("copy", "/m/k", "/m/z"),
                m(json!({"k": 1, "a/b": 2, "n": null, "z": 1})),
            ),
            (
                from("copy", "/m/none", "/m/z"),
                m(json!({"k": 1, "a/b": 2, "n": null, "z": null})),
            ),
            (op("test", "/m/k", json!(1)), same.clone()),
            (op("test", "/m/k", json!(1.0)), None),
            (op("test", "/m/k", Value::Null), None),
            (op("test", "/m/none", Value::Null), same.clone()),
            (op("test", "/none/k", Value::Null), None),
            (op("test", "/l/9", Value::Null), None),
            (op("test", "", object.clone()), same.clone()),
            (op("frob", "/m/k", json!(1)), None),
            (json!([{"op": "remove"}]), None),
            (json!([null]), None),
            (json!([]), same.clone()),
            (Value::Null, same.clone()),
        ];
        for (patch, expected) in cases {
            assert_eq!(patched(object.clone(), patch.clone()), expected, "{patch}");
        }
    }

    #[test]
    fn a_body_is_a_list_of_operations() {
        let refused = |body: Value| JsonPatch::from_body(body).unwrap_err();
        assert_eq!(
            refused(json!({})).message,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(refused(json!(["x"])).code, 400);
        assert_eq!(refused(json!([{"op": 1}])).code, 400);
        let too_many = refused(vec![json!({}); MAX_OPERATIONS + 1].into());
        assert_eq!(
            (too_many.code, too_many.message.as_str()),
            (
                413,
                "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
            )
        );
    }

    #[test]
    fn unknown_members_are_reported() {
        let patch = JsonPatch::from_body(json!([{"op": "test", "note": 1}])).unwrap();
        assert_eq!(patch.unknown_fields(), ["[0].note"]);
    }

    #[test]
    fn copies_cannot_grow_without_bound() {
        let mut patch = vec![json!({"op": "add", "path": "/a", "value": ["x"]})];
        for _ in 0..30 {
            patch.push(json!({"op": "copy", "from": "/a", "path": "/a/-"}));
        }
        assert_eq!(patched(json!({}), patch.into()), None);
    }

    proptest::proptest! {
        #[test]
        fn any_pointer_applies_or_fails(path in "[/~01a-]{0,12}", from in "[/~01a-]{0,12}", op in 0..6usize) {
            let op = ["add", "remove", "replace", "move", "copy", "test"][op];
            let _ = patched(json!({"a": [[1, 2], {"a": 1}]}), json!([{"op": op, "path": path, "from": from, "value": 1}]));
        }
    }

    #[test]
    fn an_operation_that_does_not_apply_says_why() {
        let op = |op: &str, path: &str| json!([{"op": op, "path": path, "value": 1}]);
        let cases = [
            (
                op("remove", "/data/none"),
                "error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
            ),
            (
                op("add", "/spec/x/y"),
                "add operation does not apply: doc is missing path: \"/spec/x/y\": missing value",
            ),
            (
                op("test", "/data/k"),
                "testing value /data/k failed: test failed",
            ),
            (
                op("add", "/list/7"),
                "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced",
            ),
            (op("jump", "/data"), "Unexpected kind: jump"),
        ];
        for (patch, expected) in cases {
            let mut object = json!({"data": {"k": "2"}, "list": []});
            let patch = JsonPatch::from_body(patch).unwrap();
            assert_eq!(patch.apply_or_explain(&mut object).unwrap_err(), expected);
        }
    }
}
