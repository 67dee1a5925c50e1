//! Strategic merge patches by the schemas of built-in kinds.

use super::{ListStrategy, MapStrategy, PatchType};
use crate::schema::SchemaRef;

impl PatchType for SchemaRef<'_> {
    fn member(&self, name: &str) -> Option<(Self, MapStrategy)> {
        let member = self.key(name)?;
        let strategy = if member.patch().replace {
            MapStrategy::Replace
        } else {
            MapStrategy::Merge
        };
        Some((member, strategy))
    }

    fn list(&self, name: &str) -> Option<(Self, ListStrategy)> {
        let list = self.key(name)?;
        let strategy = if list.patch().merge {
            ListStrategy::Merge {
                key: list.patch().merge_key.as_deref().map(str::to_owned),
            }
        } else {
            ListStrategy::Replace
        };
        Some((list.items()?, strategy))
    }

    fn type_name(&self) -> String {
        let name = self
            .type_id()
            .map(|id| self.types().name(id))
            .unwrap_or_default();
        name.rsplit('.').next().unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::patch::strategic_merge_patch;
    use crate::schema::Types;

    fn patched(kind: &str, mut object: Value, mut patch: Value) -> Value {
        let types = Types::builtin();
        let schema = types.kind("v1", kind).unwrap();
        strategic_merge_patch(&mut object, &mut patch, &schema).unwrap();
        object
    }

    #[test]
    fn a_pod_merges_containers_by_name_and_replaces_tolerations() {
        let object = json!({"spec": {
            "containers": [{"name": "a", "ports": [{"containerPort": 80}], "args": ["x"]}],
            "tolerations": [{"key": "k"}],
        }});
        let patch = json!({"spec": {
            "containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}], "args": ["y"]}],
            "tolerations": [{"key": "l"}],
        }});
        assert_eq!(patched("Pod", object, patch.clone()), patch,);
    }

    #[test]
    fn finalizers_join_and_image_pull_secrets_of_a_pod_merge_by_name() {
        let object = json!({"metadata": {"finalizers": ["a/b"]}, "spec": {"imagePullSecrets": [{"name": "s"}]}});
        let patch = json!({"metadata": {"finalizers": ["c/d"]}, "spec": {"imagePullSecrets": [{"name": "t"}]}});
        assert_eq!(
            patched("Pod", object, patch),
            json!({"metadata": {"finalizers": ["c/d", "a/b"]}, "spec": {"imagePullSecrets": [{"name": "t"}, {"name": "s"}]}})
        );
    }
}
