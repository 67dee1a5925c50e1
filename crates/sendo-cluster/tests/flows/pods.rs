//! The life of a pod on its node: probes, hooks, restarts, deadlines, admission.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use sendo::ObjectExt;
use sendo_test::TestCluster;
use serde_json::{Value, json};

use super::{object, phase, pod};

/// A pod `p` of one container `main` with these fields, and these annotations.
fn pod_with(container: Value, annotations: Value) -> Pod {
    let mut main = json!({"name": "main", "image": "example.dev/app:1"});
    for (field, value) in container.as_object().into_iter().flatten() {
        main[field] = value.clone();
    }
    object(json!({
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"containers": [main]},
    }))
}

fn main_status(pod: &Pod) -> Option<ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first().cloned()
}

fn state(pod: &Pod) -> ContainerState {
    let status = main_status(pod);
    status.and_then(|status| status.state).unwrap_or_default()
}

fn waits_with(pod: &Pod, reason: &str) -> bool {
    let waiting = state(pod).waiting.and_then(|waiting| waiting.reason);
    waiting.as_deref() == Some(reason)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.status == "True")
}

/// Waits until the pod `p` is as `wanted`, and returns it.
async fn until(cluster: &TestCluster, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
    cluster
        .until(what, |now| {
            now.get::<Pod>("default/p").is_some_and(|pod| wanted(&pod))
        })
        .await;
    cluster.get::<Pod>("default/p").unwrap()
}

/// How long after the start of its container a pod became ready, in seconds.
fn seconds_to_ready(pod: &Pod) -> i64 {
    let started = state(pod).running.unwrap().started_at.unwrap().0;
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    let since = ready.last_transition_time.as_ref().unwrap().0;
    since.as_second() - started.as_second()
}

#[sendo_test::test]
async fn a_pod_is_ready_when_its_readiness_probe_has_succeeded(cluster: TestCluster) {
    let probe = json!({"httpGet": {"port": 80}, "initialDelaySeconds": 20});
    cluster
        .create(&pod_with(json!({"readinessProbe": probe}), json!({})))
        .await;
    let running = until(&cluster, "it runs", |pod| phase(pod) == "Running").await;
    assert!(!is_ready(&running));
    let ready = until(&cluster, "it is ready", is_ready).await;
    assert!((19..=21).contains(&seconds_to_ready(&ready)));
}

#[sendo_test::test]
async fn other_probes_wait_for_the_startup_probe(cluster: TestCluster) {
    let probes = json!({
        "startupProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 30},
        "readinessProbe": {"tcpSocket": {"port": 80}},
    });
    cluster.create(&pod_with(probes, json!({}))).await;
    let running = until(&cluster, "it runs", |pod| phase(pod) == "Running").await;
    assert_eq!(main_status(&running).unwrap().started, Some(false));
    let ready = until(&cluster, "it is ready", is_ready).await;
    assert_eq!(main_status(&ready).unwrap().started, Some(true));
    assert!((29..=31).contains(&seconds_to_ready(&ready)));
}

#[sendo_test::test]
async fn a_container_whose_liveness_probe_fails_is_started_again(cluster: TestCluster) {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2});
    let annotations = json!({"simulation.sendo.dev/failing-probes": "liveness"});
    cluster
        .create(&pod_with(json!({"livenessProbe": probe}), annotations))
        .await;
    let again = until(&cluster, "it was started again", |pod| {
        main_status(pod).is_some_and(|status| status.restart_count >= 2)
    })
    .await;
    let last = main_status(&again).unwrap().last_state.unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 143);
}

#[sendo_test::test]
async fn a_failing_readiness_probe_keeps_a_pod_running_and_not_ready(cluster: TestCluster) {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 1});
    let annotations = json!({"simulation.sendo.dev/failing-probes": "readiness"});
    cluster
        .create(&pod_with(json!({"readinessProbe": probe}), annotations))
        .await;
    until(&cluster, "it runs", |pod| phase(pod) == "Running").await;
    cluster.pass(Duration::from_secs(60)).await;
    let later = cluster.get::<Pod>("default/p").unwrap();
    assert!(!is_ready(&later));
    assert_eq!(main_status(&later).unwrap().restart_count, 0);
}

#[sendo_test::test]
async fn a_container_that_fails_backs_off(cluster: TestCluster) {
    let annotations = json!({
        "simulation.sendo.dev/run-for": "1s",
        "simulation.sendo.dev/exit-code": "7",
    });
    cluster.create(&pod_with(json!({}), annotations)).await;
    let waits = until(&cluster, "it waits", |pod| {
        waits_with(pod, "CrashLoopBackOff")
    })
    .await;
    assert_eq!(phase(&waits), "Running");
    let message = state(&waits).waiting.unwrap().message.unwrap();
    assert!(
        message.starts_with("back-off 10s restarting failed container=main pod=p_default("),
        "{message}"
    );
    let last = main_status(&waits).unwrap().last_state.unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 7);
    until(&cluster, "it is started again", |pod| {
        main_status(pod).is_some_and(|status| status.restart_count >= 3)
    })
    .await;
}

#[sendo_test::test]
async fn an_image_that_cannot_be_pulled_is_tried_again(cluster: TestCluster) {
    let annotations = json!({"simulation.sendo.dev/unpullable-images": "example.dev/*"});
    cluster.create(&pod_with(json!({}), annotations)).await;
    until(&cluster, "its image is missing", |pod| {
        waits_with(pod, "ErrImagePull")
    })
    .await;
    let waits = until(&cluster, "it waits", |pod| {
        waits_with(pod, "ImagePullBackOff")
    })
    .await;
    assert_eq!(phase(&waits), "Pending");
    until(&cluster, "it is tried again", |pod| {
        waits_with(pod, "ErrImagePull")
    })
    .await;
}

#[sendo_test::test]
async fn a_container_is_ready_after_its_post_start_hook(cluster: TestCluster) {
    let hooks = json!({"lifecycle": {"postStart": {"sleep": {"seconds": 15}}}});
    cluster.create(&pod_with(hooks, json!({}))).await;
    let ready = until(&cluster, "it is ready", is_ready).await;
    assert!((14..=16).contains(&seconds_to_ready(&ready)));
}

#[sendo_test::test]
async fn a_pre_stop_hook_takes_its_time_before_the_end(cluster: TestCluster) {
    let hooks = json!({"lifecycle": {"preStop": {"sleep": {"seconds": 12}}}});
    let created = cluster.create(&pod_with(hooks, json!({}))).await;
    until(&cluster, "it runs", |pod| phase(pod) == "Running").await;
    let before = cluster.world().clock().now();
    cluster.delete(&created).await;
    cluster
        .until("it is gone", |now| now.get::<Pod>("default/p").is_none())
        .await;
    let took = cluster.world().clock().now() - before;
    assert!((12..=14).contains(&took.as_secs()), "{took:?}");
}

#[sendo_test::test]
async fn a_container_that_does_not_terminate_is_killed(cluster: TestCluster) {
    let annotations = json!({"simulation.sendo.dev/stop-after": "1h"});
    let mut slow = pod_with(json!({}), annotations);
    slow.spec.as_mut().unwrap().active_deadline_seconds = Some(5);
    slow.spec.as_mut().unwrap().termination_grace_period_seconds = Some(20);
    cluster.create(&slow).await;
    let ended = until(&cluster, "it has ended", |pod| phase(pod) == "Failed").await;
    let status = ended.status.as_ref().unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    let end = state(&ended).terminated.unwrap();
    assert_eq!(end.exit_code, 137);
    let ran = end.finished_at.unwrap().0.as_second() - end.started_at.unwrap().0.as_second();
    assert!((24..=26).contains(&ran), "{ran}");
}

#[sendo_test::test]
async fn sidecars_end_after_the_containers(cluster: TestCluster) {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "proxy", "image": "i", "restartPolicy": "Always"}],
    });
    let mut job = pod("p", json!({}), spec);
    let annotations = [("simulation.sendo.dev/run-for".to_owned(), "10s".to_owned())];
    job.metadata.annotations = Some(annotations.into());
    cluster.create(&job).await;
    let ended = until(&cluster, "it has succeeded", |pod| {
        phase(pod) == "Succeeded"
    })
    .await;
    let sidecar = ended
        .status
        .as_ref()
        .unwrap()
        .init_container_statuses
        .as_ref()
        .unwrap()[0]
        .state
        .clone()
        .and_then(|state| state.terminated)
        .unwrap();
    let main = state(&ended).terminated.unwrap();
    assert!(sidecar.finished_at.unwrap().0 >= main.finished_at.unwrap().0);
}

#[sendo_test::test]
async fn a_pod_that_does_not_fit_is_refused_by_its_node(cluster: TestCluster) {
    let requests = json!({"resources": {"requests": {"cpu": "33"}}});
    let mut large = pod_with(requests, json!({}));
    large.spec.as_mut().unwrap().node_name = Some("node-0".to_owned());
    cluster.create(&large).await;
    let refused = until(&cluster, "it is refused", |pod| phase(pod) == "Failed").await;
    let status = refused.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("OutOfcpu"));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 33000, used: 0, capacity: 32000"
        )
    );
}

#[sendo_test::test]
async fn a_host_port_belongs_to_one_pod(cluster: TestCluster) {
    let ports = json!({"ports": [{"containerPort": 80, "hostPort": 8080}]});
    let mut first = pod_with(ports, json!({}));
    first.spec.as_mut().unwrap().node_name = Some("node-0".to_owned());
    cluster.create(&first).await;
    until(&cluster, "the first runs", |pod| phase(pod) == "Running").await;
    first.metadata.name = Some("second".to_owned());
    cluster.create(&first).await;
    cluster
        .until("the second is refused", |now| {
            let second = now.get::<Pod>("default/second");
            let reason = second.and_then(|pod| pod.status.as_ref()?.reason.clone());
            reason.as_deref() == Some("NodePorts")
        })
        .await;
    assert_eq!(
        cluster
            .list::<Pod>()
            .iter()
            .filter(|pod| pod.name() == "p")
            .count(),
        1
    );
}
