//! What is refused before a Bar is stored, and what becomes of what slips through.

use std::time::Duration;

use bar::{Bar, BarSpec, manager};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use sendo::{ObjectExt, Patch};
use sendo_test::{Faults, TestCluster, View};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

fn bar(name: &str, deployment: &str) -> Bar {
    let spec = BarSpec {
        deployment: deployment.to_owned(),
        replicas: Some(1),
    };
    let mut bar = Bar::new(name, spec);
    bar.metadata.namespace = Some("default".to_owned());
    bar
}

/// What the API server says to a Bar.
async fn refusal(cluster: &TestCluster, bar: &Bar) -> String {
    let refused = cluster.client().create(bar).await;
    refused.unwrap_err().to_string()
}

/// The name of the Bar that has the Deployment.
fn holder(now: &View, deployment: &str) -> Option<String> {
    let deployment = now.get::<Deployment>(format!("default/{deployment}"))?;
    let bars = now.list::<Bar>();
    let holder = bars.iter().find(|bar| deployment.is_controlled_by(*bar))?;
    Some(holder.name().to_owned())
}

const TAKEN: &str = "admission webhook \"validate.bars.samplecontroller.example.dev\" denied the \
     request: Bar.samplecontroller.example.dev \"second\" is invalid: spec.deployment: \
     Duplicate value: \"web\"";

#[sendo_test::test]
async fn a_deployment_that_another_bar_names_is_refused(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    cluster.run(manager()).await;
    let first = cluster.create(&bar("first", "web")).await;
    // The program decides by its cache, which has the first Bar when it has been reconciled.
    let reconciled = |now: &View| now.get::<Deployment>("default/web").is_some();
    cluster.until("the first is reconciled", reconciled).await;
    assert_eq!(refusal(&cluster, &bar("second", "web")).await, TAKEN);

    // Neither by an update. What does not touch the name is not looked at.
    let second = cluster.create(&bar("second", "other")).await;
    let rename = Patch::Merge(json!({"spec": {"deployment": "web"}}));
    let refused = cluster.client().patch(&second, rename).await;
    assert_eq!(refused.unwrap_err().to_string(), TAKEN);
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.patch(&second, change).await;

    // The name is free again when its Bar is gone.
    cluster.delete(&first).await;
    let gone = |now: &View| now.get::<Bar>("default/first").is_none();
    cluster.until("the first is gone", gone).await;
    cluster
        .patch(&second, json!({"spec": {"deployment": "web"}}))
        .await;
    cluster
        .until("it has the Deployment", |now| {
            holder(now, "web").as_deref() == Some("second")
        })
        .await;
}

#[sendo_test::test]
async fn of_two_bars_that_slipped_through_one_has_the_deployment(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    // Nobody is asked yet.
    let first = cluster.create(&bar("first", "web")).await;
    cluster.pass(Duration::from_secs(1)).await;
    cluster.create(&bar("second", "web")).await;
    cluster.run(manager()).await;
    cluster.pass(MINUTE).await;
    let winner = cluster.get::<Deployment>("default/web").unwrap();
    let loser = match winner.is_controlled_by(&first) {
        true => "second",
        false => "first",
    };
    let mut events = cluster.list::<Event>();
    events.retain(|event| event.reason.as_deref() == Some("ErrResourceExists"));
    let about = |event: &Event| event.involved_object.name.clone().unwrap_or_default();
    assert_eq!(events.iter().map(about).collect::<Vec<_>>(), [loser]);

    // The loser can still be changed, and takes over when the other one goes.
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let bar = cluster.get::<Bar>(format!("default/{loser}")).unwrap();
    cluster.patch(&bar, change).await;
    let other = if loser == "first" { "second" } else { "first" };
    let bar = cluster.get::<Bar>(format!("default/{other}")).unwrap();
    cluster.delete(&bar).await;
    cluster
        .until("the loser has it", |now| {
            holder(now, "web").as_deref() == Some(loser)
        })
        .await;
}

#[sendo_test::test(seeds = 5)]
async fn with_faults_one_bar_has_the_deployment_whatever_passes(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let faults = Faults::new(cluster.world(), 0.3);
    cluster.run_with(manager(), cluster.faulty(&faults)).await;
    let mut passed = 0;
    for number in 0..5 {
        let bar = bar(&format!("bar-{number}"), "web");
        passed += u32::from(cluster.client().create(&bar).await.is_ok());
    }
    faults.end();
    assert!(faults.injected() > 0);
    assert!(passed > 0);
    cluster
        .until("one has it", |now| holder(now, "web").is_some())
        .await;
    let holder_is = |now: &View| holder(now, "web");
    let before = cluster.now(holder_is);
    cluster.pass(10 * MINUTE).await;
    assert_eq!(cluster.now(holder_is), before);
    // By now everybody knows.
    assert_eq!(refusal(&cluster, &bar("second", "web")).await, TAKEN);
}

#[sendo_test::test]
async fn while_the_program_does_not_run_bars_are_refused(cluster: TestCluster) {
    cluster.install::<Bar>().await;
    let running = cluster.start_manager(manager(), cluster.config()).await;
    running.ready().await;
    cluster.create(&bar("first", "web")).await;
    running.stop().await.unwrap();
    let refused = refusal(&cluster, &bar("second", "other")).await;
    assert!(
        refused.contains("failed calling webhook \"validate.bars.samplecontroller.example.dev\""),
        "{refused}"
    );
    cluster.run(manager()).await;
    cluster.create(&bar("second", "other")).await;
}

#[test]
fn nothing_of_a_bar_is_lost_on_the_way_to_the_other_version_and_back() {
    sendo_test::round_trips::<bar::v1alpha1::Bar>();
}
