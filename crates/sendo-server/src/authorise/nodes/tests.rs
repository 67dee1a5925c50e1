//! What a node may see of what its pods name.

use sendo_store::Revision;
use serde_json::json;

use super::*;

fn entry(pod: &Value) -> Entry {
    Entry {
        key: "/registry/core/pods/n/p".into(),
        value: pod.to_string().into(),
        created: Revision(1),
        modified: Revision(1),
        memo: Default::default(),
    }
}

fn uses(bound: &Bound, kind: Kind, name: &str) -> bool {
    let thing = Thing {
        kind,
        namespace: "n".to_owned(),
        name: name.to_owned(),
    };
    bound.uses("node-0", &thing)
}

#[test]
fn a_node_uses_what_its_pods_refer_to_as_long_as_they_are_there() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "nodeName": "node-0",
            "serviceAccountName": "robot",
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}],
                            "envFrom": [{"configMapRef": {"name": "all"}}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "files"}},
                {"name": "b", "projected": {"sources": [{"configMap": {"name": "part"}}]}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "disk"}},
                {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
            ],
        },
    });
    let mut bound = Bound::default();
    bound.put(&entry(&pod));
    for (kind, name) in [
        (Kind::Pod, "p"),
        (Kind::ServiceAccount, "robot"),
        (Kind::Secret, "pull"),
        (Kind::Secret, "key"),
        (Kind::Secret, "files"),
        (Kind::ConfigMap, "all"),
        (Kind::ConfigMap, "part"),
        (Kind::Claim, "disk"),
        (Kind::Claim, "p-d"),
    ] {
        assert!(uses(&bound, kind, name), "{kind:?} {name}");
    }
    assert!(!uses(&bound, Kind::Secret, "other"));
    bound.remove("/registry/core/pods/n/p");
    assert!(bound.pods.is_empty() && bound.used.is_empty());
}

#[test]
fn a_pod_without_a_node_concerns_none() {
    let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {}});
    let mut bound = Bound::default();
    bound.put(&entry(&pod));
    assert!(bound.used.is_empty());
}
