//! Stored bytes and the bytes on the wire.
//!
//! An object is stored as the wire shows it, less what the place of the reader
//! decides: `kind` and `apiVersion` (list items of built-in kinds carry none,
//! versions differ) and `resourceVersion` (which is the revision of the write).
//! Stored JSON always begins with [`HEAD`], so the wire form is one splice: no
//! reader without a selector ever decodes.
//!
//! A custom resource names the version that it is in, as its last member: its definition may
//! store others in another version later.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sendo_json::{end_of_string, end_of_value, is_plain};
use sendo_store::{Entry, Revision};
use serde_json::Value;

/// How every stored object begins.
pub(crate) const HEAD: &[u8] = b"{\"metadata\":{";

/// An object as it is stored, and the revision of its last change.
///
/// Revision 0: it is not stored, as the outcome of a dry run is not.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) value: Bytes,
    pub(crate) at: Revision,
}

impl From<&Entry> for Stored {
    fn from(entry: &Entry) -> Self {
        Stored {
            value: entry.value.clone(),
            at: entry.modified,
        }
    }
}

/// The kind and version that a wire form names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeMeta {
    pub(crate) kind: String,
    pub(crate) api_version: String,
    head: Vec<u8>,
}

impl TypeMeta {
    pub(crate) fn new(group: &str, version: &str, kind: &str) -> Self {
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        // Names of kinds and versions need no escapes.
        let head =
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{");
        TypeMeta {
            kind: kind.to_owned(),
            api_version,
            head: head.into_bytes(),
        }
    }
}

/// The bytes to store for `object`.
pub(crate) fn encode(object: &Value) -> Bytes {
    encode_managed(object, None, None)
}

/// The bytes to store for `object`, whose list of managers may be given as text, and which may
/// name the version it is in.
pub(crate) fn encode_managed(
    object: &Value,
    managers: Option<&str>,
    api_version: Option<&str>,
) -> Bytes {
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(HEAD);
    let mut metadata = ObjectWriter::new(&mut out);
    let mut managers = managers;
    for (name, value) in object["metadata"].as_object().into_iter().flatten() {
        // ObjectWriter stand in the order of their names.
        if name.as_str() > MANAGERS
            && let Some(list) = managers.take()
        {
            metadata.write_text(MANAGERS, list);
        }
        if name != "resourceVersion" {
            metadata.write(name, value);
        }
    }
    if let Some(list) = managers {
        metadata.write_text(MANAGERS, list);
    }
    out.push(b'}');
    let rest_at = out.len();
    out.push(b',');
    let mut rest = ObjectWriter::new(&mut out);
    for (name, value) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
            rest.write(name, value);
        }
    }
    if out.len() == rest_at + 1 {
        out.pop();
    }
    if let Some(api_version) = api_version {
        out.extend_from_slice(VERSION);
        // Names of versions need no escapes.
        out.extend_from_slice(api_version.as_bytes());
        out.push(b'"');
    }
    out.push(b'}');
    // It is kept for long: no room that it does not need, which giving some back
    // does not make sure of.
    Bytes::copy_from_slice(&out)
}

const MANAGERS: &str = "managedFields";

/// How the version begins that a stored object names.
const VERSION: &[u8] = b",\"apiVersion\":\"";

/// The version that stored bytes name, and how long they are without it and what follows.
fn version_in(stored: &[u8]) -> Option<(&str, usize)> {
    let text = stored.strip_suffix(b"\"}")?;
    let open = text.iter().rposition(|byte| *byte == b'"')?;
    // No other member of an object itself has this name.
    let before = text[..=open].strip_suffix(VERSION)?;
    let version = std::str::from_utf8(&text[open + 1..]).ok()?;
    Some((version, before.len()))
}

/// The `apiVersion` that stored bytes name.
pub(crate) fn named_version(stored: &[u8]) -> Option<&str> {
    version_in(stored).map(|(version, _)| version)
}

/// Why what is stored can be read.
const STORED: &str = "stored objects are JSON of ours";

/// Writes members of an object.
struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

impl<'o> ObjectWriter<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        ObjectWriter {
            out,
            is_first: true,
        }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        write_text(self.out, name);
        self.out.push(b':');
    }

    fn write(&mut self, name: &str, value: &Value) {
        self.name(name);
        write_json(self.out, value);
    }

    /// A value that is JSON already.
    fn write_text(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }
}

/// Writes a value as `serde_json` does, and texts without escapes, as nearly all
/// are, at a stroke: a patch of a pod takes 4 % less for it.
fn write_json(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_json(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            let mut object = ObjectWriter::new(out);
            for (name, value) in members {
                object.write(name, value);
            }
            out.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => write_other(out, value),
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    if !is_plain(text) {
        return write_other(out, text);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn write_other(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("a JSON value writes into memory");
}

/// The object an entry holds, in its stored form: decoded once, for all who ask.
pub(crate) fn object(entry: &Entry) -> Arc<Value> {
    entry
        .memo
        .get_or_init(|| serde_json::from_slice(&entry.value).expect(STORED))
}

/// The object that stored bytes hold, in its stored form.
pub(crate) fn object_of(stored: &[u8]) -> Value {
    serde_json::from_slice(stored).expect(STORED)
}

/// The object an entry holds, with its kind, version and resourceVersion.
pub(crate) fn decode(stored: &[u8], at: Revision, types: &TypeMeta) -> Value {
    let mut object = object_of(stored);
    object["metadata"]["resourceVersion"] = at.to_string().into();
    object["kind"] = types.kind.as_str().into();
    object["apiVersion"] = types.api_version.as_str().into();
    object
}

/// Writes an object's wire form: with `types` as a document of its own, without as an item of a list.
///
/// Revision 0 is that of an object which is not stored: it shows none.
pub(crate) fn write(out: &mut Vec<u8>, types: Option<&TypeMeta>, at: Revision, stored: &[u8]) {
    out.reserve(stored.len() + 128);
    out.extend_from_slice(types.map_or(HEAD, |types| &types.head));
    let (rest, end): (_, &[u8]) = match version_in(stored) {
        None => (&stored[HEAD.len()..], b""),
        Some((_, length)) => (&stored[HEAD.len()..length], b"}"),
    };
    if at != Revision(0) {
        write!(out, "\"resourceVersion\":\"{at}\"").expect("memory takes every write");
        if rest.first() != Some(&b'}') {
            out.push(b',');
        }
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(end);
}

/// The stored form of an object's metadata alone.
pub(crate) fn metadata_of(stored: &[u8]) -> Vec<u8> {
    let end = end_of_value(stored, HEAD.len(), 1).expect(STORED);
    [&stored[..end], b"}"].concat()
}

/// Whether two stored objects differ in their lists of managers at most.
///
/// Neither is decoded for that: a patch of a pod would take half as long again.
pub(crate) fn differ_in_managers_only(one: &[u8], other: &[u8]) -> bool {
    match (managers_in(one), managers_in(other)) {
        (Some(list), Some(other_list)) => {
            one[..list.start] == other[..other_list.start]
                && one[list.end..] == other[other_list.end..]
        }
        _ => one == other,
    }
}

/// Where the list of managers is in a stored object, if it has one.
fn managers_in(stored: &[u8]) -> Option<Range<usize>> {
    let mut at = HEAD.len();
    while stored[at] != b'}' {
        let colon = end_of_string(stored, at).expect(STORED);
        let value = colon + 1..end_of_value(stored, colon + 1, 0).expect(STORED);
        if stored[at + 1..colon - 1] == *MANAGERS.as_bytes() {
            return Some(value);
        }
        let has_more = stored[value.end] == b',';
        at = value.end + usize::from(has_more);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wire(stored: &[u8], types: Option<&TypeMeta>, at: u64) -> Value {
        let mut out = Vec::new();
        write(&mut out, types, Revision(at), stored);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn the_wire_form_is_the_object_with_its_version_and_kind() {
        let types = TypeMeta::new("apps", "v1", "Deployment");
        let object = json!({
            "kind": "Deployment", "apiVersion": "apps/v1",
            "metadata": {"name": "a", "resourceVersion": "3", "annotations": {"q": "\"\n"}},
            "spec": {"replicas": 1},
        });
        let stored = encode(&object);
        assert!(stored.starts_with(HEAD));
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = "9".into();
        assert_eq!(wire(&stored, Some(&types), 9), expected);
        assert_eq!(decode(&stored, Revision(9), &types), expected);
    }

    #[test]
    fn values_are_written_as_others_write_them() {
        let data = json!({
            "": [], "a\"b": {}, "list": [1, -2.5, 1e300, true, null, [["x"]], {"k": "v"}],
            "text": "tab\t, quote\", \u{1}, \u{7f}, é, 船頭 \\", "long": "x".repeat(100),
        });
        let stored = encode(&json!({ "data": data }));
        let expected = format!("{{\"metadata\":{{}},\"data\":{data}}}");
        assert_eq!(String::from_utf8(stored.into()).unwrap(), expected);
    }

    #[test]
    fn a_version_that_is_named_is_replaced_by_that_of_the_reader() {
        let named = |object: &Value| encode_managed(object, None, Some("example.dev/v1"));
        let types = TypeMeta::new("example.dev", "v2", "X");
        for object in [
            json!({"metadata": {}}),
            json!({"metadata": {"name": "a"}, "spec": {"ref": {"apiVersion": "v1"}}}),
            json!({"metadata": {"name": "a"}, "text": ",\"apiVersion\":\"v7"}),
            json!({"metadata": {"name": "a"}, "text": "\\"}),
        ] {
            let (plain, stored) = (encode(&object), named(&object));
            assert_eq!(named_version(&plain), None, "{object}");
            assert_eq!(named_version(&stored), Some("example.dev/v1"));
            assert_eq!(wire(&stored, None, 4), wire(&plain, None, 4));
            assert_eq!(
                wire(&stored, Some(&types), 4)["apiVersion"],
                "example.dev/v2"
            );
            let object = decode(&stored, Revision(4), &types);
            assert_eq!(object, wire(&plain, Some(&types), 4));
        }
    }

    #[test]
    fn an_item_carries_no_kind() {
        let stored = encode(&json!({"kind": "X", "apiVersion": "v1", "metadata": {"name": "a"}}));
        let item = json!({"metadata": {"name": "a", "resourceVersion": "4"}});
        assert_eq!(wire(&stored, None, 4), item);
    }

    #[test]
    fn empty_metadata_still_splices() {
        let stored = encode(&json!({"data": {}}));
        let object = json!({"metadata": {"resourceVersion": "1"}, "data": {}});
        assert_eq!(wire(&stored, None, 1), object);
    }

    #[test]
    fn an_object_that_is_not_stored_has_no_version() {
        let stored = encode(&json!({"metadata": {"name": "a"}}));
        assert_eq!(wire(&stored, None, 0), json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn metadata_alone_is_a_stored_form_too() {
        let stored = encode(&json!({"metadata": {"name": "a"}, "data": {"metadata": "x"}}));
        assert_eq!(metadata_of(&stored), b"{\"metadata\":{\"name\":\"a\"}}");
        let metadata = json!({"annotations": {"a": "}\"]\\", "b": "\\\"{"}, "finalizers": ["}"]});
        let stored = encode(&json!({"metadata": metadata, "spec": {}}));
        let alone: Value = serde_json::from_slice(&metadata_of(&stored)).unwrap();
        assert_eq!(alone, json!({ "metadata": metadata }));
    }

    #[test]
    fn managers_are_set_aside_where_objects_are_compared() {
        let object = |managers: Value, data: &str| {
            let annotations = json!({"managedFields": "[", "x": "\"managedFields\":[{"});
            encode(&json!({
                "metadata": {"annotations": annotations, "managedFields": managers, "name": "a"},
                "data": {"managedFields": [data]},
            }))
        };
        let old = object(json!([{"manager": "a", "time": "]\"}"}]), "1");
        let same = |other: &[u8]| {
            let outcome = differ_in_managers_only(&old, other);
            assert_eq!(differ_in_managers_only(other, &old), outcome);
            outcome
        };
        assert!(same(&old));
        assert!(same(&object(json!([]), "1")));
        assert!(same(&object(json!([{"manager": "b"}, {}]), "1")));
        assert!(!same(&object(json!([]), "2")));
        let mut more: Value = serde_json::from_slice(&old).unwrap();
        more["metadata"]["more"] = 1.into();
        assert!(!same(&encode(&more)));
        let none = encode(&json!({"metadata": {"name": "a"}, "data": {"managedFields": ["1"]}}));
        assert!(!same(&none));
        assert!(differ_in_managers_only(&none, &none));
    }

    #[test]
    fn what_the_reader_decides_changes_no_stored_byte() {
        let a = json!({"kind": "A", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "1"}});
        let b = json!({"kind": "B", "apiVersion": "v2", "metadata": {"name": "a"}});
        assert_eq!(encode(&a), encode(&b));
    }
}
