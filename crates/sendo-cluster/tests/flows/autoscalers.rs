//! HorizontalPodAutoscalers: replicas that follow metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::DynamicObject;
use sendo::{Kind, ObjectExt, ObjectKey};
use sendo_cluster::ClusterOptions;
use sendo_server::LocalService;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, pods_of, until_running, with_faults};

/// A cluster with a metrics API. The test stops it.
async fn measured(beside: &TestCluster) -> TestCluster {
    let options = ClusterOptions {
        metrics_api: true,
        ..ClusterOptions::default()
    };
    TestCluster::start_with(beside.world().random().u64(), options).await
}

/// A Deployment whose pods request 100m and use as much as `usage` says.
fn web(replicas: i32, usage: &str) -> Deployment {
    object(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {
                    "labels": {"app": "web"},
                    "annotations": {"simulation.sendo.dev/usage-cpu": usage,
                        "simulation.sendo.dev/usage-memory": "main=64Mi"},
                },
                "spec": {"containers": [{"name": "main", "image": "example.dev/app:1",
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]},
            },
        },
    }))
}

fn autoscaler(name: &str, metrics: Value, more: Value) -> HorizontalPodAutoscaler {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": metrics,
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
}

/// The metric by which cpu is used to so many percent.
fn cpu(percent: i32) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

fn status(now: &View) -> HorizontalPodAutoscalerStatus {
    let autoscaler = now.get::<HorizontalPodAutoscaler>("default/h");
    autoscaler.and_then(|it| it.status).unwrap_or_default()
}

/// Status, reason and message of a condition.
fn condition(now: &View, type_: &str) -> (String, String, String) {
    let conditions = status(now).conditions.into_iter().flatten();
    let found = conditions.into_iter().find(|known| known.type_ == type_);
    let found = found.unwrap_or_default();
    let text = |text: Option<String>| text.unwrap_or_default();
    (found.status, text(found.reason), text(found.message))
}

fn replicas(now: &View) -> i32 {
    let web = now.get::<Deployment>("default/web");
    web.and_then(|web| web.spec?.replicas).unwrap_or_default()
}

async fn until_replicas(cluster: &TestCluster, count: i32) {
    let what = format!("there are {count} replicas");
    cluster.until(&what, |now| replicas(now) == count).await;
}

/// All pods of `web` use so much from now on.
async fn use_cpu(cluster: &TestCluster, usage: &str) {
    for pod in cluster.now(|now| pods_of(now, "web")) {
        let annotations = json!({"simulation.sendo.dev/usage-cpu": usage});
        cluster
            .patch(&pod, json!({"metadata": {"annotations": annotations}}))
            .await;
    }
}

#[sendo_test::test]
async fn replicas_follow_the_use_of_cpu_between_the_limits(beside: TestCluster) {
    let cluster = measured(&beside).await;
    cluster.create(&web(2, "200m")).await;
    until_running(&cluster, "web", 2).await;
    let made = cluster.create(&autoscaler("h", cpu(50), json!({}))).await;
    // Four times as many are wanted; twice as many, or four, may come at once.
    until_replicas(&cluster, 4).await;
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    let grown = "SuccessfulRescale New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert!(events.iter().any(|line| line == grown), "{events:?}");
    until_replicas(&cluster, 10).await;
    until_running(&cluster, "web", 10).await;
    cluster.pass(Duration::from_secs(60)).await;
    let limited = cluster.now(|now| condition(now, "ScalingLimited"));
    assert_eq!((&*limited.0, &*limited.1), ("True", "TooManyReplicas"));
    let active = cluster.now(|now| condition(now, "ScalingActive"));
    assert_eq!(active.1, "ValidMetricFound");
    let current = cluster.now(status).current_metrics.unwrap_or_default();
    let current = json!(current[0].resource.as_ref().unwrap().current);
    assert_eq!(
        current,
        json!({"averageUtilization": 200, "averageValue": "200m"})
    );

    use_cpu(&cluster, "5m").await;
    // What was recommended in the last five minutes keeps them.
    cluster.pass(Duration::from_secs(270)).await;
    assert_eq!(cluster.now(replicas), 10);
    let able = cluster.now(|now| condition(now, "AbleToScale"));
    assert_eq!(able.1, "ScaleDownStabilized");
    until_replicas(&cluster, 1).await;
    let events = events_about(&cluster, made.uid().as_str());
    let shrunk = "SuccessfulRescale New size: 1; reason: All metrics below target";
    assert!(events.iter().any(|line| line == shrunk), "{events:?}");
    cluster.pass(Duration::from_secs(600)).await;
    cluster.stays_quiet_for(Duration::from_secs(3_600)).await;
    cluster.stop().await;
}

#[sendo_test::test]
async fn the_largest_of_several_metrics_counts(beside: TestCluster) {
    let cluster = measured(&beside).await;
    cluster.create(&web(2, "50m")).await;
    until_running(&cluster, "web", 2).await;
    let metrics = json!([
        cpu(50)[0],
        {"type": "ContainerResource", "containerResource": {"container": "main", "name": "memory",
            "target": {"type": "AverageValue", "averageValue": "32Mi"}}},
    ]);
    cluster.create(&autoscaler("h", metrics, json!({}))).await;
    until_replicas(&cluster, 4).await;
    let current = cluster.now(status).current_metrics.unwrap_or_default();
    let memory = json!(current[1].container_resource);
    assert_eq!(memory["current"], json!({"averageValue": "64Mi"}));
    let active = cluster.now(|now| condition(now, "ScalingActive")).2;
    assert!(active.ends_with("from memory resource"), "{active}");
    cluster.stop().await;
}

#[sendo_test::test]
async fn rules_of_behaviour_bound_how_fast_replicas_come_and_go(beside: TestCluster) {
    let cluster = measured(&beside).await;
    cluster.create(&web(2, "200m")).await;
    until_running(&cluster, "web", 2).await;
    let rule = json!({"stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]});
    let more = json!({"maxReplicas": 4, "behavior": {"scaleUp": rule, "scaleDown": rule}});
    cluster.create(&autoscaler("h", cpu(50), more)).await;
    let is_limited_by =
        |reason: &'static str| move |now: &View| condition(now, "ScalingLimited").1 == reason;
    until_replicas(&cluster, 3).await;
    cluster
        .until("they come slowly", is_limited_by("ScaleUpLimit"))
        .await;
    cluster.pass(Duration::from_secs(50)).await;
    assert_eq!(cluster.now(replicas), 3);
    until_replicas(&cluster, 4).await;
    until_running(&cluster, "web", 4).await;
    cluster.pass(Duration::from_secs(70)).await;
    use_cpu(&cluster, "0").await;
    until_replicas(&cluster, 3).await;
    cluster
        .until("they go slowly", is_limited_by("ScaleDownLimit"))
        .await;
    cluster.pass(Duration::from_secs(50)).await;
    assert_eq!(cluster.now(replicas), 3);
    until_replicas(&cluster, 2).await;
    cluster.stop().await;
}

#[sendo_test::test]
async fn without_a_metrics_api_an_autoscaler_says_so(cluster: TestCluster) {
    cluster.create(&web(2, "0")).await;
    until_running(&cluster, "web", 2).await;
    let made = cluster.create(&autoscaler("h", cpu(50), json!({}))).await;
    cluster
        .until("it has tried", |now| {
            !condition(now, "ScalingActive").0.is_empty()
        })
        .await;
    let cause = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
    let active = cluster.now(|now| condition(now, "ScalingActive"));
    assert_eq!(
        active,
        (
            "False".to_owned(),
            "FailedGetResourceMetric".to_owned(),
            format!("the HPA was unable to compute the replica count: {cause}")
        )
    );
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    assert_eq!(
        events,
        [
            format!("FailedGetResourceMetric {cause}"),
            format!(
                "FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {cause}"
            ),
        ]
    );
    assert_eq!(cluster.now(replicas), 2);
}

#[sendo_test::test]
async fn limits_and_zero_need_no_metrics(cluster: TestCluster) {
    let web = cluster.create(&web(12, "0")).await;
    let made = cluster
        .create(&autoscaler("h", cpu(50), json!({"minReplicas": 3})))
        .await;
    until_replicas(&cluster, 10).await;
    cluster.patch(&web, json!({"spec": {"replicas": 1}})).await;
    until_replicas(&cluster, 3).await;
    cluster.patch(&web, json!({"spec": {"replicas": 0}})).await;
    cluster.pass(Duration::from_secs(120)).await;
    assert_eq!(cluster.now(replicas), 0);
    let active = cluster.now(|now| condition(now, "ScalingActive"));
    assert_eq!((&*active.0, &*active.1), ("False", "ScalingDisabled"));
    let events = events_about(&cluster, made.uid().as_str());
    for reason in ["above Spec.MaxReplicas", "below Spec.MinReplicas"] {
        assert!(
            events.iter().any(|line| line.ends_with(reason)),
            "{events:?}"
        );
    }
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn a_target_that_cannot_be_scaled_is_named(cluster: TestCluster) {
    let cases = [
        (
            "apps/v1",
            "Deployment",
            "deployments.apps \"web\" not found",
        ),
        (
            "example.dev/v1",
            "Boat",
            "no matches for kind \"Boat\" in group \"example.dev\"",
        ),
        (
            "apps/v1",
            "DaemonSet",
            "the server could not find the requested resource",
        ),
    ];
    for (version, kind, cause) in cases {
        let target = json!({"apiVersion": version, "kind": kind, "name": "web"});
        let wanted = autoscaler("h", cpu(50), json!({"scaleTargetRef": target}));
        let made = cluster.create(&wanted).await;
        let message =
            format!("the HPA controller was unable to get the target's current scale: {cause}");
        let expected = ("False".to_owned(), "FailedGetScale".to_owned(), message);
        cluster
            .until(&format!("{kind} cannot be scaled"), |now| {
                condition(now, "AbleToScale") == expected
            })
            .await;
        cluster.delete(&made).await;
    }
}

#[sendo_test::test]
async fn two_autoscalers_of_the_same_pods_stand_still(beside: TestCluster) {
    let cluster = measured(&beside).await;
    cluster.create(&web(2, "200m")).await;
    until_running(&cluster, "web", 2).await;
    cluster
        .create(&autoscaler("g", cpu(50), json!({"maxReplicas": 2})))
        .await;
    cluster.create(&autoscaler("h", cpu(50), json!({}))).await;
    let message = "pods by selector app=web are controlled by multiple HPAs: [default/g default/h]";
    cluster
        .until("the second one stands still", |now| {
            condition(now, "ScalingActive").2 == message
        })
        .await;
    assert_eq!(cluster.now(replicas), 2);
    cluster.stop().await;
}

/// Serves a group of metrics: the answer to each path.
async fn serve_metrics(
    cluster: &TestCluster,
    group: &'static str,
    version: &'static str,
    answers: BTreeMap<&'static str, Value>,
) -> LocalService {
    let discovery = format!("/apis/{group}/{version}");
    let registered = cluster.local_services().register(
        &format!(
            "{}.monitoring.svc",
            group.split('.').next().unwrap_or_default()
        ),
        443,
        move |request: Request<Bytes>| {
            let path = request.uri().path();
            let resource = json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": format!("{group}/{version}"), "resources": []});
            let answer = match path == discovery {
                true => Some(&resource),
                false => answers.get(path),
            };
            let (code, body) = match answer {
                Some(answer) => (200, answer.to_string()),
                None => (404, "no such path".to_owned()),
            };
            let response = Response::builder().status(code);
            let response = response.header("content-type", "application/json");
            let response = response.body(Bytes::from(body)).expect("a response");
            std::future::ready(response)
        },
    );
    let service: APIService = object(json!({
        "metadata": {"name": format!("{version}.{group}")},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 100,
            "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"namespace": "monitoring",
                "name": group.split('.').next().unwrap_or_default(), "port": 443}},
    }));
    cluster.create(&service).await;
    let name = format!("{version}.{group}");
    cluster
        .until("the API is available", |now| {
            let service = now.get::<APIService>(ObjectKey::cluster(&name));
            let status = service.and_then(|service| service.status);
            let mut conditions = status
                .into_iter()
                .flat_map(|it| it.conditions.into_iter().flatten());
            conditions.any(|known| known.type_ == "Available" && known.status == "True")
        })
        .await;
    registered
}

#[sendo_test::test]
async fn custom_metrics_of_pods_and_objects_are_read(cluster: TestCluster) {
    cluster.create(&web(2, "0")).await;
    let pods = until_running(&cluster, "web", 2).await;
    let value = |name: &str, value: &str| {
        json!({"describedObject": {"name": name}, "metric": {"name": "m"},
            "timestamp": "2026-01-01T00:00:00Z", "value": value})
    };
    let each: Vec<Value> = pods.iter().map(|pod| value(pod.name(), "30")).collect();
    let base = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
    let paths = [
        (format!("{base}/pods/*/requests"), json!({"items": each})),
        (
            format!("{base}/deployments.apps/web/backlog"),
            json!({"items": [value("web", "400")]}),
        ),
    ];
    let answers = paths.map(|(path, answer)| (&*path.leak(), answer)).into();
    let _served = serve_metrics(&cluster, "custom.metrics.k8s.io", "v1beta2", answers).await;
    let metrics = json!([
        {"type": "Pods", "pods": {"metric": {"name": "requests"},
            "target": {"type": "AverageValue", "averageValue": "20"}}},
        {"type": "Object", "object": {"metric": {"name": "backlog"},
            "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "target": {"type": "AverageValue", "averageValue": "100"}}},
    ]);
    cluster.create(&autoscaler("h", metrics, json!({}))).await;
    // 30 for 20 ask for three pods, 400 by hundreds for four.
    until_replicas(&cluster, 4).await;
    let current = json!(cluster.now(status).current_metrics);
    assert_eq!(current[0]["pods"]["current"], json!({"averageValue": "30"}));
    assert_eq!(
        current[1]["object"]["current"],
        json!({"averageValue": "200"})
    );
}

#[sendo_test::test]
async fn external_metrics_are_read_for_any_kind_with_a_scale(cluster: TestCluster) {
    let definition: CustomResourceDefinition = object(json!({
        "metadata": {"name": "boats.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"scale": {"specReplicasPath": ".spec.oars",
                    "statusReplicasPath": ".status.oars", "labelSelectorPath": ".status.selector"}}}],
        },
    }));
    cluster.create(&definition).await;
    cluster.pass(Duration::from_secs(10)).await;
    let kind = Kind {
        group: "example.dev".to_owned(),
        version: "v1".to_owned(),
        kind: "Boat".to_owned(),
        plural: "boats".to_owned(),
    };
    let boats = cluster.client().of_kind::<DynamicObject>(kind);
    let boat: DynamicObject = object(json!({
        "apiVersion": "example.dev/v1", "kind": "Boat",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"oars": 2}, "status": {"oars": 2, "selector": "app=web"},
    }));
    boats.create(&boat).await.expect("it is served");
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue";
    let values = json!({"items": [{"metricName": "queue", "metricLabels": {}, "value": "60",
        "timestamp": "2026-01-01T00:00:00Z"}, {"metricName": "queue", "metricLabels": {},
        "value": "30", "timestamp": "2026-01-01T00:00:00Z"}]});
    let answers = BTreeMap::from([(path, values)]);
    let _served = serve_metrics(&cluster, "external.metrics.k8s.io", "v1beta1", answers).await;
    let metrics = json!([{"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "30"}}}]);
    let target = json!({"apiVersion": "example.dev/v1", "kind": "Boat", "name": "web"});
    let more = json!({"scaleTargetRef": target});
    cluster.create(&autoscaler("h", metrics, more)).await;
    cluster
        .until("the boat is scaled", |now| {
            condition(now, "AbleToScale").1 == "SucceededRescale"
        })
        .await;
    let key = ObjectKey::namespaced("default", "web");
    let boat = boats
        .live_get(&key)
        .await
        .expect("it is read")
        .expect("it is there");
    assert_eq!(boat.data["spec"]["oars"], 3);
    let current = json!(cluster.now(status).current_metrics);
    assert_eq!(
        current[0]["external"]["current"],
        json!({"averageValue": "45"})
    );
}

#[sendo_test::test]
async fn usage_is_served_for_pods_and_nodes(beside: TestCluster) {
    let cluster = measured(&beside).await;
    cluster.create(&web(3, "200m")).await;
    until_running(&cluster, "web", 3).await;
    cluster.pass(Duration::from_secs(10)).await;
    let kind = |kind: &str, plural: &str| Kind {
        group: "metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let client = cluster.client();
    let pods = client.of_kind::<DynamicObject>(kind("PodMetrics", "pods"));
    let listed = pods
        .live_list(&Default::default())
        .await
        .expect("pods are listed");
    assert_eq!(listed.len(), 3);
    let one = pods.live_get(&ObjectKey::from_object(&listed[0])).await;
    let one = one.expect("it is read").expect("it is there");
    let usage = json!([{"name": "main", "usage": {"cpu": "200m", "memory": "64Mi"}}]);
    assert_eq!(one.data["containers"], usage);
    let nodes = client.of_kind::<DynamicObject>(kind("NodeMetrics", "nodes"));
    let nodes = nodes
        .live_list(&Default::default())
        .await
        .expect("nodes are listed");
    let mut used: Vec<_> = nodes
        .iter()
        .map(|node| node.data["usage"]["cpu"].clone())
        .collect();
    used.sort_by_key(Value::to_string);
    assert_eq!(used, ["200m", "400m"]);
    cluster.stop().await;
}

#[sendo_test::test(seeds = 3)]
async fn faults_do_not_keep_replicas_from_their_limits(beside: TestCluster) {
    let name = "horizontal-pod-autoscaler-controller";
    let (cluster, faults) = with_faults(&beside, name, 0.3).await;
    cluster.create(&web(5, "0")).await;
    cluster
        .create(&autoscaler("h", cpu(50), json!({"maxReplicas": 2})))
        .await;
    until_replicas(&cluster, 2).await;
    cluster
        .until("it says so", |now| status(now).current_replicas == Some(2))
        .await;
    assert!(faults.injected() > 0);
    cluster.stop().await;
}
