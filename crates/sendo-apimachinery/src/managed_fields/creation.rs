//! The fields of a new object, written in one go.
//!
//! Nobody has a field of it yet, so there is nothing to settle: what is in the
//! object is its creator's, and the text of that follows from one walk. It is
//! what comparing with nothing finds and a set shows, without either being made:
//! a creation of a pod takes a quarter less for it.

use serde_json::{Map, Value};

use super::element::equals;
use super::set::FieldSet;
use super::type_ref::{ListOf, MapOf, Shaped, TypeRef, items, members};
use sendo_json::is_plain;

/// What a creator does not get.
#[derive(Clone, Copy)]
pub(super) struct Without<'s> {
    /// Fields that go with all that is below them.
    pub(super) branches: Option<&'s FieldSet>,
    /// Fields that go by themselves.
    pub(super) fields: Option<&'s FieldSet>,
}

/// The `fieldsV1` of all that `new` has and `nothing`, the empty object of its
/// kind, has not; empty if that is nothing.
///
/// `None` if `new` is one of the rare objects that a walk does not do for.
pub(super) fn fields_of(
    type_ref: TypeRef<'_>,
    nothing: &Value,
    new: &Value,
    without: Without<'_>,
) -> Option<String> {
    let mut walk = SetWriter {
        out: String::with_capacity(1024),
    };
    walk.value(type_ref, Some(nothing), new, true, without)?;
    Some(walk.out)
}

impl<'s> Without<'s> {
    /// What goes below a member.
    fn below(self, name: &str) -> Self {
        let below = |set: Option<&'s FieldSet>| set?.field(name).map(|at| at.below);
        Without {
            branches: below(self.branches),
            fields: below(self.fields),
        }
    }

    fn has_branch(self, name: &str) -> bool {
        has(self.branches, name)
    }

    fn has_field(self, name: &str) -> bool {
        has(self.fields, name)
    }

    /// Items of lists are nowhere left out by themselves.
    fn is_nothing(self) -> bool {
        let is_empty = |set: Option<&FieldSet>| set.is_none_or(FieldSet::is_empty);
        is_empty(self.branches) && is_empty(self.fields)
    }
}

fn has(set: Option<&FieldSet>, name: &str) -> bool {
    set.and_then(|set| set.field(name))
        .is_some_and(|at| at.is_member)
}

struct SetWriter {
    out: String,
}

impl SetWriter {
    /// Writes what is new of a value. Returns whether that is anything.
    ///
    /// `counts` says whether the value itself may be had, and not just what is below it.
    fn value(
        &mut self,
        type_ref: TypeRef<'_>,
        old: Option<&Value>,
        new: &Value,
        counts: bool,
        without: Without<'_>,
    ) -> Option<bool> {
        if old == Some(new) {
            return Some(false);
        }
        let shape = type_ref.shaped(Some(new));
        if old.is_some_and(|old| !type_ref.shaped(Some(old)).is_like(&shape)) {
            return None;
        }
        let is_new = old.is_none();
        match &shape {
            Shaped::List(list) if !list.is_atomic() => {
                let (old, new) = (items(old), items(Some(new)).unwrap_or_default());
                if old.is_some_and(|old| !old.is_empty()) || !without.is_nothing() {
                    return None;
                }
                if !new.is_empty() {
                    self.open(is_new && counts);
                    self.items(list, new)?;
                    return Some(self.close());
                }
            }
            Shaped::Map(map) if !map.is_atomic => {
                let (old, new) = (members(old), members(Some(new)));
                if [old, new].into_iter().flatten().any(|m| !m.is_empty()) {
                    self.open(is_new && counts);
                    self.members(map, old, new, without)?;
                    return Some(self.close());
                }
            }
            _ => {}
        }
        let is_had = counts && old.is_none_or(|old| !equals(old, new));
        if is_had {
            self.out.push_str("{}");
        }
        Some(is_had)
    }

    fn members(
        &mut self,
        map: &MapOf<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        without: Without<'_>,
    ) -> Option<()> {
        for (name, value) in new.into_iter().flatten() {
            if without.has_branch(name) {
                continue;
            }
            let begin = self.begin("\"f:", name);
            let is_any = self.value(
                map.member_or_deduced(name).type_ref,
                old.and_then(|members| members.get(name)),
                value,
                !without.has_field(name),
                without.below(name),
            )?;
            self.end(begin, is_any);
        }
        Some(())
    }

    fn items(&mut self, list: &ListOf<'_>, new: &[Value]) -> Option<()> {
        let named = new
            .iter()
            .map(|item| Some((list.element(item).ok()?.to_name(), item)));
        let mut named: Vec<(String, &Value)> = named.collect::<Option<_>>()?;
        named.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        // The members of an item that is there twice cannot be assigned to one of the two.
        if named.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let nothing = Without {
            branches: None,
            fields: None,
        };
        for (name, item) in named {
            let begin = self.begin("\"", &name);
            let is_any = self.value(list.items, None, item, true, nothing)?;
            self.end(begin, is_any);
        }
        Some(())
    }

    fn open(&mut self, is_member: bool) {
        self.out.push('{');
        if is_member {
            self.out.push_str(r#"".":{}"#);
        }
    }

    /// Closes what was opened, or takes it back if nothing was written since.
    fn close(&mut self) -> bool {
        if self.out.ends_with('{') {
            self.out.pop();
            return false;
        }
        self.out.push('}');
        true
    }

    /// Writes the name of a step, after its quote and kind. Returns where that begins.
    #[inline]
    fn begin(&mut self, kind: &'static str, name: &str) -> usize {
        let begin = self.out.len();
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.out.push_str(kind);
        push_text(&mut self.out, name);
        self.out.push_str("\":");
        begin
    }

    fn end(&mut self, begin: usize, is_any: bool) {
        if !is_any {
            self.out.truncate(begin);
        }
    }
}

/// Writes a text as JSON has it between quotes.
fn push_text(out: &mut String, text: &str) {
    if is_plain(text) {
        return out.push_str(text);
    }
    // Names of items are JSON themselves, with quotes and nothing worse.
    for (i, part) in text.split('"').enumerate() {
        if i > 0 {
            out.push_str("\\\"");
        }
        if is_plain(part) {
            out.push_str(part);
        } else {
            let quoted = Value::from(part).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{of_core, widget};
    use super::super::{FieldManager, FieldPath, Versions};
    use super::*;
    use crate::Meta;

    /// The managers that a creation tracks, which are those of an update of nothing.
    fn tracked<V: Versions>(fields: &FieldManager<'_, V>, object: &Value) -> Option<Value> {
        let now = "2026-01-01T00:00:00Z";
        let text = fields.creation(object, "me", now);
        let mut written = object.clone();
        fields.update(&Value::Null, &mut written, "me", now);
        let list = Meta::new(&written).get("managedFields");
        assert_eq!(text, list.map(Value::to_string));
        list.cloned()
    }

    #[test]
    fn a_creator_has_all_but_what_it_does_not_decide() {
        let kind = of_core("Pod");
        let reset = |_: &str| [FieldPath::of_fields(["status"])].into_iter().collect();
        let fields = FieldManager {
            reset_fields: &reset,
            ..kind.manager("")
        };
        let pod = kind.object(json!({
            "metadata": {"name": "p", "namespace": "n", "generateName": "p-", "labels": {"a\"b": "1"}},
            "spec": {
                "containers": [
                    {"name": "b", "image": "i", "resources": {}},
                    {"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["x"]},
                ],
                "nodeSelector": {},
                "tolerations": [{"key": "k"}],
            },
            "status": {"phase": "Running"},
        }));
        let list = tracked(&fields, &pod).expect("somebody made it");
        assert_eq!(
            list[0]["fieldsV1"],
            json!({
                "f:metadata": {
                    "f:generateName": {},
                    "f:labels": {".": {}, "f:a\"b": {}},
                },
                "f:spec": {
                    "f:containers": {
                        "k:{\"name\":\"a\"}": {
                            ".": {}, "f:args": {}, "f:name": {},
                            "f:ports": {
                                ".": {},
                                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                    ".": {}, "f:containerPort": {}, "f:protocol": {},
                                },
                            },
                        },
                        "k:{\"name\":\"b\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}},
                    },
                    "f:nodeSelector": {},
                    "f:tolerations": {},
                },
            })
        );
    }

    #[test]
    fn objects_that_need_more_than_a_walk_are_tracked_too() {
        let kind = widget(json!({
            "list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}}},
            },
        }));
        let fields = kind.manager("");
        for items in [
            json!([{"k": "twice", "v": "1"}, {"k": "twice"}, {"k": "once"}]),
            json!([{"v": "without its key"}]),
            json!([]),
        ] {
            tracked(&fields, &kind.object(json!({"spec": {"list": items}})));
        }
        assert_eq!(tracked(&fields, &kind.object(json!({}))), None);
    }
}
