//! Where objects are kept: `/registry/<group>/<plural>[/<namespace>]/<name>`.
//!
//! The order of keys makes a list of a namespace, and one of all namespaces, a
//! range of keys. It is also the order in which lists come, and that of Kubernetes.

use sendo_store::Key;

/// Below this lies everything the server keeps.
const ROOT: &str = "/registry/";

/// The keys of one resource, shared by all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    prefix: String,
    namespaced: bool,
}

impl Keys {
    pub(crate) fn new(group: &str, plural: &str, namespaced: bool) -> Self {
        let group = if group.is_empty() { "core" } else { group };
        Keys {
            prefix: [ROOT, group, "/", plural, "/"].concat(),
            namespaced,
        }
    }

    /// The key of one object.
    pub(crate) fn object(&self, namespace: Option<&str>, name: &str) -> Key {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => [&self.prefix, namespace, "/", name].concat().into(),
            None => [&self.prefix, name].concat().into(),
        }
    }

    /// What the keys of a collection begin with: those of a namespace, or all.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => [&self.prefix, namespace, "/"].concat(),
            None => self.prefix.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sendo_store::KeyRange;

    #[test]
    fn a_collection_is_a_range_of_keys() {
        let pods = Keys::new("", "pods", true);
        let key = pods.object(Some("a"), "x");
        assert_eq!(&*key, "/registry/core/pods/a/x");
        let one = KeyRange::prefix(&pods.collection(Some("a")));
        assert!(one.contains(&key));
        assert!(!one.contains(&pods.object(Some("a-b"), "x")));
        let all = KeyRange::prefix(&pods.collection(None));
        assert!(all.contains(&pods.object(Some("a-b"), "x")));
        assert!(!all.contains(&Keys::new("", "podtemplates", true).object(Some("a"), "x")));
    }

    #[test]
    fn cluster_scoped_objects_have_no_namespace_in_their_key() {
        let nodes = Keys::new("", "nodes", false);
        assert_eq!(&*nodes.object(None, "n"), "/registry/core/nodes/n");
        assert_eq!(&*nodes.object(Some("n"), "n"), "/registry/core/nodes/n");
    }
}
