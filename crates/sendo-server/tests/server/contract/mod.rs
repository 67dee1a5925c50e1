//! What clients rely on where schemas decide: tables of requests and answers.
//!
//! Every table runs against a server in this process. With `SENDO_REAL_KUBECONFIG`
//! set, the same tables run against the API server of that kubeconfig: what both
//! answer is what Kubernetes does. There each test works in a namespace and an
//! API group of its own, and deletes its definitions when it is done.
//!
//! Webhooks are played by the test itself, on loopback: a real server must run on this
//! machine to reach them.
//!
//! ```text
//! cargo test --workspace --test server contract
//! SENDO_REAL_KUBECONFIG=~/.kube/config cargo test --workspace --test server contract
//! ```

mod admission;
mod conversion;
mod expressions;
mod place;
mod pod_security;
mod schemas;
mod story;
mod values;

use serde::de::DeserializeOwned;

/// Reads a table.
fn table<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).expect("the table is readable")
}

macro_rules! stories {
    ($($test:ident: $file:literal;)*) => {$(
        #[tokio::test]
        async fn $test() {
            story::run(include_str!(concat!("tables/", $file))).await;
        }
    )*};
}

stories! {
    applies_and_owners: "apply.yaml";
    applies_of_lists_and_maps: "apply-lists.yaml";
    applies_of_custom_resources: "apply-custom.yaml";
    managers_that_clients_write: "managed-fields.yaml";
    definitions_come_and_go: "definitions.yaml";
    versions_of_a_definition: "versions.yaml";
    conversions_by_a_webhook: "conversion.yaml";
    answers_of_conversion_webhooks: "conversion-answers.yaml";
    transitions_and_tolerance: "transitions.yaml";
    quotas_are_charged: "quotas.yaml";
    nodes_are_restricted: "nodes.yaml";
    certificates_are_restricted: "certificates.yaml";
    answers_of_admission_webhooks: "webhooks.yaml";
    policies_decide: "policies.yaml";
    policies_mutate: "mutations.yaml";
}

#[tokio::test]
async fn schemas_are_structural() {
    schemas::run(include_str!("tables/schemas.yaml")).await;
}

#[tokio::test]
async fn values_are_held_to_their_schema() {
    values::run(include_str!("tables/values.yaml")).await;
}

#[tokio::test]
async fn pods_meet_the_level_of_their_namespace() {
    pod_security::run(include_str!("tables/pod-security.yaml")).await;
}

#[tokio::test]
async fn rules_compile_or_are_refused() {
    expressions::compile(include_str!("tables/rules.yaml")).await;
}

#[tokio::test]
async fn expressions_have_the_values_of_kubernetes() {
    expressions::evaluate(include_str!("tables/expressions.yaml")).await;
}
