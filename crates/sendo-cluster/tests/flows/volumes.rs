//! Volumes: claims are bound, provisioned for, and their volumes reclaimed.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{events_about, object, phase, pod, with_faults};

fn claim(name: &str, more: Value) -> PersistentVolumeClaim {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}}});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    object(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
}

fn volume(name: &str, size: &str, policy: &str) -> PersistentVolume {
    object(json!({
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "by-hand", "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": format!("/tmp/{name}")}},
    }))
}

fn claim_phase(now: &View, name: &str) -> Option<String> {
    let claim = now.get::<PersistentVolumeClaim>(format!("default/{name}"))?;
    claim.status?.phase
}

fn volume_phase(now: &View, name: &str) -> Option<String> {
    now.get::<PersistentVolume>(name)?.status?.phase
}

async fn until_bound(cluster: &TestCluster, name: &str) -> PersistentVolumeClaim {
    cluster
        .until(&format!("{name} is bound"), |now| {
            claim_phase(now, name).as_deref() == Some("Bound")
        })
        .await;
    cluster
        .get::<PersistentVolumeClaim>(format!("default/{name}"))
        .expect("a claim")
}

#[sendo_test::test]
async fn a_claim_of_the_default_class_is_simply_bound(cluster: TestCluster) {
    let made = cluster.create(&claim("data", json!({}))).await;
    assert_eq!(
        made.spec.as_ref().unwrap().storage_class_name.as_deref(),
        Some("standard")
    );
    let bound = until_bound(&cluster, "data").await;
    let name = bound
        .spec
        .as_ref()
        .unwrap()
        .volume_name
        .clone()
        .expect("a volume");
    assert_eq!(name, format!("pvc-{}", made.uid()));
    let status = bound.status.clone().unwrap();
    assert_eq!(status.capacity.unwrap()["storage"].0, "2Gi");
    assert_eq!(
        status.access_modes.as_deref(),
        Some(&["ReadWriteOnce".to_owned()][..])
    );
    assert_eq!(
        cluster.now(|now| volume_phase(now, &name)).as_deref(),
        Some("Bound")
    );
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    let message = format!(
        "ProvisioningSucceeded Successfully provisioned volume {name} using sendo.dev/hostpath"
    );
    assert_eq!(events, [message]);
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
    cluster.delete(&bound).await;
    cluster
        .until("its volume goes with it", |now| {
            now.list::<PersistentVolume>().is_empty()
        })
        .await;
}

#[sendo_test::test]
async fn the_smallest_volume_that_fits_is_bound_and_kept(cluster: TestCluster) {
    for (name, size) in [("small", "1Gi"), ("large", "9Gi"), ("fitting", "3Gi")] {
        cluster.create(&volume(name, size, "Retain")).await;
    }
    cluster
        .until("they are available", |now| {
            ["small", "large", "fitting"]
                .iter()
                .all(|name| volume_phase(now, name).as_deref() == Some("Available"))
        })
        .await;
    cluster
        .create(&claim("data", json!({"storageClassName": "by-hand"})))
        .await;
    let bound = until_bound(&cluster, "data").await;
    assert_eq!(
        bound.spec.as_ref().unwrap().volume_name.as_deref(),
        Some("fitting")
    );
    assert_eq!(
        bound.annotation("pv.kubernetes.io/bound-by-controller"),
        Some("yes")
    );
    cluster.delete(&bound).await;
    cluster
        .until("it is released", |now| {
            volume_phase(now, "fitting").as_deref() == Some("Released")
        })
        .await;
    let released = cluster.get::<PersistentVolume>("fitting").unwrap();
    let reference = released
        .spec
        .unwrap()
        .claim_ref
        .expect("the reference stays");
    assert_eq!(reference.name.as_deref(), Some("data"));
}

#[sendo_test::test]
async fn a_claim_waits_until_a_volume_fits(cluster: TestCluster) {
    cluster
        .create(&claim("data", json!({"storageClassName": "by-hand"})))
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(
        cluster.now(|now| claim_phase(now, "data")).as_deref(),
        Some("Pending")
    );
    cluster.create(&volume("late", "2Gi", "Delete")).await;
    let bound = until_bound(&cluster, "data").await;
    cluster.delete(&bound).await;
    cluster
        .until("the volume is deleted", |now| {
            now.get::<PersistentVolume>("late").is_none()
        })
        .await;
}

#[sendo_test::test]
async fn a_claim_whose_volume_is_gone_is_lost(cluster: TestCluster) {
    let made = cluster.create(&claim("data", json!({}))).await;
    let bound = until_bound(&cluster, "data").await;
    let volume = bound.spec.unwrap().volume_name.unwrap();
    let volume = cluster.get::<PersistentVolume>(volume).unwrap();
    // The deletion waits for the finalizer of a volume that is bound.
    cluster.delete(&volume).await;
    cluster
        .patch(&volume, json!({"metadata": {"finalizers": null}}))
        .await;
    cluster
        .until("it is lost", |now| {
            claim_phase(now, "data").as_deref() == Some("Lost")
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    let last = events_about(&cluster, made.uid().as_str()).pop();
    let message =
        "ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(last.as_deref(), Some(message));
}

#[sendo_test::test]
async fn another_provisioner_is_told_of_a_claim(cluster: TestCluster) {
    let class: StorageClass = object(json!({
        "metadata": {"name": "other"}, "provisioner": "example.dev/disks",
    }));
    cluster.create(&class).await;
    let made = cluster
        .create(&claim("data", json!({"storageClassName": "other"})))
        .await;
    cluster
        .until("it is told", |now| {
            let claim = now.get::<PersistentVolumeClaim>("default/data");
            let told = "volume.kubernetes.io/storage-provisioner";
            claim.is_some_and(|claim| claim.annotation(told) == Some("example.dev/disks"))
        })
        .await;
    cluster.pass(Duration::from_secs(1)).await;
    let events = events_about(&cluster, made.uid().as_str());
    assert!(
        events[0].starts_with("ExternalProvisioning Waiting for a volume"),
        "{events:?}"
    );
    cluster.stays_quiet_for(Duration::from_secs(3600)).await;
}

#[sendo_test::test(seeds = 3)]
async fn faults_bind_each_claim_to_one_volume(beside: TestCluster) {
    let controller = "persistentvolume-binder-controller";
    let (cluster, faults) = with_faults(&beside, controller, 0.2).await;
    let class = sendo_workloads::volume_binder::default_class();
    cluster.create(&class).await;
    for number in 0..5 {
        cluster
            .create(&claim(&format!("data-{number}"), json!({})))
            .await;
    }
    for number in 0..5 {
        until_bound(&cluster, &format!("data-{number}")).await;
    }
    assert_eq!(cluster.list::<PersistentVolume>().len(), 5);
    assert!(faults.injected() > 0);
    cluster.stop().await;
}

/// A pod with an ephemeral volume `scratch`.
fn with_scratch(name: &str) -> Pod {
    let template = json!({"metadata": {"labels": {"app": "scratch"}}, "spec":
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let volume = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}});
    pod(name, json!({}), json!({"volumes": [volume]}))
}

#[sendo_test::test]
async fn an_ephemeral_volume_has_a_claim_as_long_as_its_pod(cluster: TestCluster) {
    let made = cluster.create(&with_scratch("p")).await;
    let claim = until_bound(&cluster, "p-scratch").await;
    assert_eq!(claim.label("app"), Some("scratch"));
    assert_eq!(claim.controller(), Some(made.uid()));
    cluster
        .until("it runs", |now| {
            let pod = now.get::<Pod>("default/p");
            pod.is_some_and(|pod| phase(&pod) == "Running")
        })
        .await;
    cluster.delete(&made).await;
    cluster
        .until("claim and volume are gone with it", |now| {
            now.list::<PersistentVolumeClaim>().is_empty()
                && now.list::<PersistentVolume>().is_empty()
        })
        .await;
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn a_claim_of_somebody_else_is_not_taken(cluster: TestCluster) {
    cluster.create(&claim("p-scratch", json!({}))).await;
    let made = cluster.create(&with_scratch("p")).await;
    cluster.pass(Duration::from_secs(5)).await;
    let events = events_about(&cluster, made.uid().as_str());
    let refused = "FailedBinding ephemeral volume scratch: PVC default/p-scratch was not created for pod default/p (pod is not owner)";
    assert!(events.iter().any(|line| line == refused), "{events:?}");
}
