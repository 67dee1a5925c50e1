//! The types of `request` and `namespaceObject`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel::{AUTHORIZER, Declared, ObjectType, RESOURCE_CHECK, Type};

pub(super) fn authorizer() -> Type {
    Type::Named(AUTHORIZER)
}

pub(super) fn resource_check() -> Type {
    Type::Named(RESOURCE_CHECK)
}

fn object<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
    let field = |(name, kind): (&str, Type)| {
        let declared = Declared {
            kind,
            element: None,
            max_elements: 0,
            min_size: 0,
        };
        (name.to_owned(), Arc::new(declared))
    };
    Type::Object(Arc::new(ObjectType {
        name: name.to_owned(),
        fields: BTreeMap::from(fields.map(field)),
    }))
}

fn texts() -> Type {
    Type::list(Type::Text)
}

pub(super) fn request() -> Type {
    let kind = object(
        "kubernetes.GroupVersionKind",
        ["group", "version", "kind"].map(|name| (name, Type::Text)),
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        ["group", "version", "resource"].map(|name| (name, Type::Text)),
    );
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", Type::Text),
            ("uid", Type::Text),
            ("groups", texts()),
            ("extra", Type::map(Type::Text, texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", Type::Text),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", Type::Text),
            ("name", Type::Text),
            ("namespace", Type::Text),
            ("operation", Type::Text),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

pub(super) fn namespace() -> Type {
    let labels = || Type::map(Type::Text, Type::Text);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", Type::Text),
            ("generateName", Type::Text),
            ("namespace", Type::Text),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", Type::Text),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::Text),
            ("finalizers", texts()),
        ],
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", Type::Text),
            ("type", Type::Text),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::Text),
            ("reason", Type::Text),
        ],
    );
    let status = object(
        "kubernetes.NamespaceStatus",
        [("conditions", Type::list(condition)), ("phase", Type::Text)],
    );
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", texts())]);
    object(
        "kubernetes.Namespace",
        [("metadata", metadata), ("spec", spec), ("status", status)],
    )
}
