//! Realistic Pods of a few Deployments, and an API server that serves nothing else.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use sendo::Random;
use serde_json::{Value, json};

/// A Pod of one of ten Deployments: about 5 KB of JSON, managedFields included.
pub(crate) fn pod(number: u64) -> Value {
    let random = Random::from_seed(number);
    let app = number % 10;
    let hex = |len: usize| -> String {
        (0..len)
            .map(|_| format!("{:x}", random.below(0..16)))
            .collect()
    };
    let hash = format!("{:x}", 0x7d4b_9c5f_u64.wrapping_mul(app + 1) & 0xffff_ffff);
    let image = format!("registry.example.com/platform/app-{app}:v1.{app}.3");
    let minute = random.below(0..60);
    let time = |second: u64| format!("2026-01-01T08:{minute:02}:{second:02}Z");
    let owner = Random::from_seed(app).uuid();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": time(30)});
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": 8080, "scheme": "HTTP"},
        "initialDelaySeconds": 5, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("app-{app}-{hash}-{}", random.name_suffix(5)),
            "generateName": format!("app-{app}-{hash}-"), "namespace": format!("team-{app}"),
            "uid": random.uuid(), "resourceVersion": (100_000 + number).to_string(), "creationTimestamp": time(0),
            "labels": {"app.kubernetes.io/name": format!("app-{app}"), "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": hash, "topology.kubernetes.io/region": "eu-1"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
                "checksum/config": format!("{:064x}", app + 77)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{app}-{hash}"),
                "uid": owner, "controller": true, "blockOwnerDeletion": true}],
            "managedFields": managed_fields(&owner, &time(1)),
        },
        "spec": {
            "volumes": [{"name": format!("kube-api-access-{}", random.name_suffix(5)), "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}],
                "defaultMode": 420}}],
            "containers": [{"name": "app", "image": image, "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                    {"name": "DATABASE_URL", "value": format!("postgres://db-{app}.shop.svc:5432/app")}],
                "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}},
                "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent"}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": format!("app-{app}"), "serviceAccount": format!("app-{app}"),
            "nodeName": format!("node-{:03}", random.below(0..200)), "securityContext": {},
            "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": time(0),
            "hostIP": format!("10.0.0.{}", random.below(1..255)),
            "podIP": format!("10.244.{}.{}", random.below(0..256), random.below(1..255)),
            "conditions": (["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]).map(condition),
            "containerStatuses": [{"name": "app", "image": image, "ready": true, "started": true, "restartCount": 0,
                "imageID": format!("registry.example.com/platform/app@sha256:{:064x}", app + 5),
                "containerID": format!("containerd://{}", hex(64)),
                "state": {"running": {"startedAt": time(20)}}, "lastState": {}}],
        },
    })
}

fn managed_fields(owner: &str, time: &str) -> Value {
    let of = |names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| (format!("f:{name}"), json!({})))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!([
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:generateName": {}, "f:labels": of(&["app.kubernetes.io/name",
                "app.kubernetes.io/part-of", "pod-template-hash"]), "f:ownerReferences": {".": {}, (format!("k:{{\"uid\":\"{owner}\"}}")): {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"app\"}": of(&["env", "image", "imagePullPolicy", "livenessProbe", "name",
                    "ports", "readinessProbe", "resources", "terminationMessagePath", "terminationMessagePolicy"])},
                    "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}, "f:serviceAccount": {}}}},
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
            "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {
                "k:{\"type\":\"ContainersReady\"}": of(&["lastProbeTime", "lastTransitionTime", "status", "type"]),
                "k:{\"type\":\"Initialized\"}": of(&["lastProbeTime", "lastTransitionTime", "status", "type"]),
                "k:{\"type\":\"Ready\"}": of(&["lastProbeTime", "lastTransitionTime", "status", "type"])},
                "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:startTime": {}}}},
    ])
}

/// A client of an API server that streams `count` Pods to each watch, and then sends nothing more.
pub(crate) fn api_with(count: u64) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        assert!(
            request
                .uri()
                .query()
                .is_some_and(|query| query.contains("sendInitialEvents=true"))
        );
        let line = |kind: &str, object: Value| {
            let line = format!("{}\n", json!({"type": kind, "object": object}));
            Ok::<_, Infallible>(Frame::data(Bytes::from(line)))
        };
        let pods = stream::iter(0..count).map(move |number| line("ADDED", pod(number)));
        let end = line(
            "BOOKMARK",
            json!({"metadata": {"resourceVersion": (100_000 + count).to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"}}}),
        );
        let frames = pods.chain(stream::iter([end])).chain(stream::pending());
        Ok::<_, Infallible>(Response::new(StreamBody::new(frames.boxed())))
    });
    kube::Client::new(service, "default")
}
