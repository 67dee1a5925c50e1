//! Metadata that is refused, and in which words.

use super::*;
use serde_json::json;

const RULES: MetaRules = MetaRules {
    scope: Scope::Namespaced,
    name: names::dns1123_subdomain,
    finalizers: FinalizerNames::DomainOrStandard,
};

fn created(metadata: Value) -> Vec<String> {
    let object = json!({ "metadata": metadata });
    let errors = validate_create(Meta::new(&object), &RULES, &Path::new("metadata"));
    errors.iter().map(Error::to_string).collect()
}

fn updated(old: Value, new: Value) -> Vec<String> {
    let (old, new) = (json!({ "metadata": old }), json!({ "metadata": new }));
    let path = Path::new("metadata");
    let errors = validate_update(Meta::new(&new), Meta::new(&old), RULES.finalizers, &path);
    errors.iter().map(Error::to_string).collect()
}

#[test]
fn a_plain_object_is_fine() {
    assert_eq!(created(json!({"name": "a", "namespace": "n"})), [""; 0]);
}

#[test]
fn a_name_and_a_namespace_are_required() {
    assert_eq!(
        created(json!({})),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value"
        ]
    );
}

#[test]
fn a_cluster_scoped_object_has_no_namespace() {
    let object = json!({"metadata": {"name": "a", "namespace": "n"}});
    let rules = MetaRules {
        scope: Scope::Cluster,
        ..RULES
    };
    let errors = validate_create(Meta::new(&object), &rules, &Path::new("metadata"));
    assert_eq!(
        errors[0].to_string(),
        "metadata.namespace: Forbidden: not allowed on this type"
    );
}

#[test]
fn annotation_keys_may_have_capital_domains() {
    assert_eq!(
        created(json!({"name": "a", "namespace": "n", "annotations": {"Upper.dev/k": "any\n"}})),
        [""; 0]
    );
    assert_eq!(
        created(json!({"name": "a", "namespace": "n", "labels": {"Upper.dev/k": "v"}})).len(),
        1
    );
}

#[test]
fn annotations_are_bounded_together() {
    let errors = created(
        json!({"name": "a", "namespace": "n", "annotations": {"k": "x".repeat(ANNOTATIONS_LIMIT)}}),
    );
    assert_eq!(
        errors,
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn owners_name_all_their_parts_and_one_controls() {
    let errors = created(json!({"name": "a", "namespace": "n", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true},
        {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "2", "controller": true},
        {"apiVersion": "apps/", "kind": "", "name": "", "uid": ""},
    ]}));
    assert_eq!(
        errors,
        [
            "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"q\",\"uid\":\"2\",\"controller\":true},{\"apiVersion\":\"apps/\",\"kind\":\"\",\"name\":\"\",\"uid\":\"\"}]: Only one reference can have Controller set to true. Found \"true\" in references for Pod/p and Pod/q",
            "metadata.ownerReferences.apiVersion: Invalid value: \"apps/\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
}

#[test]
fn finalizers_carry_a_domain_or_are_standard() {
    let meta = |finalizers: Value| json!({"name": "a", "namespace": "n", "finalizers": finalizers});
    assert_eq!(created(meta(json!(["example.dev/x", "orphan"]))), [""; 0]);
    assert_eq!(
        created(meta(json!(["keep"]))),
        [
            "metadata.finalizers[0]: Invalid value: \"keep\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
    assert_eq!(
        created(meta(json!(["orphan", "foregroundDeletion"]))),
        [
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set"
        ]
    );
}

#[test]
fn identity_does_not_change() {
    let old = json!({"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "1"});
    let new = json!({"name": "b", "namespace": "n", "uid": "2", "resourceVersion": "1", "deletionTimestamp": "2001-01-01T00:00:00Z"});
    assert_eq!(
        updated(old, new),
        [
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.uid: Invalid value: \"2\": field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable",
        ]
    );
}

#[test]
fn an_update_names_its_version() {
    assert_eq!(
        updated(json!({"name": "a"}), json!({"name": "a"})),
        ["metadata.resourceVersion: Invalid value: \"\": must be specified for an update"]
    );
}

#[test]
fn a_dying_object_takes_no_new_finalizers() {
    let dying = |finalizers: Value| json!({"name": "a", "resourceVersion": "1", "deletionTimestamp": "2001-01-01T00:00:00Z", "finalizers": finalizers});
    assert_eq!(
        updated(dying(json!(["a/a"])), dying(json!(["a/b", "a/a"]))),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/b\"}"
        ]
    );
    assert_eq!(
        updated(dying(json!(["a/a", "a/b"])), dying(json!(["a/b"]))),
        [""; 0]
    );
}
