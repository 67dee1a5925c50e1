//! Pruning: removes fields that a structural schema does not have.

use serde_json::Value;

use super::{Additional, Part, Structural};

impl Structural {
    /// Removes what the schema does not know; returns the paths of that, sorted.
    ///
    /// Kind, version and metadata of a resource, and of resources embedded in
    /// it, are left for [`Structural::type_metadata`].
    pub fn prune(&self, value: &mut Value, part: Part) -> Vec<String> {
        let mut pruner = Pruner::default();
        let context = PruneContext {
            schema: Some(self),
            is_root: part == Part::Resource,
            keeps: false,
        };
        pruner.prune(value, context);
        pruner.unknown.sort();
        pruner.unknown
    }
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

/// What pruning needs to know of a value.
#[derive(Clone, Copy)]
struct PruneContext<'s> {
    schema: Option<&'s Structural>,
    is_root: bool,
    /// Whether a list around it keeps unknown fields, which counts for its items too.
    keeps: bool,
}

const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Pruner {
    fn prune(&mut self, value: &mut Value, context: PruneContext<'_>) {
        let keeps = context.keeps || context.schema.is_some_and(|s| s.preserve_unknown_fields);
        match value {
            Value::Object(members) => members.retain(|name, member| {
                let Some(schema) = context.schema else {
                    return keeps || self.forget(name);
                };
                let is_metadata = METADATA.contains(&name.as_str());
                if is_metadata && (schema.embedded_resource || context.is_root) {
                    return true;
                }
                let below = match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(property), _) => Some(property),
                    (None, Some(Additional::Schema(schema))) => Some(&**schema),
                    // Whatever else is allowed is kept, but nothing below it.
                    (None, Some(Additional::Allowed(_))) => None,
                    (None, None) => return keeps || self.forget(name),
                };
                let outer = self.enter(name);
                self.prune(
                    member,
                    PruneContext {
                        schema: below,
                        is_root: false,
                        keeps: false,
                    },
                );
                self.path.truncate(outer);
                true
            }),
            Value::Array(items) => {
                let below = context.schema.and_then(|schema| schema.items.as_deref());
                if keeps && below.is_none() {
                    return;
                }
                for (i, item) in items.iter_mut().enumerate() {
                    let outer = self.path.len();
                    self.path.push_str(&format!("[{i}]"));
                    self.prune(
                        item,
                        PruneContext {
                            schema: below,
                            is_root: false,
                            keeps,
                        },
                    );
                    self.path.truncate(outer);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        outer
    }

    /// Notes a member that is not known. Returns that it is not to be kept.
    fn forget(&mut self, name: &str) -> bool {
        let outer = self.enter(name);
        self.unknown.push(self.path.clone());
        self.path.truncate(outer);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pruned(schema: Value, mut value: Value) -> (Value, Vec<String>) {
        let unknown = Structural::from_json(&schema).prune(&mut value, Part::Resource);
        (value, unknown)
    }

    #[test]
    fn unknown_members_go_and_are_reported() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer"}}}},
        }}}});
        let value = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "bogus": 1},
            "spec": {"a": "x", "zz": 1, "l": [{"k": "v"}, {"q": 1}], "m": {"x": {"v": 1, "w": 2}}},
            "other": {"deep": 1},
        });
        let (value, unknown) = pruned(schema, value);
        assert_eq!(
            value,
            json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "bogus": 1},
                "spec": {"a": "x", "l": [{"k": "v"}, {}], "m": {"x": {"v": 1}}},
            })
        );
        assert_eq!(unknown, ["other", "spec.l[1].q", "spec.m.x.w", "spec.zz"]);
    }

    #[test]
    fn preserved_fields_stay_but_known_ones_below_are_pruned() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"o": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        }}});
        let value = json!({"spec": {"any": {"thing": 1}, "o": {"x": 1, "y": 2}}});
        let (value, unknown) = pruned(schema, value);
        assert_eq!(value, json!({"spec": {"any": {"thing": 1}, "o": {"x": 1}}}));
        assert_eq!(unknown, ["spec.o.y"]);
    }

    #[test]
    fn any_member_is_kept_but_nothing_below_it() {
        let schema = json!({"type": "object", "properties": {"t": {"type": "object", "additionalProperties": true}}});
        let (value, unknown) = pruned(
            schema,
            json!({"t": {"a": 1, "c": [1, {"d": 1}], "e": {"f": 1}}}),
        );
        assert_eq!(value, json!({"t": {"a": 1, "c": [1, {}], "e": {}}}));
        assert_eq!(unknown, ["t.c[1].d", "t.e.f"]);
    }

    #[test]
    fn an_embedded_resource_keeps_its_type_and_metadata() {
        let schema = json!({"type": "object", "properties": {"e": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        }}});
        let value = json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1, "y": 2}, "other": 3}});
        let (value, unknown) = pruned(schema, value);
        assert_eq!(
            value,
            json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}}})
        );
        assert_eq!(unknown, ["e.other", "e.spec.y"]);
    }
}
