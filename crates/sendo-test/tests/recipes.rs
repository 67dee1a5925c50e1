//! The recipes of the library's `examples` folder, each on a live cluster: what
//! they say they do, they do.

// Each is a program of its own: here its `main` is not called, and `pub` has no
// other crate to reach.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret, ServiceAccount};
use sendo::manifests::{Format as Manifests, Options};
use sendo::metrics::Format;
use sendo::{ObjectExt, Typed, conditions};
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

#[path = "../../sendo/examples/conditions.rs"]
mod conditions_recipe;
#[path = "../../sendo/examples/cross_object_index.rs"]
mod cross_object_index;
#[path = "../../sendo/examples/external_events.rs"]
mod external_events;
#[path = "../../sendo/examples/finalizer.rs"]
mod finalizer;
#[path = "../../sendo/examples/first_controller.rs"]
mod first_controller;
#[path = "../../sendo/examples/keyed_deletions.rs"]
mod keyed_deletions;
#[path = "../../sendo/examples/kinds_at_run_time.rs"]
mod kinds_at_run_time;
#[path = "../../sendo/examples/leader_runnable.rs"]
mod leader_runnable;
#[path = "../../sendo/examples/own_metrics.rs"]
mod own_metrics;
#[path = "../../sendo/examples/owned_children.rs"]
mod owned_children;
#[path = "../../sendo/examples/periodic_resync.rs"]
mod periodic_resync;
#[path = "../../sendo/examples/server_side_apply.rs"]
mod server_side_apply;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

async fn create<K: Typed>(cluster: &TestCluster, object: Value) -> K {
    let object: K = serde_json::from_value(object).expect("an object of its kind");
    cluster.create(&object).await
}

async fn config_map(cluster: &TestCluster, name: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": "default"});
    create(cluster, json!({"metadata": metadata})).await
}

/// An entry of a ConfigMap's data.
fn entry(cluster: &TestCluster, map: &str, name: &str) -> Option<String> {
    cluster.get::<ConfigMap>(map)?.data?.remove(name)
}

#[sendo_test::test]
async fn first_controller_labels_every_namespace(cluster: TestCluster) {
    cluster.run(first_controller::manager()).await;
    let label = "pod-security.kubernetes.io/enforce";
    let labels = json!({label: "privileged"});
    create::<Namespace>(
        &cluster,
        json!({"metadata": {"name": "own", "labels": labels}}),
    )
    .await;
    create::<Namespace>(&cluster, json!({"metadata": {"name": "new"}})).await;
    let has = |name: &str, value: &str| {
        let namespace = cluster.get::<Namespace>(name);
        namespace.is_some_and(|namespace| namespace.label(label) == Some(value))
    };
    cluster
        .until("all have the label", |_| {
            has("default", "baseline") && has("new", "baseline")
        })
        .await;
    assert!(has("own", "privileged"));
    cluster.stays_quiet_for(HOUR).await;
}

/// The rights that the recipe prints are those that it needs, and the pods that it prints run.
#[sendo_test::test]
async fn first_controller_runs_with_the_rights_that_it_prints(cluster: TestCluster) {
    let program = first_controller::manager();
    let options = Options {
        replicas: 2,
        ..Options::new(&program)
    };
    let files = program.manifests(&options, Manifests::Yaml).unwrap();
    let rights = cluster.rights(files.get("20-rbac.yaml").unwrap()).await;
    let running = first_controller::manager()
        .start(rights.replica("first"))
        .unwrap();
    cluster
        .until("the namespace has the label", |now| {
            let namespace = now.get::<Namespace>("default").unwrap();
            namespace
                .label("pod-security.kubernetes.io/enforce")
                .is_some()
        })
        .await;
    cluster.pass(MINUTE).await;
    running.stop().await.unwrap();
    assert_eq!(rights.refused(), [""; 0]);
    // Nobody reads its metrics here.
    let reviews = [
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ];
    assert_eq!(rights.unused(), reviews);

    cluster.deploy(&program, &options).await;
    cluster
        .until("two replicas are available", |now| {
            let deployment = now.get::<Deployment>("namespace-labels-system/namespace-labels");
            let status = deployment.and_then(|deployment| deployment.status);
            status.is_some_and(|status| status.available_replicas == Some(2))
        })
        .await;
}

#[sendo_test::test]
async fn owned_children_follow_their_owner(cluster: TestCluster) {
    use owned_children::{Website, WebsiteSpec};
    cluster.install::<Website>().await;
    cluster.run(owned_children::manager()).await;
    let spec = WebsiteSpec {
        config_map: "first".to_owned(),
        page: "hello".to_owned(),
    };
    let mut site = Website::new("site", spec);
    site.metadata.namespace = Some("default".to_owned());
    let site = cluster.create(&site).await;
    let says_hello = |map: &str| entry(&cluster, map, "index.html").as_deref() == Some("hello");
    cluster
        .until("the page is there", |_| says_hello("default/first"))
        .await;

    let map: ConfigMap = cluster.get("default/first").unwrap();
    cluster
        .patch(&map, json!({"data": {"index.html": "defaced"}}))
        .await;
    cluster
        .until("a change is undone", |_| says_hello("default/first"))
        .await;

    cluster
        .patch(&site, json!({"spec": {"configMap": "second"}}))
        .await;
    cluster
        .until("the child is replaced", |now| {
            says_hello("default/second") && now.get::<ConfigMap>("default/first").is_none()
        })
        .await;

    cluster.delete(&site).await;
    cluster
        .until("the child goes with its owner", |now| {
            now.get::<ConfigMap>("default/second").is_none()
        })
        .await;
}

#[sendo_test::test]
async fn finalizer_leaves_no_account_behind(cluster: TestCluster) {
    use finalizer::{Account, AccountSpec, Accounts};
    cluster.install::<Account>().await;
    let accounts = Accounts::default();
    cluster.run(finalizer::manager(accounts.clone())).await;
    let mut account = Account::new("ann", AccountSpec {});
    account.metadata.namespace = Some("default".to_owned());
    let account = cluster.create(&account).await;
    cluster.pass(MINUTE).await;
    assert_eq!(accounts.names(), ["default/ann"]);
    let kept = cluster.get::<Account>("default/ann").unwrap();
    let finalizers = kept.metadata.finalizers.unwrap_or_default();
    assert_eq!(finalizers, ["example.dev/account"]);

    cluster.delete(&account).await;
    cluster
        .until("the object is gone", |now| {
            now.get::<Account>("default/ann").is_none()
        })
        .await;
    assert_eq!(accounts.names(), [""; 0]);
}

#[sendo_test::test]
async fn periodic_resync_deletes_what_has_expired(cluster: TestCluster) {
    cluster.run(periodic_resync::manager(MINUTE)).await;
    let expires = cluster.world().clock().wall() + 90 * MINUTE;
    let annotations = json!({"example.dev/expires": expires.to_string()});
    let metadata = json!({"name": "brief", "namespace": "default", "annotations": annotations});
    create::<ConfigMap>(&cluster, json!({"metadata": metadata})).await;
    config_map(&cluster, "lasting").await;
    cluster.pass(MINUTE).await;
    cluster.stays_quiet_for(HOUR).await;
    assert!(cluster.get::<ConfigMap>("default/brief").is_some());
    cluster.pass(31 * MINUTE).await;
    assert!(cluster.get::<ConfigMap>("default/brief").is_none());
    assert!(cluster.get::<ConfigMap>("default/lasting").is_some());
}

#[sendo_test::test]
async fn external_events_reach_those_who_follow(cluster: TestCluster) {
    let (manager, pushes) = external_events::manager();
    cluster.run(manager).await;
    for name in ["a", "b"] {
        let annotations = json!({"example.dev/repository": name});
        let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
        create::<ConfigMap>(&cluster, json!({"metadata": metadata})).await;
    }
    cluster.pass(HOUR).await;
    let revision = |name: &str| entry(&cluster, name, "revision").unwrap();
    let (a, b) = (revision("default/a"), revision("default/b"));
    let repository = "a".to_owned();
    let push = external_events::Push { repository };
    pushes.send(push).await.unwrap();
    cluster.pass(MINUTE).await;
    assert_ne!(revision("default/a"), a, "a was pushed to");
    assert_eq!(revision("default/b"), b, "b was not");
}

#[sendo_test::test]
async fn cross_object_index_rolls_out_again(cluster: TestCluster) {
    cluster.run(cross_object_index::manager()).await;
    let map = config_map(&cluster, "settings").await;
    let unrelated = config_map(&cluster, "unrelated").await;
    let labels = json!({"app": "web"});
    let pod = json!({
        "containers": [{"name": "web", "image": "web"}],
        "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
    });
    create::<Deployment>(
        &cluster,
        json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }),
    )
    .await;
    cluster.pass(MINUTE).await;
    let rollouts = || cluster.list::<ReplicaSet>().len();
    let before = rollouts();
    cluster
        .patch(&unrelated, json!({"data": {"key": "value"}}))
        .await;
    cluster.pass(MINUTE).await;
    assert_eq!(rollouts(), before);
    cluster.patch(&map, json!({"data": {"key": "value"}})).await;
    cluster.pass(MINUTE).await;
    assert_eq!(rollouts(), before + 1);
    cluster.stays_quiet_for(HOUR).await;
}

#[sendo_test::test]
async fn keyed_deletions_are_counted(cluster: TestCluster) {
    cluster.run(keyed_deletions::manager()).await;
    let pod = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "main"}]},
        })
    };
    let first: Pod = create(&cluster, pod("first")).await;
    create::<Pod>(&cluster, pod("second")).await;
    let counted = |count: &'static str| {
        move |now: &View| {
            let namespace = now.get::<Namespace>("default").unwrap();
            namespace.annotation("example.dev/pods") == Some(count)
        }
    };
    cluster.until("two pods are counted", counted("2")).await;
    cluster.delete(&first).await;
    cluster.until("the deletion is seen", counted("1")).await;
}

#[sendo_test::test]
async fn leader_runnable_works_on_one_replica(cluster: TestCluster) {
    let start = |name: &str| {
        let config = cluster.replica(name, "node-report");
        leader_runnable::manager().start(config).unwrap()
    };
    let (first, second) = (start("first"), start("second"));
    cluster.pass(30 * MINUTE).await;
    let reports = || {
        let changes = cluster.changes();
        let written = |line: &&str| line.contains("/configmaps/default/node-report ");
        changes.lines().filter(written).count()
    };
    let once = reports();
    assert!((29..=31).contains(&once), "one a minute, not two: {once}");
    first.stop().await.unwrap();
    cluster.pass(30 * MINUTE).await;
    let more = reports() - once;
    assert!((29..=31).contains(&more), "the other went on: {more}");
    second.stop().await.unwrap();
}

#[sendo_test::test]
async fn own_metrics_come_and_go_with_their_objects(cluster: TestCluster) {
    let running = own_metrics::manager().start(cluster.config()).unwrap();
    running.ready().await;
    let metadata = json!({"name": "sized", "namespace": "default"});
    let map: ConfigMap = create(
        &cluster,
        json!({"metadata": metadata, "data": {"key": "value"}}),
    )
    .await;
    cluster.pass(MINUTE).await;
    let page = || running.metrics().encode(Format::Prometheus);
    let series = r#"config_map_bytes{key="default/sized"}"#;
    assert!(page().contains(&format!("{series} 8\n")), "{}", page());
    assert!(
        page().contains("\nconfig_maps_checked_total "),
        "{}",
        page()
    );
    cluster.delete(&map).await;
    cluster.pass(MINUTE).await;
    assert!(!page().contains(series), "{}", page());
    running.stop().await.unwrap();
}

#[sendo_test::test]
async fn server_side_apply_leaves_entries_of_others(cluster: TestCluster) {
    cluster.run(server_side_apply::manager()).await;
    let said = |name: &str| entry(&cluster, "default/defaults", name);
    let is_ours = |_: &View| said("registry").as_deref() == Some("registry.example.dev");
    cluster.until("the entry is there", is_ours).await;
    let map: ConfigMap = cluster.get("default/defaults").unwrap();
    let data = json!({"registry": "elsewhere.example.dev", "proxy": "none"});
    cluster.patch(&map, json!({"data": data})).await;
    cluster.until("ours is brought back", is_ours).await;
    assert_eq!(said("proxy").as_deref(), Some("none"));
    cluster.stays_quiet_for(HOUR).await;
}

#[sendo_test::test]
async fn kinds_at_run_time_are_all_labelled(cluster: TestCluster) {
    use owned_children::{Website, WebsiteSpec};
    cluster.run(kinds_at_run_time::manager()).await;
    let metadata = |name: &str| {
        let annotations = json!({"example.dev/team": "blue"});
        json!({"name": name, "namespace": "default", "annotations": annotations})
    };
    create::<Secret>(&cluster, json!({"metadata": metadata("s")})).await;
    create::<ServiceAccount>(&cluster, json!({"metadata": metadata("a")})).await;
    // A kind that did not exist when the program started.
    cluster.install::<Website>().await;
    let spec = WebsiteSpec {
        config_map: "c".to_owned(),
        page: String::new(),
    };
    let mut site = Website::new("w", spec);
    site.metadata = serde_json::from_value(metadata("w")).unwrap();
    cluster.create(&site).await;
    fn is_blue<K: Typed>(now: &View, key: &str) -> bool {
        let object = now.get::<K>(key);
        object.is_some_and(|object| object.label("example.dev/team") == Some("blue"))
    }
    cluster
        .until("objects of three kinds have the label", |now| {
            is_blue::<Secret>(now, "default/s")
                && is_blue::<ServiceAccount>(now, "default/a")
                && is_blue::<Website>(now, "default/w")
        })
        .await;
}

#[sendo_test::test]
async fn conditions_tell_of_each_turn(cluster: TestCluster) {
    use conditions_recipe::{Subscription, SubscriptionSpec};
    cluster.install::<Subscription>().await;
    cluster.run(conditions_recipe::manager()).await;
    let spec = SubscriptionSpec {
        topic: "news".to_owned(),
    };
    let mut sub = Subscription::new("mine", spec);
    sub.metadata.namespace = Some("default".to_owned());
    cluster.create(&sub).await;
    let is_ready = || {
        let sub = cluster.get::<Subscription>("default/mine").unwrap();
        let conditions = sub.status.clone().unwrap_or_default().conditions;
        conditions::is_true_for(&sub, &conditions, "Ready")
    };
    cluster.pass(MINUTE).await;
    assert!(!is_ready());
    config_map(&cluster, "news").await;
    cluster.until("it is ready", |_| is_ready()).await;
    cluster.pass(MINUTE).await;
    let mut reasons: Vec<_> = cluster
        .list::<Event>()
        .into_iter()
        .filter(|event| event.involved_object.kind.as_deref() == Some("Subscription"))
        .map(|event| (event.reason.unwrap_or_default(), event.count.unwrap_or(1)))
        .collect();
    reasons.sort();
    let once = [("TopicFound".to_owned(), 1), ("TopicMissing".to_owned(), 1)];
    assert_eq!(reasons, once);
    cluster.stays_quiet_for(HOUR).await;
}
