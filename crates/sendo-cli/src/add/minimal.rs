//! The least that the API server takes as an object of a built-in kind, for tests.

use serde_json::{Value, json};

/// The fields beside `metadata`; `None` for kinds that this does not know.
pub(super) fn minimal_fields(kind: &str) -> Option<Value> {
    let containers = json!([{"name": "main", "image": "nginx"}]);
    let labels = json!({"app": "example"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let selector = json!({"matchLabels": labels});
    let job = json!({"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}});
    Some(match kind {
        "ConfigMap" | "Namespace" | "Node" | "Secret" | "ServiceAccount" | "Lease"
        | "NetworkPolicy" | "ResourceQuota" | "LimitRange" | "Endpoints" | "Role"
        | "ClusterRole" => json!({}),
        "Pod" => json!({"spec": {"containers": containers}}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "Deployment" | "ReplicaSet" | "DaemonSet" => {
            json!({"spec": {"selector": selector, "template": template}})
        }
        "StatefulSet" => {
            json!({"spec": {"selector": selector, "serviceName": "example", "template": template}})
        }
        "Job" => json!({"spec": job}),
        "CronJob" => json!({"spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job}}}),
        "PersistentVolumeClaim" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }}),
        "Ingress" => {
            json!({"spec": {"defaultBackend": {"service": {"name": "example", "port": {"number": 80}}}}})
        }
        "HorizontalPodAutoscaler" => json!({"spec": {
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "example"},
        }}),
        "PodDisruptionBudget" => json!({"spec": {"minAvailable": 1, "selector": selector}}),
        "StorageClass" => json!({"provisioner": "example.dev/disk"}),
        _ => return None,
    })
}
