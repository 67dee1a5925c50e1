//! Deployments: templates rolled out, rolled back, paused and scaled.

use std::cell::Cell;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, phase, pods_of};

const REVISION: &str = "deployment.kubernetes.io/revision";

/// A Deployment in `default`, labelled with its name, with whatever else its spec has.
fn deployment(name: &str, replicas: i32, more: Value) -> Deployment {
    let mut spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "example.dev/app:1"}]},
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
}

/// A merge patch to another image.
fn image(version: u32) -> Value {
    let container = json!({"name": "main", "image": format!("example.dev/app:{version}")});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

fn status(now: &View, name: &str) -> DeploymentStatus {
    let deployment = now.get::<Deployment>(format!("default/{name}"));
    deployment.and_then(|d| d.status).unwrap_or_default()
}

fn reason(status: &DeploymentStatus, kind: &str) -> String {
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == kind);
    condition
        .and_then(|condition| condition.reason.clone())
        .unwrap_or_default()
}

/// Whether the rollout of the newest generation has ended.
fn is_rolled_out(now: &View, name: &str) -> bool {
    let deployment = now.get::<Deployment>(format!("default/{name}"));
    let generation = deployment.and_then(|d| d.metadata.generation);
    let status = status(now, name);
    status.observed_generation == generation
        && reason(&status, "Progressing") == "NewReplicaSetAvailable"
        && status.replicas == status.updated_replicas
        && status.unavailable_replicas.is_none()
}

async fn until_rolled_out(cluster: &TestCluster, name: &str) {
    let what = format!("{name} is rolled out");
    cluster.until(&what, |now| is_rolled_out(now, name)).await;
}

/// The sets of a Deployment by revision.
fn sets(cluster: &TestCluster, name: &str) -> Vec<ReplicaSet> {
    let mut sets = cluster.list::<ReplicaSet>();
    sets.retain(|set| set.label("app") == Some(name));
    let number = |set: &ReplicaSet| set.annotation(REVISION).and_then(|r| r.parse::<i32>().ok());
    sets.sort_by_key(number);
    sets
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().unwrap().replicas.unwrap()
}

#[sendo_test::test]
async fn a_rollout_keeps_to_surge_and_unavailable(cluster: TestCluster) {
    let limits = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}});
    let made = cluster.create(&deployment("web", 4, limits)).await;
    until_rolled_out(&cluster, "web").await;

    cluster.patch(&made, image(2)).await;
    let (most, least) = (Cell::new(0), Cell::new(usize::MAX));
    cluster
        .until("the second template is rolled out", |now| {
            let pods = pods_of(now, "web");
            let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
            most.set(most.get().max(pods.len()));
            least.set(least.get().min(running));
            is_rolled_out(now, "web")
        })
        .await;
    assert!(most.get() <= 5, "{} pods at once", most.get());
    assert!(least.get() >= 3, "only {} ran", least.get());

    let sets = sets(&cluster, "web");
    let sizes: Vec<_> = sets.iter().map(size).collect();
    assert_eq!(sizes, [0, 4]);
    let hash = sets[1].label("pod-template-hash").unwrap();
    assert_eq!(sets[1].name(), format!("web-{hash}"));
    let now = cluster.get::<Deployment>("default/web").unwrap();
    assert_eq!(now.annotation(REVISION), Some("2"));
    cluster.pass(Duration::from_secs(60)).await;
    let events = events_about(&cluster, now.uid().as_str());
    let first = format!(
        "ScalingReplicaSet Scaled up replica set {} from 0 to 4",
        sets[0].name()
    );
    assert_eq!(events[0], first);
    cluster.stays_quiet_for(Duration::from_secs(3600)).await;
}

#[sendo_test::test]
async fn an_earlier_template_takes_its_set_back(cluster: TestCluster) {
    let made = cluster.create(&deployment("web", 2, json!({}))).await;
    until_rolled_out(&cluster, "web").await;
    let first = sets(&cluster, "web").remove(0);
    cluster.patch(&made, image(2)).await;
    until_rolled_out(&cluster, "web").await;
    cluster.patch(&made, image(1)).await;
    until_rolled_out(&cluster, "web").await;

    let sets = sets(&cluster, "web");
    assert_eq!(sets.len(), 2);
    assert_eq!(sets[1].uid(), first.uid());
    assert_eq!(sets[1].annotation(REVISION), Some("3"));
    let history = sets[1].annotation("deployment.kubernetes.io/revision-history");
    assert_eq!(history, Some("1"));
    assert_eq!((size(&sets[0]), size(&sets[1])), (0, 2));
}

#[sendo_test::test]
async fn recreate_ends_the_old_before_it_starts_the_new(cluster: TestCluster) {
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let made = cluster.create(&deployment("db", 2, recreate)).await;
    until_rolled_out(&cluster, "db").await;
    let old = sets(&cluster, "db").remove(0);
    cluster.patch(&made, image(2)).await;
    cluster
        .until("the second template is rolled out", |now| {
            let mut pods = now.list::<Pod>();
            pods.retain(|pod| pod.label("app") == Some("db"));
            let (before, after): (Vec<_>, Vec<_>) = pods
                .into_iter()
                .partition(|pod| pod.controller() == Some(old.uid()));
            assert!(before.is_empty() || after.is_empty(), "side by side");
            is_rolled_out(now, "db") && !after.is_empty()
        })
        .await;
}

#[sendo_test::test]
async fn a_paused_deployment_scales_but_does_not_roll(cluster: TestCluster) {
    let made = cluster.create(&deployment("web", 2, json!({}))).await;
    until_rolled_out(&cluster, "web").await;
    cluster
        .patch(&made, json!({"spec": {"paused": true}}))
        .await;
    cluster
        .until("it says so", |now| {
            reason(&status(now, "web"), "Progressing") == "DeploymentPaused"
        })
        .await;
    cluster.patch(&made, image(2)).await;
    cluster.patch(&made, json!({"spec": {"replicas": 3}})).await;
    cluster
        .until("it is scaled", |now| pods_of(now, "web").len() == 3)
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(sets(&cluster, "web").len(), 1);

    cluster
        .patch(&made, json!({"spec": {"paused": false}}))
        .await;
    until_rolled_out(&cluster, "web").await;
    assert_eq!(sets(&cluster, "web").len(), 2);
}

#[sendo_test::test]
async fn a_template_that_never_comes_up_exceeds_its_deadline(cluster: TestCluster) {
    let hungry = json!({
        "progressDeadlineSeconds": 60,
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "example.dev/app:1",
                "resources": {"requests": {"cpu": "1000"}}}]},
        },
    });
    cluster.create(&deployment("web", 1, hungry)).await;
    let before = cluster.world().clock().now();
    cluster
        .until("the deadline is exceeded", |now| {
            reason(&status(now, "web"), "Progressing") == "ProgressDeadlineExceeded"
        })
        .await;
    let waited = cluster.world().clock().now() - before;
    assert!((60..=63).contains(&waited.as_secs()), "{waited:?}");
    cluster.stays_quiet_for(Duration::from_secs(600)).await;
}

#[sendo_test::test]
async fn history_is_kept_up_to_its_limit(cluster: TestCluster) {
    let limit = json!({"revisionHistoryLimit": 1});
    let made = cluster.create(&deployment("web", 1, limit)).await;
    for version in 2..=4 {
        until_rolled_out(&cluster, "web").await;
        cluster.patch(&made, image(version)).await;
    }
    until_rolled_out(&cluster, "web").await;
    cluster.pass(Duration::from_secs(60)).await;
    let sets = sets(&cluster, "web");
    let revisions: Vec<_> = sets
        .iter()
        .filter_map(|set| set.annotation(REVISION))
        .collect();
    assert_eq!(revisions, ["3", "4"]);
}

#[sendo_test::test]
async fn a_taken_name_is_avoided(cluster: TestCluster) {
    let made = cluster.create(&deployment("web", 1, json!({}))).await;
    until_rolled_out(&cluster, "web").await;
    let taken = sets(&cluster, "web").remove(0);
    cluster.delete(&made).await;
    cluster
        .until("all of it is gone", |now| {
            now.get::<ReplicaSet>(taken.key()).is_none() && pods_of(now, "web").is_empty()
        })
        .await;

    let mut squatter = super::replica_set("other", 0);
    squatter.metadata.name = taken.metadata.name.clone();
    cluster.create(&squatter).await;
    cluster.create(&deployment("web", 1, json!({}))).await;
    until_rolled_out(&cluster, "web").await;
    cluster.pass(Duration::from_secs(1)).await;
    let now = cluster.get::<Deployment>("default/web").unwrap();
    assert_eq!(now.status.unwrap().collision_count, Some(1));
    assert_ne!(sets(&cluster, "web").remove(0).name(), taken.name());
}

#[sendo_test::test]
async fn a_deleted_deployment_leaves_nothing(cluster: TestCluster) {
    let made = cluster.create(&deployment("web", 3, json!({}))).await;
    until_rolled_out(&cluster, "web").await;
    cluster.delete(&made).await;
    cluster
        .until("sets and pods are gone", |now| {
            now.list::<ReplicaSet>().is_empty() && now.list::<Pod>().is_empty()
        })
        .await;
}
