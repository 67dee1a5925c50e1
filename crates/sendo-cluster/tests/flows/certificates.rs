//! CertificateSigningRequests: approved, signed, and deleted when they are old.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use sendo::ObjectExt;
use sendo_test::{TestCluster, View};
use serde_json::{Value, json};

use super::{object, without};

/// A request for a client `jane` in the group `crew`, made with `openssl req -new`.
const JANE: &str = include_str!("certificates/jane.csr");
/// One for the node `node-7`.
const NODE: &str = include_str!("certificates/node.csr");

fn request(name: &str, text: &str, signer: &str, usages: Value) -> CertificateSigningRequest {
    let mut csr: CertificateSigningRequest = object(json!({
        "metadata": {"name": name},
        "spec": {"request": "", "signerName": signer, "usages": usages},
    }));
    csr.spec.request = ByteString(text.as_bytes().to_vec());
    csr
}

fn client_usages() -> Value {
    json!(["digital signature", "client auth"])
}

async fn approve(cluster: &TestCluster, csr: &CertificateSigningRequest) {
    let mut approved = csr.clone();
    let condition = json!({"type": "Approved", "status": "True", "reason": "ByTest"});
    let status = approved.status.get_or_insert_default();
    status.conditions = Some(vec![object(condition)]);
    let subresource = cluster.client().subresource(csr, "approval");
    let subresource = subresource.expect("a subresource");
    let written: Result<Value, _> = subresource.update(&approved).await;
    written.expect("it is approved");
}

fn certificate(now: &View, name: &str) -> Option<Vec<u8>> {
    let csr = now.get::<CertificateSigningRequest>(name)?;
    Some(csr.status?.certificate?.0)
}

/// The types and reasons of the conditions.
fn conditions(now: &View, name: &str) -> Vec<String> {
    let csr = now.get::<CertificateSigningRequest>(name);
    let conditions = csr.and_then(|csr| csr.status?.conditions);
    let conditions = conditions.into_iter().flatten();
    let text = |reason: Option<String>| reason.unwrap_or_default();
    conditions
        .map(|known| format!("{} {}", known.type_, text(known.reason)))
        .collect()
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

#[sendo_test::test]
async fn what_is_approved_is_signed_and_deleted_after_an_hour(cluster: TestCluster) {
    let csr = cluster
        .create(&request("jane", JANE, CLIENT, client_usages()))
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(cluster.now(|now| conditions(now, "jane")), [""; 0]);
    approve(&cluster, &csr).await;
    cluster
        .until("it is issued", |now| certificate(now, "jane").is_some())
        .await;
    let issued = cluster
        .now(|now| certificate(now, "jane"))
        .unwrap_or_default();
    let issued = String::from_utf8(issued).expect("PEM");
    assert!(
        issued.starts_with("-----BEGIN CERTIFICATE-----\n"),
        "{issued}"
    );
    cluster.pass(Duration::from_secs(3500)).await;
    assert!(cluster.get::<CertificateSigningRequest>("jane").is_some());
    cluster.pass(Duration::from_secs(200)).await;
    assert!(cluster.get::<CertificateSigningRequest>("jane").is_none());
    cluster.stays_quiet_for(Duration::from_secs(86_400)).await;
}

#[sendo_test::test]
async fn a_request_that_is_not_for_its_signer_fails(cluster: TestCluster) {
    let usages = json!(["digital signature", "client auth", "server auth"]);
    let csr = cluster.create(&request("jane", JANE, CLIENT, usages)).await;
    approve(&cluster, &csr).await;
    let expected = ["Approved ByTest", "Failed SignerValidationFailure"];
    cluster
        .until("it has failed", |now| conditions(now, "jane") == expected)
        .await;
    let csr = cluster
        .create(&request("crew", JANE, NODE_CLIENT, client_usages()))
        .await;
    approve(&cluster, &csr).await;
    cluster
        .until("jane is no node", |now| conditions(now, "crew") == expected)
        .await;
    assert_eq!(cluster.now(|now| certificate(now, "jane")), None);
}

#[sendo_test::test]
async fn requests_of_nodes_are_approved_for_those_who_may(cluster: TestCluster) {
    cluster
        .create(&request("node", NODE, NODE_CLIENT, client_usages()))
        .await;
    cluster
        .until("it is issued", |now| certificate(now, "node").is_some())
        .await;
    assert_eq!(
        cluster.now(|now| conditions(now, "node")),
        ["Approved AutoApproved"]
    );
    // Nobody approves that a client is anybody else.
    cluster
        .create(&request("jane", JANE, NODE_CLIENT, client_usages()))
        .await;
    cluster
        .create(&request("other", NODE, CLIENT, client_usages()))
        .await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(cluster.now(|now| conditions(now, "jane")), [""; 0]);
    assert_eq!(cluster.now(|now| conditions(now, "other")), [""; 0]);
}

#[sendo_test::test]
async fn without_the_signer_requests_stay_without_a_certificate(beside: TestCluster) {
    let cluster = without(&beside, "certificatesigningrequest-signing-controller").await;
    let csr = cluster
        .create(&request("jane", JANE, CLIENT, client_usages()))
        .await;
    approve(&cluster, &csr).await;
    cluster.pass(Duration::from_secs(3600)).await;
    assert_eq!(cluster.now(|now| certificate(now, "jane")), None);
    assert_eq!(csr.name(), "jane");
    cluster.stop().await;
}
