//! Owners: whom an object goes away with, and who controls it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::object::{Kind, Object, ObjectExt, ObjectKey, Typed, Uid};

/// Why an object cannot have an owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The owner was not read from the API server.
    #[error("{owner} cannot own anything before it is created: it has no uid")]
    NotCreated {
        /// Kind and key.
        owner: String,
    },
    /// An object in a namespace owns only objects of that namespace.
    #[error("{owner} cannot own {object}: an owner in a namespace owns only what is in the same")]
    OtherNamespace {
        /// Kind and key.
        owner: String,
        /// The key of what it should own.
        object: ObjectKey,
    },
    /// An object has one controller at most.
    #[error("{object} is controlled by {controller} already")]
    ControlledBy {
        /// The key of the object.
        object: ObjectKey,
        /// Kind and name of its controller.
        controller: String,
    },
}

/// Makes `owner` the one that controls `object`, which then goes away with it;
/// a foreground deletion of the owner waits for that. Does nothing if it is so already.
pub fn set_controller<O: Typed, K: Object>(owner: &O, object: &mut K) -> Result<(), OwnerError> {
    let mut reference = reference(owner, object)?;
    reference.controller = Some(true);
    reference.block_owner_deletion = Some(true);
    check_controller(owner, object)?;
    put(object, reference);
    Ok(())
}

/// The owner reference that names `owner` as the controller, as [`set_controller`] writes it.
///
/// For an object that is built as a whole, whose namespace is that of `owner`.
pub fn controller_reference<O: Typed>(owner: &O) -> OwnerReference {
    let kind = Kind::of::<O>();
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        name: owner.name().to_owned(),
        uid: owner.uid().to_string(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Fails if `object` is controlled by another than `owner`.
pub(crate) fn check_controller<O: Typed, K: Object>(
    owner: &O,
    object: &K,
) -> Result<(), OwnerError> {
    let mut owners = object.meta().owner_references.iter().flatten();
    let controller = owners.find(|known| known.controller == Some(true));
    match controller.filter(|known| Uid::from(known.uid.as_str()) != owner.uid()) {
        None => Ok(()),
        Some(other) => Err(OwnerError::ControlledBy {
            object: ObjectKey::from_object(object),
            controller: format!("{} {}", other.kind, other.name),
        }),
    }
}

/// Makes `owner` one of those that `object` goes away with when all are gone.
/// Does nothing if it is so already, as its controller or not.
pub fn set_owner<O: Typed, K: Object>(owner: &O, object: &mut K) -> Result<(), OwnerError> {
    let reference = reference(owner, object)?;
    let mut owners = object.meta().owner_references.iter().flatten();
    if !owners.any(|known| known.uid == reference.uid) {
        put(object, reference);
    }
    Ok(())
}

fn reference<O: Typed, K: Object>(owner: &O, object: &K) -> Result<OwnerReference, OwnerError> {
    let name = || {
        format!(
            "{} {}",
            <O as kube::Resource>::kind(&()),
            ObjectKey::from_object(owner)
        )
    };
    let Some(reference) = owner.owner_ref(&()) else {
        return Err(OwnerError::NotCreated { owner: name() });
    };
    let namespace = owner.namespace();
    if namespace.is_some() && namespace != object.namespace() {
        return Err(OwnerError::OtherNamespace {
            owner: name(),
            object: ObjectKey::from_object(object),
        });
    }
    Ok(reference)
}

fn put<K: Object>(object: &mut K, reference: OwnerReference) {
    let owners = object.meta_mut().owner_references.get_or_insert_default();
    match owners.iter_mut().find(|known| known.uid == reference.uid) {
        Some(known) => *known = reference,
        None => owners.push(reference),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    fn owner(uid: &str) -> ReplicaSet {
        let meta = json!({"name": "web", "namespace": "a", "uid": uid});
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    }

    fn pod(namespace: &str) -> Pod {
        let meta = json!({"name": "p", "namespace": namespace});
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    }

    #[test]
    fn an_object_has_one_controller() {
        let mut pod = pod("a");
        set_controller(&owner("1"), &mut pod).unwrap();
        set_controller(&owner("1"), &mut pod).unwrap();
        assert_eq!(pod.controller_of::<ReplicaSet>(), Some("1".into()));
        assert_eq!(pod.metadata.owner_references.as_ref().unwrap().len(), 1);
        let refused = set_controller(&owner("2"), &mut pod).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a/p is controlled by ReplicaSet web already"
        );
        set_owner(&owner("2"), &mut pod).unwrap();
        assert_eq!(pod.controller(), Some("1".into()));
        assert_eq!(pod.metadata.owner_references.unwrap().len(), 2);
    }

    #[test]
    fn owners_are_of_the_same_namespace_or_of_none() {
        let refused = set_controller(&owner("1"), &mut pod("b")).unwrap_err();
        assert!(matches!(refused, OwnerError::OtherNamespace { .. }));
        let mut node = Node::default();
        node.metadata.name = Some("n".to_owned());
        let refused = set_owner(&node, &mut pod("b")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Node n cannot own anything before it is created: it has no uid"
        );
        node.metadata.uid = Some("3".to_owned());
        set_owner(&node, &mut pod("b")).unwrap();
    }
}
