//! Both versions of a Bar: the API server has the program convert between them.

use std::time::Duration;

use bar::{Bar, manager, v1alpha1};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sendo::{ObjectKey, Patch};
use sendo_test::TestCluster;
use serde_json::json;

fn old_bar(name: &str, deployment: &str) -> v1alpha1::Bar {
    let spec = v1alpha1::BarSpec {
        deployment_name: deployment.to_owned(),
        replicas: Some(2),
    };
    let mut bar = v1alpha1::Bar::new(name, spec);
    bar.metadata.namespace = Some("default".to_owned());
    bar
}

async fn has_deployment(cluster: &TestCluster, name: &str) {
    let key = format!("default/{name}");
    let is_ready = |now: &sendo_test::View| {
        let deployment = now.get::<Deployment>(key.as_str());
        let status = deployment.and_then(|deployment| deployment.status);
        status.and_then(|status| status.available_replicas) == Some(2)
    };
    cluster
        .until(&format!("{name} is available"), is_ready)
        .await;
}

#[sendo_test::test]
async fn a_bar_is_read_and_written_in_both_versions(cluster: TestCluster) {
    let program = manager();
    cluster.install_kinds(&program).await;
    cluster.run(program).await;

    let old = cluster.create(&old_bar("a", "web")).await;
    assert_eq!(old.spec.deployment_name, "web");
    has_deployment(&cluster, "web").await;
    let live = cluster.client().live();
    let key = ObjectKey::namespaced("default", "a");
    let new: Bar = live.get(key.clone()).await.unwrap().unwrap();
    assert_eq!(new.spec.deployment, "web");

    let renamed = json!({"spec": {"deploymentName": "shop"}});
    cluster.patch(&old, renamed).await;
    has_deployment(&cluster, "shop").await;
    let old: v1alpha1::Bar = live.get(key).await.unwrap().unwrap();
    assert_eq!(old.spec.deployment_name, "shop");
    assert_eq!(old.status.unwrap().available_replicas, 2);

    // Each version validates what is written in it.
    let nameless = Patch::Merge(json!({"spec": {"deploymentName": ""}}));
    let refused = cluster.client().patch(&old_bar("a", ""), nameless).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("spec.deploymentName"), "{refused}");
}

#[sendo_test::test]
async fn bars_of_the_first_release_outlive_the_second(cluster: TestCluster) {
    // The first release knew one version.
    let mut first = v1alpha1::Bar::crd();
    first.spec.versions[0].storage = true;
    cluster.create(&first).await;
    cluster.pass(Duration::from_secs(1)).await;
    cluster.create(&old_bar("a", "web")).await;

    let program = manager();
    let second = program.definitions_in("default").remove(0);
    let key = ObjectKey::cluster(second.metadata.name.as_deref().unwrap_or_default());
    let install = |known: &mut CustomResourceDefinition| known.spec = second.spec.clone();
    let client = cluster.client();
    client
        .modify::<CustomResourceDefinition, ()>(&key, install)
        .await
        .unwrap();
    cluster.run(program).await;

    has_deployment(&cluster, "web").await;
    let new = client.live().get::<Bar>("default/a").await.unwrap();
    assert_eq!(new.unwrap().spec.deployment, "web");
    let definition: CustomResourceDefinition = client.live().get(key).await.unwrap().unwrap();
    let stored = definition.status.unwrap().stored_versions.unwrap();
    assert_eq!(stored, ["v1alpha1", "v1"]);
}
