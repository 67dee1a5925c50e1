//! An apply that nobody makes: what is applied is merged, and owned by no manager.
//!
//! Follows Kubernetes 1.36:
//! - `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`: `ApplyStructuredMergeDiff`, `validatePatch`

use serde_json::Value;

use super::merge::merge;
use super::type_ref::{Shaped, TypeRef};
use super::validate::{Repeats, check};
use crate::schema::SchemaRef;

/// Merges a configuration into an object. Both are of the kind of the schema.
///
/// The configuration may set no lists, maps or objects that are replaced as a whole: what they
/// held before would be lost.
pub fn merge_unowned(live: &Value, config: &Value, schema: SchemaRef<'_>) -> Result<Value, String> {
    let typed = check(config, schema, Repeats::Refused);
    typed.map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Vec::new();
    find_atomics(config, TypeRef::root(schema), "", &mut atomics);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
        ));
    }
    let typed = check(live, schema, Repeats::Allowed);
    typed.map_err(|why| format!("failed to convert original object to typed object: {why}"))?;
    merge(live, config, schema).map_err(|why| format!("failed to merge patch: {why}"))
}

fn find_atomics(value: &Value, type_ref: TypeRef<'_>, path: &str, found: &mut Vec<String>) {
    match (value, type_ref.shaped(Some(value))) {
        (Value::Object(members), Shaped::Map(map)) => {
            if map.is_atomic {
                found.push(path.to_owned());
            }
            for (name, value) in members {
                let member = map.member(name).filter(|member| member.is_declared);
                if let Some(member) = member {
                    find_atomics(value, member.type_ref, &format!("{path}.{name}"), found);
                }
            }
        }
        (Value::Array(items), Shaped::List(list)) => {
            if list.is_atomic() {
                found.push(path.to_owned());
            }
            for (i, item) in items.iter().enumerate() {
                find_atomics(item, list.items, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Types;

    #[test]
    fn what_is_replaced_as_a_whole_cannot_be_merged() {
        let types = Types::builtin();
        let schema = types.kind("apps/v1", "Deployment").unwrap();
        let live = json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "a", "image": "i", "args": ["x"]}, {"name": "b"},
        ]}}}});
        let pod =
            |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let merged = merge_unowned(&live, &pod(json!([{"name": "b", "image": "j"}])), schema);
        let containers = &merged.unwrap()["spec"]["template"]["spec"]["containers"];
        assert_eq!(
            *containers,
            json!([{"name": "a", "image": "i", "args": ["x"]}, {"name": "b", "image": "j"}])
        );
        let refused = |config: Value| merge_unowned(&live, &config, schema).unwrap_err();
        assert_eq!(
            refused(pod(json!([{"name": "a", "args": ["y"]}]))),
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
             .spec.template.spec.containers[0].args"
        );
        assert_eq!(
            refused(json!({"spec": {"bogus": 1}})),
            "failed to convert patch object to typed object: .spec.bogus: field not declared in schema"
        );
    }
}
