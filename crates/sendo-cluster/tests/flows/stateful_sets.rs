//! StatefulSets: pods with names and claims of their own, in order.

use std::cell::Cell;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, phase, with_faults};

/// A StatefulSet `web` in `default`.
fn stateful_set(replicas: i32, more: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": replicas,
        "serviceName": "svc",
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("example.dev/app:1"),
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn claims() -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}])
}

/// The pods that stay, by name, each with its image.
fn pods(now: &View) -> Vec<Pod> {
    let mut pods = now.list::<Pod>();
    pods.retain(|pod| pod.label("app") == Some("web") && !pod.is_being_deleted());
    pods
}

fn names<K: ObjectExt>(objects: &[K]) -> Vec<&str> {
    objects.iter().map(ObjectExt::name).collect()
}

fn image(pod: &Pod) -> &str {
    let container = &pod.spec.as_ref().unwrap().containers[0];
    container.image.as_deref().unwrap_or_default()
}

fn status(now: &View) -> StatefulSetStatus {
    let set = now.get::<StatefulSet>("default/web");
    set.and_then(|set| set.status).unwrap_or_default()
}

async fn until_ready(cluster: &TestCluster, expected: &[&str]) {
    cluster
        .until(&format!("{expected:?} are ready"), |now| {
            let (pods, status) = (pods(now), status(now));
            names(&pods) == expected
                && pods.iter().all(|pod| phase(pod) == "Running")
                && status.ready_replicas.unwrap_or(0) as usize == expected.len()
                && status.replicas as usize == expected.len()
        })
        .await;
}

/// The order in which pods were created or deleted, by the events about the StatefulSet.
fn order(cluster: &TestCluster, set: &StatefulSet, reason: &str) -> Vec<String> {
    let events = events_about(cluster, set.uid().as_str());
    let of_pods = events
        .iter()
        .filter(|event| event.starts_with(reason) && event.contains(" Pod "));
    let name = |event: &String| event.split(' ').nth(3).unwrap_or_default().to_owned();
    of_pods
        .filter(|event| !event.contains("Claim"))
        .map(name)
        .collect()
}

#[sendo_test::test]
async fn pods_come_up_in_order_each_after_the_one_before_is_ready(cluster: TestCluster) {
    let set = cluster.create(&stateful_set(3, json!({}))).await;
    cluster
        .until("they come in order", |now| {
            let pods = pods(now);
            let unready = pods.iter().filter(|pod| phase(pod) != "Running").count();
            assert!(unready <= 1, "{:?}", names(&pods));
            pods.len() == 3 && unready == 0
        })
        .await;
    until_ready(&cluster, &["web-0", "web-1", "web-2"]).await;
    let pod = cluster.get::<Pod>("default/web-1").unwrap();
    assert_eq!(
        pod.label("statefulset.kubernetes.io/pod-name"),
        Some("web-1")
    );
    assert_eq!(pod.label("apps.kubernetes.io/pod-index"), Some("1"));
    let spec = pod.spec.unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("web-1"), Some("svc"))
    );
    cluster.pass(Duration::from_secs(1)).await;
    assert_eq!(
        order(&cluster, &set, "SuccessfulCreate"),
        ["web-0", "web-1", "web-2"]
    );
    let status = cluster.now(status);
    assert_eq!(
        (status.current_replicas, status.updated_replicas),
        (Some(3), Some(3))
    );
    assert_eq!(status.current_revision, status.update_revision);
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn pods_go_in_the_opposite_order(cluster: TestCluster) {
    let set = cluster.create(&stateful_set(3, json!({}))).await;
    until_ready(&cluster, &["web-0", "web-1", "web-2"]).await;
    cluster.patch(&set, json!({"spec": {"replicas": 1}})).await;
    until_ready(&cluster, &["web-0"]).await;
    cluster.pass(Duration::from_secs(1)).await;
    assert_eq!(
        order(&cluster, &set, "SuccessfulDelete"),
        ["web-2", "web-1"]
    );
}

#[sendo_test::test]
async fn parallel_pods_do_not_wait_for_each_other(cluster: TestCluster) {
    let mut set = stateful_set(3, json!({"podManagementPolicy": "Parallel"}));
    let template = &mut set.spec.as_mut().unwrap().template;
    let never_scheduled = json!({"scheduler": "none"});
    template.spec.as_mut().unwrap().node_selector =
        serde_json::from_value(never_scheduled).unwrap();
    cluster.create(&set).await;
    cluster
        .until("all exist", |now| {
            names(&pods(now)) == ["web-0", "web-1", "web-2"]
        })
        .await;
    assert!(cluster.now(pods).iter().all(|pod| phase(pod) == "Pending"));
}

#[sendo_test::test]
async fn a_deleted_pod_comes_back_under_its_name(cluster: TestCluster) {
    cluster.create(&stateful_set(2, json!({}))).await;
    until_ready(&cluster, &["web-0", "web-1"]).await;
    let before = cluster.get::<Pod>("default/web-0").unwrap();
    cluster.delete(&before).await;
    cluster
        .until("another web-0 runs", |now| {
            let pod = now.get::<Pod>("default/web-0");
            pod.is_some_and(|pod| pod.uid() != before.uid() && phase(&pod) == "Running")
        })
        .await;
}

#[sendo_test::test]
async fn ordinals_may_start_anywhere(cluster: TestCluster) {
    let set = cluster
        .create(&stateful_set(2, json!({"ordinals": {"start": 5}})))
        .await;
    until_ready(&cluster, &["web-5", "web-6"]).await;
    cluster
        .patch(&set, json!({"spec": {"ordinals": {"start": 6}}}))
        .await;
    until_ready(&cluster, &["web-6", "web-7"]).await;
}

#[sendo_test::test]
async fn an_update_goes_from_the_highest_ordinal_down(cluster: TestCluster) {
    let set = cluster.create(&stateful_set(3, json!({}))).await;
    until_ready(&cluster, &["web-0", "web-1", "web-2"]).await;
    let first = cluster.now(status).current_revision;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template("example.dev/app:2")}}),
        )
        .await;
    cluster
        .until("all are updated", |now| {
            let status = status(now);
            status.observed_generation == Some(2)
                && status.updated_replicas == Some(3)
                && status.current_revision == status.update_revision
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    assert_eq!(
        order(&cluster, &set, "SuccessfulDelete"),
        ["web-2", "web-1", "web-0"]
    );
    assert!(
        cluster
            .now(pods)
            .iter()
            .all(|pod| image(pod) == "example.dev/app:2")
    );
    // The template before is the newest revision again, and no other one is created for it.
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template("example.dev/app:1")}}),
        )
        .await;
    cluster
        .until("it is rolled back", |now| {
            let status = status(now);
            status.current_revision == first && status.update_revision == first
        })
        .await;
    assert_eq!(cluster.list::<ControllerRevision>().len(), 2);
}

#[sendo_test::test]
async fn an_update_leaves_out_what_is_below_the_partition(cluster: TestCluster) {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    let set = cluster
        .create(&stateful_set(3, json!({"updateStrategy": strategy})))
        .await;
    until_ready(&cluster, &["web-0", "web-1", "web-2"]).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template("example.dev/app:2")}}),
        )
        .await;
    cluster
        .until("one is updated", |now| {
            let status = status(now);
            status.updated_replicas == Some(1) && status.ready_replicas == Some(3)
        })
        .await;
    cluster.pass(Duration::from_secs(600)).await;
    let images = |now: &View| {
        pods(now)
            .iter()
            .map(|pod| image(pod).to_owned())
            .collect::<Vec<_>>()
    };
    let (old, new) = ("example.dev/app:1", "example.dev/app:2");
    assert_eq!(cluster.now(images), [old, old, new]);
    // A pod below the partition comes back as it was.
    cluster
        .delete(&cluster.get::<Pod>("default/web-0").unwrap())
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(cluster.now(images), [old, old, new]);
}

#[sendo_test::test]
async fn one_pod_at_a_time_is_replaced_whatever_may_be_unavailable(cluster: TestCluster) {
    // The field is behind a feature gate that is off in a default cluster.
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
    let more = json!({"updateStrategy": strategy, "podManagementPolicy": "Parallel"});
    let set = cluster.create(&stateful_set(5, more)).await;
    let all = ["web-0", "web-1", "web-2", "web-3", "web-4"];
    until_ready(&cluster, &all).await;
    let change = json!({"spec": {"template": template("example.dev/app:2")}});
    cluster.patch(&set, change).await;
    let largest = Cell::new(0);
    cluster
        .until("all are updated", |now| {
            let all = now.list::<Pod>();
            let is_available = |pod: &&Pod| phase(pod) == "Running" && !pod.is_being_deleted();
            let unavailable = 5 - all.iter().filter(is_available).count();
            largest.set(largest.get().max(unavailable));
            let is_new = |pod: &Pod| image(pod) == "example.dev/app:2";
            unavailable == 0 && pods(now).iter().all(is_new)
        })
        .await;
    assert_eq!(largest.get(), 1);
}

#[sendo_test::test]
async fn with_on_delete_nothing_is_replaced_until_it_is_deleted(cluster: TestCluster) {
    let strategy = json!({"updateStrategy": {"type": "OnDelete"}});
    let set = cluster.create(&stateful_set(2, strategy)).await;
    until_ready(&cluster, &["web-0", "web-1"]).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template("example.dev/app:2")}}),
        )
        .await;
    cluster.pass(Duration::from_secs(600)).await;
    assert!(
        cluster
            .now(pods)
            .iter()
            .all(|pod| image(pod) == "example.dev/app:1")
    );
    cluster
        .delete(&cluster.get::<Pod>("default/web-1").unwrap())
        .await;
    cluster
        .until("it is new", |now| {
            let pod = now.get::<Pod>("default/web-1");
            pod.is_some_and(|pod| image(&pod) == "example.dev/app:2")
        })
        .await;
}

#[sendo_test::test]
async fn old_revisions_are_deleted_beyond_the_limit(cluster: TestCluster) {
    let set = cluster
        .create(&stateful_set(1, json!({"revisionHistoryLimit": 1})))
        .await;
    for number in 2..=5 {
        until_ready(&cluster, &["web-0"]).await;
        let change = json!({"spec": {"template": template(&format!("example.dev/app:{number}"))}});
        cluster.patch(&set, change).await;
        cluster
            .until("it is updated", |now| {
                let status = status(now);
                status.observed_generation == Some(number) && status.updated_replicas == Some(1)
            })
            .await;
    }
    cluster
        .until("two revisions are left", |now| {
            now.list::<ControllerRevision>().len() == 2
        })
        .await;
}

#[sendo_test::test]
async fn each_pod_has_claims_of_its_own_which_stay(cluster: TestCluster) {
    let set = cluster
        .create(&stateful_set(2, json!({"volumeClaimTemplates": claims()})))
        .await;
    until_ready(&cluster, &["web-0", "web-1"]).await;
    let volume = cluster
        .get::<Pod>("default/web-1")
        .unwrap()
        .spec
        .unwrap()
        .volumes
        .unwrap();
    let claim = volume[0].persistent_volume_claim.as_ref().unwrap();
    assert_eq!(
        (volume[0].name.as_str(), claim.claim_name.as_str()),
        ("data", "data-web-1")
    );
    cluster.patch(&set, json!({"spec": {"replicas": 0}})).await;
    cluster
        .until("no pod is left", |now| pods(now).is_empty())
        .await;
    cluster.delete(&set).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(
        names(&cluster.list::<PersistentVolumeClaim>()),
        ["data-web-0", "data-web-1"]
    );
}

#[sendo_test::test]
async fn the_retention_policy_deletes_claims(cluster: TestCluster) {
    let more = json!({"volumeClaimTemplates": claims(),
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}});
    let set = cluster.create(&stateful_set(2, more)).await;
    until_ready(&cluster, &["web-0", "web-1"]).await;
    cluster.patch(&set, json!({"spec": {"replicas": 1}})).await;
    cluster
        .until("one claim is left", |now| {
            names(&now.list::<PersistentVolumeClaim>()) == ["data-web-0"]
        })
        .await;
    cluster.delete(&set).await;
    cluster
        .until("none is left", |now| {
            now.list::<PersistentVolumeClaim>().is_empty()
        })
        .await;
}

#[sendo_test::test(seeds = 3)]
async fn faults_create_nothing_twice(beside: TestCluster) {
    let (cluster, faults) = with_faults(&beside, "statefulset-controller", 0.2).await;
    let set = cluster
        .create(&stateful_set(3, json!({"volumeClaimTemplates": claims()})))
        .await;
    until_ready(&cluster, &["web-0", "web-1", "web-2"]).await;
    cluster
        .patch(
            &set,
            json!({"spec": {"template": template("example.dev/app:2")}}),
        )
        .await;
    cluster
        .until("all are updated", |now| {
            let status = status(now);
            status.observed_generation == Some(2)
                && status.updated_replicas == Some(3)
                && status.current_revision == status.update_revision
        })
        .await;
    assert!(faults.injected() > 0);
    faults.end();
    assert_eq!(cluster.list::<ControllerRevision>().len(), 2);
    assert_eq!(cluster.list::<PersistentVolumeClaim>().len(), 3);
    cluster.stop().await;
}
