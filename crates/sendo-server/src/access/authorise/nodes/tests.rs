//! Tests which objects a node may read because its pods refer to them.

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
    let object = ObjectRef {
        kind,
        namespace: "n".to_owned(),
        name: name.to_owned(),
    };
    bound.uses("node-0", &object)
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

/// What a pod on `node-0` with such a spec refers to, besides itself.
fn referred(spec: Value) -> Vec<(Kind, String)> {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    pod["spec"]["nodeName"] = "node-0".into();
    let objects = references::referenced_objects(&pod).into_iter();
    let others = objects.filter(|object| object.kind != Kind::Pod);
    others.map(|object| (object.kind, object.name)).collect()
}

#[test]
fn every_field_that_names_a_secret_refers_to_it() {
    let volumes = [
        json!({"secret": {"secretName": "s"}}),
        json!({"azureFile": {"secretName": "s", "shareName": "x"}}),
        json!({"cephfs": {"secretRef": {"name": "s"}}}),
        json!({"cinder": {"secretRef": {"name": "s"}}}),
        json!({"flexVolume": {"secretRef": {"name": "s"}}}),
        json!({"iscsi": {"secretRef": {"name": "s"}}}),
        json!({"rbd": {"secretRef": {"name": "s"}}}),
        json!({"scaleIO": {"secretRef": {"name": "s"}}}),
        json!({"storageos": {"secretRef": {"name": "s"}}}),
        json!({"csi": {"nodePublishSecretRef": {"name": "s"}}}),
        json!({"projected": {"sources": [{"secret": {"name": "s"}}]}}),
    ];
    for volume in volumes {
        let found = referred(json!({"volumes": [volume]}));
        assert_eq!(found, [(Kind::Secret, "s".to_owned())], "{volume}");
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in [
            json!({"envFrom": [{"secretRef": {"name": "s"}}]}),
            json!({"env": [{"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        ] {
            let found = referred(json!({list: [container]}));
            assert_eq!(found, [(Kind::Secret, "s".to_owned())], "{list}");
        }
    }
}

/// Whoever writes a pod chooses such names, and may not read Secrets by that.
#[test]
fn a_word_that_happens_to_stand_in_a_pod_refers_to_nothing() {
    let words = json!({
        "secretName": "s", "secret": {"name": "s", "secretName": "s"},
        "secretRef": {"name": "s"}, "secretKeyRef": {"name": "s"},
        "nodePublishSecretRef": {"name": "s"}, "configMap": {"name": "s"},
        "configMapRef": {"name": "s"}, "configMapKeyRef": {"name": "s"},
        "claimName": "s", "resourceClaimName": "s",
    });
    for spec in [
        json!({"nodeSelector": words}),
        json!({"overhead": words}),
        json!({"affinity": {"podAffinity": {"labelSelector": {"matchLabels": words}}}}),
        json!({"topologySpreadConstraints": [{"labelSelector": {"matchLabels": words}}]}),
        json!({"containers": [{"resources": {"limits": words, "requests": words}}]}),
        json!({"volumes": [{"csi": {"volumeAttributes": words}}]}),
        json!({"volumes": [{"flexVolume": {"options": words}}]}),
        json!({"volumes": [{"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": words}}}}]}),
        words.clone(),
    ] {
        let mut found = referred(spec.clone());
        // Of the volume itself.
        found.retain(|(kind, name)| (*kind, name.as_str()) != (Kind::Claim, "p-"));
        assert!(found.is_empty(), "{spec}: {found:?}");
    }
}

#[test]
fn a_claim_of_devices_is_the_one_that_is_named_or_was_made() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"resourceClaims": [
            {"name": "a", "resourceClaimName": "named"},
            {"name": "b", "resourceClaimTemplateName": "template"},
            {"name": "c", "resourceClaimTemplateName": "template"},
        ]},
        "status": {
            "resourceClaimStatuses": [
                {"name": "b", "resourceClaimName": "made"},
                {"name": "c"},
                {"name": "d", "resourceClaimName": "of nobody"},
            ],
            "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
        },
    });
    let objects = references::referenced_objects(&pod).into_iter();
    let claims = objects.filter(|object| object.kind == Kind::ResourceClaim);
    let names: Vec<String> = claims.map(|object| object.name).collect();
    assert_eq!(names, ["extended", "made", "named"]);
}
