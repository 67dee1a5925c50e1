//! Pods meet the level that the labels of their namespace ask for.

use serde_json::{Value, json};

use super::support::{Answer, Fixture};

const RESTRICTED: &str = "pod-security.kubernetes.io/enforce";

fn labels(pairs: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<String, Value> = pairs
        .iter()
        .map(|(mode, value)| (format!("pod-security.kubernetes.io/{mode}"), json!(value)))
        .collect();
    Value::Object(labels)
}

async fn namespace(f: &Fixture, name: &str, pairs: &[(&str, &str)]) -> Answer {
    let object = json!({"metadata": {"name": name, "labels": labels(pairs)}});
    f.json("POST /api/v1/namespaces", object).await
}

async fn create_pod(f: &Fixture, namespace: &str, name: &str, spec: Value) -> Answer {
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    if let Some(prefix) = name.strip_suffix('-') {
        pod["metadata"] = json!({"generateName": format!("{prefix}-")});
    }
    let line = format!("POST /api/v1/namespaces/{namespace}/pods");
    f.json(&line, pod).await
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_violates_what_is_enforced_is_refused() {
    let f = Fixture::start().await;
    namespace(
        &f,
        "safe",
        &[("enforce", "baseline"), ("enforce-version", "v1.30")],
    )
    .await;
    let why = "violates PodSecurity \"baseline:v1.30\": host namespaces (hostPID=true)";
    let refused = create_pod(&f, "safe", "p", json!({"hostPID": true})).await;
    let message = format!("pods \"p\" is forbidden: {why}");
    assert_eq!(refused.refusal(), (403, message));
    assert_eq!(
        refused.warnings, [""; 0],
        "who is refused need not be warned"
    );
    let refused = create_pod(&f, "safe", "drawn-", json!({"hostPID": true})).await;
    assert_eq!(refused.refusal().1, format!("pods is forbidden: {why}"));
    assert_eq!(create_pod(&f, "safe", "p", json!({})).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_brings_no_image_is_not_checked() {
    let f = Fixture::start().await;
    namespace(&f, "late", &[]).await;
    create_pod(&f, "late", "p", json!({"hostIPC": true})).await;
    let enforce = json!({"metadata": {"labels": {RESTRICTED: "restricted"}}});
    let labelled = f.merge("/api/v1/namespaces/late", enforce).await;
    assert_eq!(labelled.warnings.len(), 2, "{:?}", labelled.warnings);
    assert!(labelled.warnings[0].contains("existing pods in namespace"));
    assert!(labelled.warnings[1].contains("p: host namespaces, allowPrivilegeEscalation != false"));
    let uri = "/api/v1/namespaces/late/pods/p";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(f.merge(uri, label).await.code, 200);
    let status = json!({"status": {"phase": "Running"}});
    assert_eq!(f.merge(&format!("{uri}/status"), status).await.code, 200);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let line = format!("PATCH {uri}");
    assert_eq!(f.call(&line, &strategic, image.to_string()).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn a_workload_is_warned_of_and_passes() {
    let f = Fixture::start().await;
    namespace(
        &f,
        "warned",
        &[("enforce", "restricted"), ("warn", "baseline")],
    )
    .await;
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]},
    });
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let line = "POST /apis/apps/v1/namespaces/warned/deployments";
    let made = f.json(line, deployment).await;
    assert_eq!(made.code, 201);
    assert_eq!(
        made.warnings,
        [
            "299 - \"would violate PodSecurity \\\"baseline:latest\\\": host namespaces (hostNetwork=true)\""
        ]
    );
    let scale = json!({"spec": {"replicas": 3}});
    let uri = "/apis/apps/v1/namespaces/warned/deployments/d/scale";
    assert_eq!(f.merge(uri, scale).await.warnings, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn labels_that_cannot_be_read_are_refused() {
    let f = Fixture::start().await;
    let refused = namespace(
        &f,
        "odd",
        &[("enforce", "strict"), ("warn-version", "1.30")],
    )
    .await;
    let (code, message) = refused.refusal();
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "Namespace \"odd\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: \
         Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
         metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.30\": \
         must be \"latest\" or \"v1.x\"]"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_exempt_is_not_checked() {
    use sendo_server::pod_security::{Level, LevelVersion, Policy};

    let f = Fixture::start_with(|options| {
        let restricted = LevelVersion {
            level: Level::Restricted,
            ..LevelVersion::default()
        };
        let security = &mut options.pod_security;
        security.defaults = Policy {
            enforce: restricted,
            ..Policy::default()
        };
        security.exempt_namespaces = vec!["trusted".to_owned()];
        security.exempt_runtime_classes = vec!["vm".to_owned()];
    })
    .await;
    let warned = namespace(&f, "trusted", &[("enforce", "baseline")]).await;
    assert_eq!(
        warned.warnings,
        [
            "299 - \"namespace \\\"trusted\\\" is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored\""
        ]
    );
    assert_eq!(create_pod(&f, "trusted", "p", json!({})).await.code, 201);
    namespace(&f, "other", &[]).await;
    assert_eq!(create_pod(&f, "other", "p", json!({})).await.code, 403);
    let class = json!({"metadata": {"name": "vm"}, "handler": "vm"});
    f.json("POST /apis/node.k8s.io/v1/runtimeclasses", class)
        .await;
    let in_vm = json!({"runtimeClassName": "vm"});
    assert_eq!(create_pod(&f, "other", "p", in_vm).await.code, 201);
}
