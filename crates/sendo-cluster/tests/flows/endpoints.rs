//! Endpoints and EndpointSlices: the pods behind a Service, and what people write by hand.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{object, pod, replica_set, until_running};

fn service(name: &str, spec: Value) -> Service {
    object(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
}

fn slices_of(now: &View, service: &str) -> Vec<EndpointSlice> {
    let mut slices = now.list::<EndpointSlice>();
    slices.retain(|slice| slice.label("kubernetes.io/service-name") == Some(service));
    slices
}

/// The names of the ready endpoints of a Service, over all its slices.
fn ready(now: &View, service: &str) -> Vec<String> {
    let slices = slices_of(now, service);
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints.filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|conditions| conditions.ready) == Some(true)
    });
    let names = ready.filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.clone());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn addresses(now: &View, service: &str) -> Vec<String> {
    let endpoints = now.get::<Endpoints>(format!("default/{service}"));
    let subsets = endpoints
        .and_then(|endpoints| endpoints.subsets)
        .unwrap_or_default();
    let addresses = subsets
        .iter()
        .flat_map(|subset| subset.addresses.iter().flatten());
    addresses.map(|address| address.ip.clone()).collect()
}

#[sendo_test::test]
async fn endpoints_follow_the_pods_of_a_service(cluster: TestCluster) {
    let set = cluster.create(&replica_set("web", 3)).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]});
    let service = cluster.create(&service("web", spec)).await;
    let pods = until_running(&cluster, "web", 3).await;
    let mut names: Vec<String> = pods.iter().map(|pod| pod.name().to_owned()).collect();
    names.sort();
    cluster
        .until("all pods are ready endpoints", |now| {
            ready(now, "web") == names && addresses(now, "web").len() == 3
        })
        .await;
    cluster.patch(&set, json!({"spec": {"replicas": 1}})).await;
    cluster
        .until("one is left", |now| {
            ready(now, "web").len() == 1 && addresses(now, "web").len() == 1
        })
        .await;
    cluster.delete(&service).await;
    cluster
        .until("slices and Endpoints are gone", |now| {
            slices_of(now, "web").is_empty() && now.get::<Endpoints>("default/web").is_none()
        })
        .await;
}

#[sendo_test::test]
async fn more_than_a_hundred_pods_need_a_second_slice(cluster: TestCluster) {
    let labels = json!({"app": "many"});
    for number in 0..105 {
        cluster
            .create(&pod(&format!("many-{number}"), labels.clone(), json!({})))
            .await;
    }
    let spec = json!({"selector": {"app": "many"}, "clusterIP": "None"});
    cluster.create(&service("many", spec)).await;
    cluster
        .until("all are endpoints", |now| ready(now, "many").len() == 105)
        .await;
    let mut slices = cluster.list::<EndpointSlice>();
    slices.retain(|slice| slice.label("kubernetes.io/service-name") == Some("many"));
    let sizes = slices
        .iter()
        .map(|slice| slice.endpoints.iter().flatten().count());
    assert!(
        sizes.clone().all(|size| size <= 100),
        "{:?}",
        sizes.collect::<Vec<_>>()
    );
    assert!(slices.len() >= 2);
    let headless = |slice: &EndpointSlice| slice.label("service.kubernetes.io/headless").is_some();
    assert!(slices.iter().all(headless));
}

#[sendo_test::test]
async fn a_service_at_rest_causes_no_writes(cluster: TestCluster) {
    cluster.create(&replica_set("web", 2)).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    cluster.create(&service("web", spec)).await;
    cluster
        .create(&service(
            "none",
            json!({"selector": {"app": "none"}, "ports": [{"port": 80}]}),
        ))
        .await;
    cluster
        .create(&service("by-hand", json!({"ports": [{"port": 80}]})))
        .await;
    let endpoints: Endpoints = object(json!({
        "metadata": {"name": "by-hand", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    }));
    cluster.create(&endpoints).await;
    cluster
        .until("all have slices", |now| {
            ready(now, "web").len() == 2
                && slices_of(now, "none").len() == 1
                && slices_of(now, "by-hand").len() == 1
        })
        .await;
    cluster.pass(std::time::Duration::from_secs(60)).await;
    cluster
        .stays_quiet_for(std::time::Duration::from_secs(3600))
        .await;
}

#[sendo_test::test]
async fn endpoints_written_by_hand_are_mirrored_until_the_service_has_a_selector(
    cluster: TestCluster,
) {
    let service = cluster
        .create(&service("db", json!({"ports": [{"port": 5432}]})))
        .await;
    let endpoints: Endpoints = object(json!({
        "metadata": {"name": "db", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 5432}]}],
    }));
    cluster.create(&endpoints).await;
    let mirrored = |now: &View| {
        let slices = slices_of(now, "db");
        let addresses = slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flatten());
        addresses
            .flat_map(|endpoint| endpoint.addresses.clone())
            .collect::<Vec<_>>()
    };
    cluster
        .until("there is a slice", |now| mirrored(now) == ["192.0.2.7"])
        .await;
    let manager = |now: &View| {
        let slices = slices_of(now, "db");
        let managers = slices
            .iter()
            .filter_map(|slice| slice.label("endpointslice.kubernetes.io/managed-by"));
        managers.map(str::to_owned).collect::<Vec<_>>()
    };
    cluster
        .patch(&service, json!({"spec": {"selector": {"app": "db"}}}))
        .await;
    cluster
        .until("another controller has taken over", |now| {
            manager(now) == ["endpointslice-controller.k8s.io"]
        })
        .await;
}

#[sendo_test::test]
async fn endpoints_that_somebody_creates_for_no_service_stay(cluster: TestCluster) {
    let endpoints: Endpoints = object(json!({
        "metadata": {"name": "outside", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    }));
    cluster.create(&endpoints).await;
    cluster.pass(Duration::from_secs(600)).await;
    let there = |now: &View| addresses(now, "outside") == ["192.0.2.1"];
    cluster.until("they are there still", there).await;
}

#[sendo_test::test]
async fn a_slice_that_somebody_changed_is_restored(cluster: TestCluster) {
    cluster.create(&replica_set("web", 1)).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    cluster.create(&service("web", spec)).await;
    cluster
        .until("it is an endpoint", |now| ready(now, "web").len() == 1)
        .await;
    let mut slices = cluster.list::<EndpointSlice>();
    slices.retain(|slice| slice.label("kubernetes.io/service-name") == Some("web"));
    cluster.patch(&slices[0], json!({"endpoints": []})).await;
    cluster
        .until("it is one again", |now| ready(now, "web").len() == 1)
        .await;
    cluster.delete(&slices[0]).await;
    let pods = cluster.list::<Pod>().len();
    cluster
        .until("and again", |now| ready(now, "web").len() == pods)
        .await;
}
