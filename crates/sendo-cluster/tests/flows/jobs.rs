//! Jobs: their pods run until enough of them have succeeded, and each is counted once.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, phase, with_faults};

const RUN_FOR: &str = "simulation.sendo.dev/run-for";
const EXIT_CODE: &str = "simulation.sendo.dev/exit-code";

/// A Job in `default` with that spec, whose pods are never restarted.
fn job(name: &str, annotations: Value, more: Value) -> Job {
    let mut spec = json!({"template": {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.dev/app:1"}]},
    }});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
}

fn status(now: &View, name: &str) -> JobStatus {
    let job = now.get::<Job>(format!("default/{name}"));
    job.and_then(|job| job.status).unwrap_or_default()
}

/// The types of the conditions that hold, in order.
fn conditions(status: &JobStatus) -> Vec<&str> {
    let conditions = status.conditions.iter().flatten();
    let holding = conditions.filter(|condition| condition.status == "True");
    holding.map(|condition| condition.type_.as_str()).collect()
}

/// Why the Job ended.
fn reason(status: &JobStatus) -> &str {
    let last = status.conditions.iter().flatten().last();
    last.and_then(|condition| condition.reason.as_deref())
        .unwrap_or_default()
}

async fn until_ended(cluster: &TestCluster, name: &str) -> JobStatus {
    cluster
        .until(&format!("{name} has ended"), |now| {
            let status = status(now, name);
            let ended = conditions(&status);
            ended.contains(&"Complete") || ended.contains(&"Failed")
        })
        .await;
    cluster.now(|now| status(now, name))
}

/// The pods of a Job, by name.
fn pods(now: &View, name: &str) -> Vec<Pod> {
    let mut pods = now.list::<Pod>();
    pods.retain(|pod| pod.label("batch.kubernetes.io/job-name") == Some(name));
    pods
}

/// Has the containers of a pod exit now with that code.
async fn exit(cluster: &TestCluster, pod: &Pod, code: i32) {
    let annotations = json!({RUN_FOR: "0s", EXIT_CODE: code.to_string()});
    cluster
        .patch(pod, json!({"metadata": {"annotations": annotations}}))
        .await;
}

async fn until_running(cluster: &TestCluster, name: &str, count: usize) -> Vec<Pod> {
    let running = |now: &View| {
        let mut pods = pods(now, name);
        pods.retain(|pod| phase(pod) == "Running" && !pod.is_being_deleted());
        pods
    };
    cluster
        .until(&format!("{count} pods of {name} run"), |now| {
            running(now).len() == count
        })
        .await;
    cluster.now(running)
}

#[sendo_test::test]
async fn a_job_runs_to_completion(cluster: TestCluster) {
    let made = cluster
        .create(&job(
            "j",
            json!({}),
            json!({"completions": 3, "parallelism": 2}),
        ))
        .await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!(conditions(&status), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(
        (status.succeeded, status.active, status.failed),
        (Some(3), None, None)
    );
    assert_eq!((status.ready, status.terminating), (Some(0), Some(0)));
    assert!(status.completion_time.is_some() && status.start_time.is_some());
    let pods = cluster.now(|now| pods(now, "j"));
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!((phase(pod), &pod.metadata.finalizers), ("Succeeded", &None));
    }
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    assert_eq!(
        events
            .iter()
            .filter(|event| event.starts_with("SuccessfulCreate"))
            .count(),
        3
    );
    assert_eq!(
        events.last().map(String::as_str),
        Some("Completed Job completed")
    );
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn never_more_pods_run_than_the_parallelism(cluster: TestCluster) {
    let more = json!({"completions": 5, "parallelism": 2});
    cluster.create(&job("j", json!({}), more)).await;
    let most = std::sync::atomic::AtomicUsize::new(0);
    cluster
        .until("it is complete", |now| {
            let unfinished = pods(now, "j");
            let unfinished = unfinished
                .iter()
                .filter(|p| !matches!(phase(p), "Succeeded"));
            most.fetch_max(unfinished.count(), std::sync::atomic::Ordering::Relaxed);
            conditions(&status(now, "j")).contains(&"Complete")
        })
        .await;
    assert_eq!(most.into_inner(), 2);
}

#[sendo_test::test]
async fn a_failed_pod_is_replaced_after_a_backoff_until_the_limit(cluster: TestCluster) {
    let failing = job("j", json!({EXIT_CODE: "1"}), json!({"backoffLimit": 2}));
    let made = cluster.create(&failing).await;
    let begun = cluster.world().clock().now();
    let status = until_ended(&cluster, "j").await;
    // Two replacements, after 10 and 20 seconds.
    let took = (cluster.world().clock().now() - begun).as_secs();
    assert!((30..40).contains(&took), "{took} s");
    assert_eq!(conditions(&status), ["FailureTarget", "Failed"]);
    assert_eq!(
        (reason(&status), status.failed),
        ("BackoffLimitExceeded", Some(3))
    );
    cluster.pass(Duration::from_secs(1)).await;
    let last = events_about(&cluster, made.uid().as_str()).pop();
    let expected = "BackoffLimitExceeded Job has reached the specified backoff limit";
    assert_eq!(last.as_deref(), Some(expected));
}

#[sendo_test::test]
async fn restarts_in_place_count_towards_the_limit(cluster: TestCluster) {
    let mut failing = job("j", json!({EXIT_CODE: "1"}), json!({"backoffLimit": 2}));
    let template = failing.spec.as_mut().unwrap().template.spec.as_mut();
    template.unwrap().restart_policy = Some("OnFailure".to_owned());
    cluster.create(&failing).await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!(
        (reason(&status), status.failed),
        ("BackoffLimitExceeded", Some(1))
    );
    cluster
        .until("its pod is gone", |now| pods(now, "j").is_empty())
        .await;
}

#[sendo_test::test]
async fn a_job_that_fails_deletes_its_active_pods(cluster: TestCluster) {
    let more = json!({"backoffLimit": 0, "parallelism": 3, "completions": 3});
    cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), more))
        .await;
    let running = until_running(&cluster, "j", 3).await;
    exit(&cluster, &running[0], 1).await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!((status.failed, status.terminating), (Some(3), Some(0)));
    let left = cluster.now(|now| pods(now, "j"));
    assert_eq!(left.len(), 1, "the failed pod stays for its logs");
}

#[sendo_test::test]
async fn a_deadline_ends_a_job(cluster: TestCluster) {
    let more = json!({"activeDeadlineSeconds": 60});
    cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), more))
        .await;
    until_running(&cluster, "j", 1).await;
    cluster.pass(Duration::from_secs(55)).await;
    assert!(conditions(&cluster.now(|now| status(now, "j"))).is_empty());
    let status = until_ended(&cluster, "j").await;
    assert_eq!(reason(&status), "DeadlineExceeded");
}

#[sendo_test::test]
async fn each_index_has_a_pod_of_its_own(cluster: TestCluster) {
    let more = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4});
    cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), more))
        .await;
    let running = until_running(&cluster, "j", 4).await;
    for (index, pod) in running.iter().enumerate() {
        let text = index.to_string();
        assert!(
            pod.name().starts_with(&format!("j-{index}-")),
            "{}",
            pod.name()
        );
        assert_eq!(
            pod.label("batch.kubernetes.io/job-completion-index"),
            Some(text.as_str())
        );
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.hostname, Some(format!("j-{index}")));
        let variable = &spec.containers[0].env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    }
    for index in [0, 1, 3] {
        exit(&cluster, &running[index], 0).await;
    }
    cluster
        .until("three have succeeded", |now| {
            status(now, "j").succeeded == Some(3)
        })
        .await;
    let so_far = cluster.now(|now| status(now, "j"));
    assert_eq!(so_far.completed_indexes.as_deref(), Some("0,1,3"));
    exit(&cluster, &running[2], 0).await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!(status.completed_indexes.as_deref(), Some("0-3"));
}

#[sendo_test::test]
async fn an_index_fails_alone_and_backs_off_alone(cluster: TestCluster) {
    let more = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2,
        "backoffLimitPerIndex": 1});
    cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), more))
        .await;
    let running = until_running(&cluster, "j", 2).await;
    exit(&cluster, &running[0], 1).await;
    cluster.pass(Duration::from_secs(15)).await;
    let again = until_running(&cluster, "j", 2).await;
    let replacement = again
        .iter()
        .find(|pod| pod.name().starts_with("j-0-"))
        .unwrap();
    let failures = replacement.annotation("batch.kubernetes.io/job-index-failure-count");
    assert_eq!(failures, Some("1"));
    exit(&cluster, replacement, 1).await;
    cluster
        .until("the index has failed", |now| {
            status(now, "j").failed_indexes.as_deref() == Some("0")
        })
        .await;
    exit(&cluster, &running[1], 0).await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!(reason(&status), "FailedIndexes");
    assert_eq!((status.succeeded, status.failed), (Some(1), Some(2)));
    assert_eq!(status.completed_indexes.as_deref(), Some("1"));
}

#[sendo_test::test]
async fn a_failure_policy_ends_a_job_or_ignores_a_failure(cluster: TestCluster) {
    let codes = |action: &str, code: i32| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    let rules = json!([codes("FailJob", 42), codes("Ignore", 7)]);
    let more = json!({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}});
    cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), more))
        .await;
    let running = until_running(&cluster, "j", 1).await;
    exit(&cluster, &running[0], 7).await;
    cluster
        .until("another pod runs", |now| {
            let pods = pods(now, "j");
            pods.len() == 2 && pods.iter().any(|pod| phase(pod) == "Running")
        })
        .await;
    assert_eq!(cluster.now(|now| status(now, "j")).failed, None);
    let running = until_running(&cluster, "j", 1).await;
    exit(&cluster, &running[0], 42).await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!(
        (reason(&status), status.failed),
        ("PodFailurePolicy", Some(1))
    );
    let name = running[0].name();
    let expected = format!(
        "Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    );
    let message = status.conditions.unwrap().pop().unwrap().message;
    assert_eq!(message, Some(expected));
}

#[sendo_test::test]
async fn a_success_policy_ends_a_job_early(cluster: TestCluster) {
    let more = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
        "successPolicy": {"rules": [{"succeededIndexes": "1"}]}});
    cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), more))
        .await;
    let running = until_running(&cluster, "j", 3).await;
    exit(&cluster, &running[1], 0).await;
    let status = until_ended(&cluster, "j").await;
    assert_eq!(conditions(&status), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(
        (reason(&status), status.succeeded),
        ("SuccessPolicy", Some(1))
    );
    assert_eq!(cluster.now(|now| pods(now, "j")).len(), 1);
}

#[sendo_test::test]
async fn a_suspended_job_has_no_pods(cluster: TestCluster) {
    let suspended = job("j", json!({RUN_FOR: "forever"}), json!({"suspend": true}));
    let made = cluster.create(&suspended).await;
    cluster
        .until("it says so", |now| {
            conditions(&status(now, "j")) == ["Suspended"]
        })
        .await;
    assert!(cluster.now(|now| pods(now, "j")).is_empty());
    assert_eq!(cluster.now(|now| status(now, "j")).start_time, None);
    cluster
        .patch(&made, json!({"spec": {"suspend": false}}))
        .await;
    until_running(&cluster, "j", 1).await;
    cluster
        .patch(&made, json!({"spec": {"suspend": true}}))
        .await;
    cluster
        .until("its pod is gone", |now| {
            let status = status(now, "j");
            pods(now, "j").is_empty() && status.active.is_none() && status.failed.is_none()
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    let words = ["Suspended Job suspended", "Resumed Job resumed"];
    assert!(
        words
            .iter()
            .all(|word| events.iter().any(|event| event == word)),
        "{events:?}"
    );
}

#[sendo_test::test]
async fn a_job_of_another_manager_is_left_alone(cluster: TestCluster) {
    let more = json!({"managedBy": "example.dev/queue"});
    cluster.create(&job("j", json!({}), more)).await;
    cluster.pass(Duration::from_secs(1)).await;
    cluster.stays_quiet_for(Duration::from_secs(3600)).await;
    assert!(cluster.now(|now| pods(now, "j")).is_empty());
}

#[sendo_test::test]
async fn pods_are_replaced_when_they_terminate_or_only_when_they_have_failed(cluster: TestCluster) {
    for (name, policy) in [("early", "TerminatingOrFailed"), ("late", "Failed")] {
        let more = json!({"podReplacementPolicy": policy});
        cluster
            .create(&job(name, json!({RUN_FOR: "forever"}), more))
            .await;
        let running = until_running(&cluster, name, 1).await;
        cluster.delete(&running[0]).await;
        cluster
            .until("another pod runs", |now| {
                let pods = pods(now, name);
                pods.iter()
                    .any(|pod| pod.uid() != running[0].uid() && phase(pod) == "Running")
            })
            .await;
        cluster
            .until("it is counted", |now| status(now, name).failed == Some(1))
            .await;
    }
}

#[sendo_test::test]
async fn a_job_whose_time_is_up_is_deleted_with_its_pods(cluster: TestCluster) {
    cluster
        .create(&job("j", json!({}), json!({"ttlSecondsAfterFinished": 60})))
        .await;
    until_ended(&cluster, "j").await;
    cluster.pass(Duration::from_secs(50)).await;
    assert!(cluster.get::<Job>("default/j").is_some());
    cluster
        .until("nothing is left", |now| {
            now.get::<Job>("default/j").is_none() && pods(now, "j").is_empty()
        })
        .await;
}

#[sendo_test::test]
async fn a_deleted_job_leaves_no_finalizer_behind(cluster: TestCluster) {
    let made = cluster
        .create(&job("j", json!({RUN_FOR: "forever"}), json!({})))
        .await;
    let running = until_running(&cluster, "j", 1).await;
    let orphaning = cluster.client().delete(&made);
    orphaning
        .propagation(sendo::client::Propagation::Orphan)
        .await
        .expect("a deletion");
    cluster
        .until("its pod is nobody's", |now| {
            let pod = now.get::<Pod>(running[0].key()).expect("the pod stays");
            pod.controller().is_none() && pod.metadata.finalizers.is_none()
        })
        .await;
}

#[sendo_test::test(seeds = 3)]
async fn faults_neither_lose_pods_nor_count_them_twice(beside: TestCluster) {
    let (cluster, faults) = with_faults(&beside, "job-controller", 0.2).await;
    let more = json!({"completionMode": "Indexed", "completions": 6, "parallelism": 3});
    cluster.create(&job("indexed", json!({}), more)).await;
    cluster
        .create(&job(
            "plain",
            json!({}),
            json!({"completions": 6, "parallelism": 3}),
        ))
        .await;
    for name in ["indexed", "plain"] {
        let status = until_ended(&cluster, name).await;
        assert_eq!((status.succeeded, status.failed), (Some(6), None), "{name}");
    }
    assert!(faults.injected() > 0);
    faults.end();
    cluster
        .until("no finalizer is left", |now| {
            now.list::<Pod>()
                .iter()
                .all(|pod| pod.metadata.finalizers.is_none())
        })
        .await;
    cluster.stop().await;
}
