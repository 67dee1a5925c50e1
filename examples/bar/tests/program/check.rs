//! What `check` finds on a cluster: nothing installed, everything well, kinds of another program.

use std::collections::BTreeSet;

use bar::manager;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use sendo::check::{self, Report};
use sendo::manager::{RightsOptions, ServedWebhooks};
use sendo::manifests::Options;
use sendo::webhook::{Certificates, Reached};
use sendo::{Manager, ObjectExt};
use sendo_test::TestCluster;
use serde_json::json;

const NAMESPACE: &str = "bar-controller-system";

async fn check(cluster: &TestCluster, manager: &Manager) -> Report {
    let options = check::Options {
        namespace: NAMESPACE.to_owned(),
        rights: RightsOptions {
            webhooks: Some(ServedWebhooks {
                reached: Reached::by_service_of(manager.name(), NAMESPACE),
                certificates: Certificates::Own,
            }),
            ..RightsOptions::default()
        },
    };
    let client = cluster.config().client;
    manager.check_cluster(&client, &options).await.unwrap()
}

fn errors(report: &Report) -> BTreeSet<String> {
    let findings = report.findings.iter();
    findings
        .map(|finding| format!("{}: {}", finding.about, finding.problem))
        .collect()
}

/// Deploys the program, serves its webhooks from this process, and has them trusted, as the program
/// itself does where it listens.
async fn deploy(cluster: &TestCluster) -> sendo::Running {
    let options = Options::new(&manager());
    cluster.deploy(&manager(), &options).await;
    let mut config = cluster.config();
    config.webhooks.reached = Some(Reached::by_service_of(manager().name(), NAMESPACE));
    let running = manager().start(config).unwrap();
    running.ready().await;
    let bundle = "LS0tLS1CRUdJTg==";
    let configuration: ValidatingWebhookConfiguration = cluster
        .get("bar-controller")
        .expect("the configuration is printed");
    let mut webhooks = configuration.webhooks.clone().unwrap_or_default();
    for webhook in &mut webhooks {
        webhook.client_config.ca_bundle = Some(ByteString(bundle.into()));
    }
    cluster
        .patch(&configuration, json!({"webhooks": webhooks}))
        .await;
    cluster
        .until("pods are behind the Service", |now| {
            let slices = now.list::<EndpointSlice>();
            slices.iter().any(|slice| {
                slice.name().starts_with("bar-controller-webhooks")
                    && serde_json::to_value(slice)
                        .is_ok_and(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
            })
        })
        .await;
    running
}

#[sendo_test::test]
async fn a_cluster_without_the_program_lacks_its_kinds_and_webhooks(cluster: TestCluster) {
    let report = check(&cluster, &manager()).await;
    assert!(!report.is_fine());
    let errors = errors(&report);
    let expected = [
        "CustomResourceDefinition bars.samplecontroller.example.dev: ",
        "ValidatingWebhookConfiguration bar-controller: it is not in the cluster",
        "Service bar-controller-system/bar-controller-webhooks: it is not in the cluster",
    ];
    for expected in expected {
        let mut errors = errors.iter();
        assert!(errors.any(|error| error.starts_with(expected)), "{report}");
    }
    assert!(
        report
            .findings
            .iter()
            .all(|finding| !finding.fix.is_empty())
    );
}

#[sendo_test::test]
async fn a_deployed_program_whose_webhooks_are_served_has_no_finding(cluster: TestCluster) {
    let running = deploy(&cluster).await;
    let report = check(&cluster, &manager()).await;
    assert_eq!(report.findings, [], "{report}");
    let called = "the API server calls the program's webhooks";
    assert!(report.passed.iter().any(|one| one == called), "{report}");
    running.stop().await.unwrap();
}

#[sendo_test::test]
async fn a_definition_of_another_program_is_found(cluster: TestCluster) {
    let running = deploy(&cluster).await;
    let definition: CustomResourceDefinition =
        cluster.get("bars.samplecontroller.example.dev").unwrap();
    let mut versions = definition.spec.versions.clone();
    versions.retain(|version| version.storage);
    let change = json!({"spec": {"versions": versions}});
    cluster.patch(&definition, change).await;
    let report = check(&cluster, &manager()).await;
    assert!(!report.is_fine(), "{report}");
    let mut about = report.findings.iter().map(|finding| &finding.about);
    let definition = "CustomResourceDefinition bars.samplecontroller.example.dev";
    assert!(about.any(|about| about == definition), "{report}");
    running.stop().await.unwrap();
}
