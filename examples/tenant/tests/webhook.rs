//! What is filled in before a Tenant is stored.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use sendo::{ObjectExt, Patch};
use sendo_test::{Faults, TestCluster, View};
use serde_json::{Value, json};
use tenant::api::Tenant;
use tenant::directory::Directory;
use tenant::{Options, manager};

fn tenant(metadata: Value, spec: Value) -> Tenant {
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn blue() -> Tenant {
    tenant(json!({"name": "blue"}), json!({"namespaces": ["dev"]}))
}

fn without_teams() -> Options {
    Options::new(Directory::empty())
}

fn has_namespace(now: &View, name: &str) -> bool {
    let found = now.get::<Namespace>(name);
    found.is_some_and(|namespace| namespace.controller_of::<Tenant>().is_some())
}

#[sendo_test::test]
async fn a_tenant_without_a_prefix_gets_one_of_its_name(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    cluster.run(manager(without_teams())).await;
    let created = cluster.create(&blue()).await;
    assert_eq!(created.spec.namespace_prefix, "blue-");
    cluster
        .until("it has its namespace", |now| has_namespace(now, "blue-dev"))
        .await;

    // A prefix that is given stays, and what is there is left alone by updates.
    let spec = json!({"namespacePrefix": "r-", "namespaces": []});
    let red = cluster.create(&tenant(json!({"name": "red"}), spec)).await;
    assert_eq!(red.spec.namespace_prefix, "r-");
    let more = cluster
        .patch(&red, json!({"spec": {"namespaces": ["a"]}}))
        .await;
    assert_eq!(more.spec.namespace_prefix, "r-");
}

#[sendo_test::test]
async fn what_cannot_be_completed_is_refused_by_the_schema(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    cluster.run(manager(without_teams())).await;
    let unnamed = tenant(json!({"generateName": "t-"}), json!({"namespaces": []}));
    let refused = cluster.client().create(&unnamed).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("spec.namespacePrefix: Required value"),
        "{refused}"
    );
    let long = tenant(json!({"name": "x".repeat(40)}), json!({"namespaces": []}));
    let refused = cluster.client().create(&long).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("spec.namespacePrefix: Too long"),
        "{refused}"
    );
    // The prefix is never taken away, so nothing is filled in again.
    let blue = cluster.create(&blue()).await;
    let without = Patch::Merge(json!({"spec": {"namespacePrefix": null}}));
    let again = cluster.client().patch(&blue, without).await.unwrap();
    assert_eq!(again.spec.namespace_prefix, "blue-");
}

#[sendo_test::test(seeds = 5)]
async fn with_faults_every_tenant_has_its_prefix(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let faults = Faults::new(cluster.world(), 0.3);
    cluster
        .run_with(manager(without_teams()), cluster.faulty(&faults))
        .await;
    for number in 0..5 {
        let name = format!("tenant-{number}");
        let spec = json!({"namespaces": ["dev"]});
        let created = cluster.create(&tenant(json!({"name": name}), spec)).await;
        assert_eq!(created.spec.namespace_prefix, format!("{name}-"));
    }
    faults.end();
    assert!(faults.injected() > 0);
    cluster
        .until("all have their namespaces", |now| {
            (0..5).all(|number| has_namespace(now, &format!("tenant-{number}-dev")))
        })
        .await;
}

#[sendo_test::test]
async fn while_the_program_does_not_run_tenants_are_refused(cluster: TestCluster) {
    cluster.install::<Tenant>().await;
    let running = cluster
        .start_manager(manager(without_teams()), cluster.config())
        .await;
    running.ready().await;
    running.stop().await.unwrap();
    let refused = cluster.client().create(&blue()).await.unwrap_err();
    let told = "failed calling webhook \"default.tenants.multitenancy.example.dev\"";
    assert!(refused.to_string().contains(told), "{refused}");
    cluster.pass(Duration::from_secs(1)).await;
    cluster.run(manager(without_teams())).await;
    cluster.create(&blue()).await;
}
