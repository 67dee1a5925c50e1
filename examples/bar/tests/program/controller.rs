//! The whole program on a live cluster, in virtual time.

use std::time::Duration;

use bar::{Bar, BarSpec, manager};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sendo::{ObjectExt, Patch, Running};
use sendo_test::{Faults, Rights, TestCluster, View};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const RIGHTS: &str = include_str!("../../deploy/20-rbac.yaml");

fn bar(deployment: &str, replicas: Option<i32>) -> Bar {
    let spec = BarSpec {
        deployment: deployment.to_owned(),
        replicas,
    };
    let mut bar = Bar::new("example", spec);
    bar.metadata.namespace = Some("default".to_owned());
    bar
}

async fn set_up(cluster: &TestCluster) {
    cluster.install::<Bar>().await;
    cluster.run(manager()).await;
}

/// How many replicas the Bar says are available.
fn available(now: &View) -> i32 {
    let bar = now.get::<Bar>("default/example");
    let status = bar.and_then(|bar| bar.status).unwrap_or_default();
    status.available_replicas
}

async fn until_available(cluster: &TestCluster, count: i32) {
    let what = format!("{count} replicas are available");
    cluster.until(&what, |now| available(now) == count).await;
}

/// How often each Event about the Bar was recorded: type, reason, message.
fn events(cluster: &TestCluster) -> Vec<(String, i32)> {
    let mut events = cluster.list::<Event>();
    events.retain(|event| event.involved_object.kind.as_deref() == Some("Bar"));
    let line = |event: Event| {
        let text = |text: Option<String>| text.unwrap_or_default();
        let (kind, reason) = (text(event.type_), text(event.reason));
        let line = format!("{kind} {reason}: {}", text(event.message));
        (line, event.count.unwrap_or(1))
    };
    events.into_iter().map(line).collect()
}

#[sendo_test::test]
async fn a_bar_gets_its_deployment_and_follows_it(cluster: TestCluster) {
    set_up(&cluster).await;
    let made = cluster.create(&bar("web", Some(3))).await;
    until_available(&cluster, 3).await;
    let deployment = cluster.get::<Deployment>("default/web").unwrap();
    assert_eq!(deployment.controller_of::<Bar>(), Some(made.uid()));
    let status = cluster.get::<Bar>("default/example").unwrap().status;
    let selector = status.and_then(|status| status.selector).unwrap();
    assert_eq!(selector, "app=nginx,deployment=web");

    cluster.patch(&made, json!({"spec": {"replicas": 1}})).await;
    until_available(&cluster, 1).await;
    cluster.pass(MINUTE).await;
    let recorded = [("Normal Synced: Bar synced successfully".to_owned(), 2)];
    assert_eq!(events(&cluster), recorded);
    // Nothing is left to do: no write, no event.
    cluster.stays_quiet_for(HOUR).await;
}

#[sendo_test::test]
async fn a_changed_deployment_is_restored(cluster: TestCluster) {
    set_up(&cluster).await;
    cluster.create(&bar("web", Some(2))).await;
    until_available(&cluster, 2).await;
    let deployment = cluster.get::<Deployment>("default/web").unwrap();
    cluster
        .patch(&deployment, json!({"spec": {"replicas": 5}}))
        .await;
    cluster.pass(SECOND).await;
    let spec = cluster.get::<Deployment>("default/web").unwrap().spec;
    assert_eq!(spec.unwrap().replicas, Some(2));

    cluster.delete(&deployment).await;
    cluster
        .until("it is made again", |now| {
            let again = now.get::<Deployment>("default/web");
            again.is_some_and(|again| again.uid() != deployment.uid())
        })
        .await;
    until_available(&cluster, 2).await;
}

#[sendo_test::test]
async fn without_replicas_the_size_is_not_changed(cluster: TestCluster) {
    set_up(&cluster).await;
    cluster.create(&bar("web", None)).await;
    until_available(&cluster, 1).await;
    let deployment = cluster.get::<Deployment>("default/web").unwrap();
    cluster
        .patch(&deployment, json!({"spec": {"replicas": 4}}))
        .await;
    until_available(&cluster, 4).await;
    cluster.stays_quiet_for(HOUR).await;
}

#[sendo_test::test]
async fn a_renamed_deployment_replaces_the_old_one(cluster: TestCluster) {
    set_up(&cluster).await;
    let made = cluster.create(&bar("before", Some(1))).await;
    until_available(&cluster, 1).await;
    cluster
        .patch(&made, json!({"spec": {"deployment": "after"}}))
        .await;
    cluster
        .until("only the new one is left", |now| {
            let deployments = now.list::<Deployment>();
            let names: Vec<_> = deployments.iter().map(|d| d.name()).collect();
            names == ["after"] && now.list::<ReplicaSet>().len() == 1
        })
        .await;
    cluster.pass(MINUTE).await;
    let recorded = events(&cluster);
    let deleted = "Normal Deleted: Deleted Deployment \"before\", no longer named";
    assert!(recorded.contains(&(deleted.to_owned(), 1)), "{recorded:?}");
}

#[sendo_test::test]
async fn a_deployment_of_another_owner_is_not_changed(cluster: TestCluster) {
    set_up(&cluster).await;
    let theirs: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "main", "image": "example.dev/app:1"}]},
            },
        },
    }))
    .unwrap();
    let theirs = cluster.create(&theirs).await;
    cluster.create(&bar("web", Some(3))).await;
    cluster.pass(MINUTE).await;

    let recorded = events(&cluster);
    let warning =
        "Warning ErrResourceExists: Resource \"web\" already exists and is not managed by Bar";
    assert!(
        recorded.len() == 1 && recorded[0].0 == warning && recorded[0].1 > 1,
        "recorded with backoff: {recorded:?}"
    );
    let now = cluster.get::<Deployment>("default/web").unwrap();
    assert_eq!(now.metadata.owner_references, None);
    assert_eq!(now.spec.as_ref().unwrap().replicas, Some(1));

    // When its owner deletes it, the Bar creates its own.
    cluster.delete(&theirs).await;
    until_available(&cluster, 3).await;
}

#[sendo_test::test]
async fn an_invalid_spec_is_refused_with_the_reason(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let name_pattern = "spec.deployment in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'";
    for (name, replicas, why) in [
        (
            "web",
            Some(0),
            "spec.replicas in body should be greater than or equal to 1",
        ),
        (
            "web",
            Some(11),
            "spec.replicas in body should be less than or equal to 10",
        ),
        (
            "",
            None,
            "spec.deployment in body should be at least 1 chars long",
        ),
        ("No Name", None, name_pattern),
    ] {
        let refused = cluster.client().create(&bar(name, replicas)).await;
        let refusal = refused.unwrap_err().to_string();
        let bar = "Bar.samplecontroller.example.dev \"example\" is invalid: ";
        assert!(
            refusal.starts_with(bar) && refusal.contains(why),
            "{refusal}"
        );
    }
    // The scale subresource has the same rule.
    let made = cluster.create(&bar("web", Some(10))).await;
    let scale = cluster.client().subresource(&made, "scale").unwrap();
    let change = Patch::Merge(json!({"spec": {"replicas": 11}}));
    let refused = scale.patch::<Value>(change).await.unwrap_err();
    assert!(refused.to_string().contains("less than or equal to 10"));
}

#[sendo_test::test]
async fn a_bar_can_be_scaled_like_a_deployment(cluster: TestCluster) {
    set_up(&cluster).await;
    let made = cluster.create(&bar("web", Some(1))).await;
    until_available(&cluster, 1).await;
    let scale = cluster.client().subresource(&made, "scale").unwrap();
    let change = Patch::Merge(json!({"spec": {"replicas": 2}}));
    let answer: Value = scale.patch(change).await.unwrap();
    assert_eq!(answer["status"]["selector"], "app=nginx,deployment=web");
    until_available(&cluster, 2).await;
}

/// Whether nothing of the Bar is left.
fn is_gone(now: &View) -> bool {
    now.list::<Deployment>().is_empty()
        && now.list::<ReplicaSet>().is_empty()
        && now.list::<Pod>().is_empty()
}

#[sendo_test::test]
async fn a_deleted_bar_leaves_nothing_behind(cluster: TestCluster) {
    set_up(&cluster).await;
    let made = cluster.create(&bar("web", Some(2))).await;
    until_available(&cluster, 2).await;
    cluster.delete(&made).await;
    cluster.until("all of it is gone", is_gone).await;
    cluster.stays_quiet_for(HOUR / 2).await;
}

#[sendo_test::test]
async fn a_deleted_namespace_leaves_nothing_behind(cluster: TestCluster) {
    set_up(&cluster).await;
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "short"}})).unwrap();
    let namespace = cluster.create(&namespace).await;
    let mut here = bar("web", Some(2));
    here.metadata.namespace = Some("short".to_owned());
    cluster.create(&here).await;
    cluster
        .until("its pods are there", |now| now.list::<Pod>().len() == 2)
        .await;
    cluster.delete(&namespace).await;
    cluster
        .until("namespace and all are gone", |now| {
            now.get::<Namespace>("short").is_none() && is_gone(now) && now.list::<Bar>().is_empty()
        })
        .await;
}

#[sendo_test::test]
async fn a_deleted_definition_leaves_nothing_behind(cluster: TestCluster) {
    set_up(&cluster).await;
    cluster.create(&bar("web", Some(2))).await;
    until_available(&cluster, 2).await;
    // The garbage collector watches a new kind a little later.
    cluster.pass(SECOND).await;
    let definition = cluster.get::<CustomResourceDefinition>(Bar::crd_name());
    cluster.delete(&definition.unwrap()).await;
    cluster.until("all of it is gone", is_gone).await;
}

/// Runs the program as its ServiceAccount.
fn start(rights: &Rights, replica: &str) -> Running {
    manager().start(rights.replica(replica)).unwrap()
}

#[sendo_test::test]
async fn its_rights_are_enough_and_all_are_used(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let rights = cluster.rights(RIGHTS).await;
    let running = start(&rights, "first");
    let made = cluster.create(&bar("web", Some(1))).await;
    until_available(&cluster, 1).await;
    cluster.patch(&made, json!({"spec": {"replicas": 2}})).await;
    until_available(&cluster, 2).await;
    let rename = json!({"spec": {"deployment": "shop"}});
    cluster.patch(&made, rename).await;
    cluster
        .until("only the new one is left", |now| {
            let deployments = now.list::<Deployment>();
            deployments.len() == 1 && deployments[0].name() == "shop"
        })
        .await;
    cluster.delete(&made).await;
    cluster.until("all of it is gone", is_gone).await;
    running.stop().await.unwrap();

    assert_eq!(rights.refused(), [""; 0]);
    // Nobody reads its metrics here, and its webhooks are called in this process, without a
    // certificate. The finalizers are looked at where `blockOwnerDeletion` is checked.
    let others = [
        "create secrets in bar-controller-system",
        "create subjectaccessreviews.authorization.k8s.io",
        "create tokenreviews.authentication.k8s.io",
        "get customresourcedefinitions.apiextensions.k8s.io",
        "get secrets in bar-controller-system",
        "get validatingwebhookconfigurations.admissionregistration.k8s.io",
        "list customresourcedefinitions.apiextensions.k8s.io",
        "list endpointslices.discovery.k8s.io in bar-controller-system",
        "list secrets in bar-controller-system",
        "list validatingwebhookconfigurations.admissionregistration.k8s.io",
        "update bars/finalizers.samplecontroller.example.dev",
        "update customresourcedefinitions.apiextensions.k8s.io",
        "update secrets in bar-controller-system",
        "update validatingwebhookconfigurations.admissionregistration.k8s.io",
        "watch customresourcedefinitions.apiextensions.k8s.io",
        "watch secrets in bar-controller-system",
        "watch validatingwebhookconfigurations.admissionregistration.k8s.io",
    ];
    let mut unused = rights.unused();
    unused.sort();
    assert_eq!(unused, others);
}

#[sendo_test::test]
async fn a_second_run_writes_nothing(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let rights = cluster.rights(RIGHTS).await;
    let first = start(&rights, "first");
    cluster.create(&bar("web", Some(3))).await;
    until_available(&cluster, 3).await;
    cluster.pass(MINUTE).await;
    first.stop().await.unwrap();

    let second = start(&rights, "second");
    second.ready().await;
    // It becomes the leader, and an Event says so.
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR).await;
    // Counted by requests: not even one that would have changed nothing.
    let renewals = rights.renewals_of("second");
    assert!(renewals > 1000, "it led, and renewed its lease: {renewals}");
    second.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_replica_takes_over_without_a_missed_or_doubled_action(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let rights = cluster.rights(RIGHTS).await;
    let (first, second) = (start(&rights, "first"), start(&rights, "second"));
    first.ready().await;
    second.ready().await;
    let made = cluster.create(&bar("web", Some(1))).await;
    until_available(&cluster, 1).await;

    // The Bar is changed while one replica stops and the other takes over.
    let handover = async { first.stop().await.unwrap() };
    let changes = async {
        for replicas in 2..=10 {
            let change = json!({"spec": {"replicas": replicas}});
            cluster.patch(&made, change).await;
            cluster.pass(SECOND).await;
        }
    };
    futures::join!(handover, changes);
    until_available(&cluster, 10).await;
    cluster.pass(MINUTE).await;

    // The sizes that the Deployment has had, in order: one may be skipped while there is no leader,
    // but none comes back.
    let changes = cluster.changes();
    let deployment = changes
        .lines()
        .filter(|line| line.contains("/deployments/default/web "));
    let mut sizes: Vec<i64> = deployment
        .filter_map(|line| {
            let object = line.splitn(4, ' ').nth(3)?;
            let object: Value = serde_json::from_str(object).ok()?;
            object["spec"]["replicas"].as_i64()
        })
        .collect();
    sizes.dedup();
    assert!(sizes.is_sorted() && sizes.last() == Some(&10), "{sizes:?}");
    // One Deployment was created, and each size was written once, by one of the two.
    let both = [rights.writes_of("first"), rights.writes_of("second")];
    let count = |write: &str| {
        both.iter()
            .filter_map(|writes| writes.get(write))
            .sum::<u64>()
    };
    assert_eq!(count("create deployments.apps"), 1);
    assert_eq!(count("patch deployments.apps"), sizes.len() as u64 - 1);
    assert!(
        both[1].contains_key("patch deployments.apps"),
        "the second took over"
    );
    second.stop().await.unwrap();
}

/// The program reaches the same state with failing requests.
#[sendo_test::test(seeds = 10)]
async fn failures_of_the_api_delay_but_do_not_change_the_result(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let faults = Faults::new(cluster.world(), 0.3);
    let running = manager().start(cluster.faulty(&faults)).unwrap();
    let made = cluster.create(&bar("a", Some(3))).await;
    cluster.pass(MINUTE).await;
    cluster
        .patch(&made, json!({"spec": {"deployment": "b", "replicas": 2}}))
        .await;
    cluster.pass(MINUTE).await;
    assert!(faults.injected() > 0);
    faults.end();

    cluster
        .until("only b is left, with two replicas", |now| {
            let deployments = now.list::<Deployment>();
            let names: Vec<_> = deployments.iter().map(|d| d.name()).collect();
            names == ["b"] && available(now) == 2
        })
        .await;
    running.stop().await.unwrap();
}

#[test]
fn the_sample_has_only_known_fields() {
    let sample: Value = serde_saphyr::from_str(include_str!("../../samples/bar.yaml")).unwrap();
    let decoded: Bar = serde_json::from_value(sample.clone()).unwrap();
    let again = serde_json::to_value(decoded).unwrap();
    assert_eq!(again["spec"], sample["spec"]);
}
